"""A tiny chat model with random weights and a vocabulary of bytes, and a corpus for it."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.native import symbols

VOCAB, WIDTH, LAYERS, HEADS, INNER = 320, 64, 4, 2, 96
NAMES = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = [
    "red",
    "green",
    "old",
    "new",
    "house",
    "garden",
    "train",
    "river",
    "cat",
    "bird",
    "sings",
    "runs",
    "near",
    "over",
]


@pytest.fixture(scope="session")
def weights() -> dict[str, Any]:
    """Random tensors by name, the same ones each time."""
    rng = np.random.default_rng(11)

    def matrix(n_out: int, n_in: int) -> Any:
        return (rng.standard_normal((n_out, n_in)) / np.sqrt(n_in)).astype(np.float32)

    found = {"token_embd.weight": matrix(VOCAB, WIDTH) * 8, "output_norm.weight": 1 + 3 * matrix(1, WIDTH)[0]}
    found["output.weight"] = matrix(VOCAB, WIDTH)
    for layer in range(LAYERS):
        shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
        shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        found |= {f"blk.{layer}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        found |= {f"blk.{layer}.{name}.weight": 1 + matrix(1, WIDTH)[0] for name in ("attn_norm", "ffn_norm")}
    return found


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, weights: dict[str, Any]) -> Path:
    """The path of the model as a GGUF file. Skips on a library without the patches."""
    can = symbols.capabilities()
    if not (can.layer_range and can.draft_head and can.no_split_kv):
        pytest.skip(f"llama.cpp was built without our patches ({can}); ./scripts/setup builds it")
    symbols.set_row_exact(True)
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_gguf(path, metadata("llama"), weights)
    return path


@pytest.fixture(scope="session")
def other_architecture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gpt2 of random weights: llama.cpp loads it, early exits do not know it."""
    rng = np.random.default_rng(12)

    def values(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    shapes = {"attn_qkv": (3 * WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_up": (INNER, WIDTH)}
    shapes |= {"ffn_down": (WIDTH, INNER)}
    found = {"token_embd.weight": values(VOCAB, WIDTH), "position_embd.weight": values(256, WIDTH)}
    found |= {f"output_norm.{part}": values(WIDTH) for part in ("weight", "bias")}
    for name, shape in shapes.items():
        found |= {f"blk.0.{name}.weight": values(*shape), f"blk.0.{name}.bias": values(shape[0])}
    found |= {
        f"blk.0.{name}.{part}": values(WIDTH) for name in ("attn_norm", "ffn_norm") for part in ("weight", "bias")
    }
    path = tmp_path_factory.mktemp("gpt2") / "other.gguf"
    keys = {key: value for key, value in metadata("gpt2").items() if "rms" not in key}
    keys |= {"gpt2.block_count": 1, "gpt2.context_length": 256, "gpt2.attention.layer_norm_epsilon": 1e-5}
    write_gguf(path, keys, found)
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small dailydialog.tsv.gz of made-up sentences: 60 training and 90 test dialogues."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(13)
    lines = ["split\tdialogue\tturn\tact\temotion\ttext"]
    for split, count in (("train", 60), ("test", 90)):
        for dialogue in range(count):
            for turn in range(1 + dialogue % 4):
                text = " ".join(rng.choice(WORDS, 5))
                lines.append(f"{split}\t{dialogue}\t{turn}\t1\t0\t{text} {split} .")
    (folder / "dailydialog.tsv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return folder


def metadata(arch: str) -> dict[str, Any]:
    """The keys that llama.cpp asks for, with a vocabulary of six named tokens, all bytes, and unused ones."""
    names = [*NAMES, "\u2581"] + [f"<0x{byte:02X}>" for byte in range(256)]
    names += [f"unused{i}" for i in range(VOCAB - len(names))]
    kinds = [2, 3, 3, 3, 3, 1] + [6] * 256 + [1] * (VOCAB - 262)  # unknown, control, byte, normal: llama.h
    return {
        "general.architecture": arch,
        f"{arch}.context_length": 1024,
        f"{arch}.embedding_length": WIDTH,
        f"{arch}.block_count": LAYERS,
        f"{arch}.feed_forward_length": INNER,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": HEADS,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        f"{arch}.rope.dimension_count": WIDTH // HEADS,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.scores": [0.0] * VOCAB,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 4,
        "tokenizer.chat_template": TEMPLATE,
    }


def write_gguf(path: Path, keys: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Write a GGUF version 3 file of float32 tensors (ggml's docs/gguf.md: keys, then tensor table, then data)."""
    pack: dict[type, tuple[int, Callable[[Any], bytes]]] = {
        int: (4, lambda value: struct.pack("<I", value)),
        float: (6, lambda value: struct.pack("<f", value)),
        str: (8, lambda value: struct.pack("<Q", len(value.encode())) + value.encode()),
    }

    def value(entry: Any) -> bytes:
        if isinstance(entry, list):
            kind, one = pack[type(entry[0])]
            kind = 5 if kind == 4 else kind  # token types are signed
            return struct.pack("<IIQ", 9, kind, len(entry)) + b"".join(map(one, entry))
        kind, one = pack[type(entry)]
        return struct.pack("<I", kind) + one(entry)

    text = pack[str][1]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(name) + value(entry) for name, entry in keys.items())
    data = bytearray()
    for name, array in tensors.items():
        shape = struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape))
        head += text(name) + shape + struct.pack("<IQ", 0, len(data))
        data += array.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
