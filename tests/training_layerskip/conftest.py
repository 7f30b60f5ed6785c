"""A tiny llama of random weights as a GGUF file, and small corpora in the layouts of the real ones."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 320, 64, 4, 4, 2, 96
NAMES = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NXT = '<?xml version="1.0" encoding="ISO-8859-1"?><nite:root nite:id="r" xmlns:nite="http://nite.sourceforge.net/">'
SPOKEN = ("red", "green", "old", "new", "house", "garden", "train", "river", "cat", "bird", "sings", "runs")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the model."""
    gguf = pytest.importorskip("gguf", reason="gguf-py is not installed; ./scripts/setup --training")
    path = tmp_path_factory.mktemp("model") / "tiny-F32.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(5000.0)
    names = [*NAMES, "\u2581"] + [f"<0x{byte:02X}>" for byte in range(256)]
    names += [f"unused{i}" for i in range(VOCAB - len(names))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3, 3, 3, 1] + [6] * 256 + [1] * (VOCAB - 262))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(4)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(5)
    for name, shape in _shapes().items():
        weights = rng.standard_normal(shape) / np.sqrt(shape[-1]) if len(shape) > 1 else 1 + rng.random(shape) / 4
        writer.add_tensor(name, (weights * (8 if name.startswith("token") else 1)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes() -> dict[str, tuple[int, ...]]:
    kv = WIDTH // HEADS * KV_HEADS
    layer = {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH)}
    layer |= {"attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (INNER, WIDTH)}
    layer |= {"ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, WIDTH)}
    found |= {f"blk.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in layer.items()}
    return found | {"output_norm.weight": (WIDTH,)}


@pytest.fixture(scope="session")
def dailydialog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small dailydialog.tsv.gz of made-up sentences."""
    folder = tmp_path_factory.mktemp("dailydialog")
    rng = np.random.default_rng(13)
    lines = ["split\tdialogue\tturn\tact\temotion\ttext"]
    for split, count in (("train", 12), ("validation", 6), ("test", 2)):
        for dialogue in range(count):
            for turn in range(4):
                lines.append(f"{split}\t{dialogue}\t{turn}\t1\t0\t{' '.join(rng.choice(SPOKEN, 6))} .")
    (folder / "dailydialog.tsv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return folder


@pytest.fixture(scope="session")
def ami(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two meetings in NXT's layout; EN2001a gives exactly 40 pairs of turns that fit the rule of the items."""
    folder = tmp_path_factory.mktemp("ami") / "words"
    folder.mkdir()
    rng = np.random.default_rng(14)
    for meeting, turns in (("EN2001a", 80), ("ES2002a", 40), ("ES2002b", 40)):
        spoken: dict[str, list[Any]] = {"A": [], "B": []}
        for turn in range(turns):
            words = [*rng.choice(SPOKEN, 8), f"{meeting.lower()}", f"number{turn}"]
            for place, word in enumerate(words):
                start = turn * 5.0 + place * 0.4
                spoken["AB"[turn % 2]].append(f'<w starttime="{start:.2f}" endtime="{start + 0.4:.2f}">{word}</w>')
        for speaker, rows in spoken.items():
            (folder / f"{meeting}.{speaker}.words.xml").write_text(NXT + "".join(rows) + "</nite:root>")
    return folder.parent
