"""A bare driver for the patched library and tiny models with random weights for it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.library import library
from pads_runtime.engine.native import symbols

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 640, 512, 4, 8, 2, 768
NORM_EPS = 1e-5


class Native:
    """One context on one model: decodes at explicit positions, nothing remembered on this side."""

    def __init__(self, path: Path, n_ctx: int = 768, threads: int = 1, n_ubatch: int = 512, n_seq: int = 1) -> None:
        self.lib: Any = library()
        options = self.lib.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), options)
        assert self.model, f"llama.cpp does not load {path.name}"
        options = self.lib.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch, options.n_seq_max = n_ctx, 512, n_ubatch, n_seq
        options.n_threads = options.n_threads_batch = threads
        options.flash_attn_type, options.kv_unified = 1, True
        self.context = self.lib.llama_init_from_model(self.model, options)
        assert self.context
        self.memory = self.lib.llama_get_memory(self.context)
        self.n_vocab = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))
        self.n_embd = self.lib.llama_model_n_embd(self.model)
        self.n_layer = self.lib.llama_model_n_layer(self.model)
        self._tokens = self.lib.llama_batch_init(512, 0, 1)
        self._states = self.lib.llama_batch_init(512, self.n_embd, 1)

    def decode(self, tokens: Sequence[int], at: int, outputs: str = "all", seq: int = 0) -> int:
        """llama_decode's code for ``tokens`` from position ``at``; ``outputs`` is all, last or none."""
        for row, token in enumerate(tokens):
            self._tokens.token[row] = token
        return self._decode(self._tokens, len(tokens), at, outputs, seq)

    def resume(self, states: Any, at: int, outputs: str = "all", seq: int = 0) -> int:
        """The same for hidden states (n, n_embd)."""
        states = np.ascontiguousarray(states, np.float32)
        ctypes.memmove(self._states.embd, states.ctypes.data, states.nbytes)
        return self._decode(self._states, len(states), at, outputs, seq)

    def _decode(self, batch: Any, n: int, at: int, outputs: str, seq: int) -> int:
        batch.n_tokens = n
        for row in range(n):
            batch.pos[row], batch.n_seq_id[row] = at + row, 1
            batch.seq_id[row][0] = seq
            batch.logits[row] = outputs == "all" or (outputs == "last" and row == n - 1)
        return int(self.lib.llama_decode(self.context, batch))

    def logits(self, n: int) -> Any:
        """Copies of the logits (n, n_vocab) of the last decode's first n rows."""
        rows = [self.lib.llama_get_logits_ith(self.context, i) for i in range(n)]
        return np.stack([np.ctypeslib.as_array(row, (self.n_vocab,)).copy() for row in rows])

    def run(self, tokens: Sequence[int], at: int = 0) -> Any:
        """Decode that must work, and its logits."""
        assert self.decode(tokens, at) == 0
        return self.logits(len(tokens))

    def layers(self, begin: int = 0, end: int | None = None) -> None:
        symbols.set_layer_range(self.context, begin, end)

    def states(self, n: int) -> Any:
        return symbols.exit_states(self.context, n, self.n_embd)

    def shallow(self, exit_layer: int, tokens: Sequence[int], at: int, outputs: str = "none") -> Any:
        """Layers below ``exit_layer`` for ``tokens``; their exit states."""
        self.layers(0, exit_layer)
        assert self.decode(tokens, at, outputs) == 0
        return self.states(len(tokens))

    def deep(self, exit_layer: int, states: Any, at: int) -> Any:
        """The layers from ``exit_layer`` on; the logits of all rows."""
        self.layers(exit_layer)
        assert self.resume(states, at) == 0
        return self.logits(len(states))

    def trim(self, length: int) -> None:
        assert self.lib.llama_memory_seq_rm(self.memory, 0, length, -1)

    def length(self) -> int:
        return int(self.lib.llama_memory_seq_pos_max(self.memory, 0)) + 1

    def abort_after(self, nodes: int | None) -> None:
        """Let every later pass stop when llama.cpp has asked ``nodes`` times; None never stops it."""
        asked = 0

        def stop(_: Any) -> bool:
            nonlocal asked
            asked += 1
            return nodes is not None and asked > nodes

        self._stop = self.lib.ggml_abort_callback(stop)  # llama.cpp keeps the bare pointer
        self.lib.llama_set_abort_callback(self.context, self._stop, None)

    def close(self) -> None:
        self.lib.llama_batch_free(self._tokens)
        self.lib.llama_batch_free(self._states)
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)


@pytest.fixture
def native() -> Iterator[Callable[..., Native]]:
    """Opens models: ``native(path, threads=2)``. Closes them at the end. Skips on a library without the patches."""
    can = symbols.capabilities()
    if not (can.layer_range and can.draft_head and can.no_split_kv):
        pytest.skip(f"llama.cpp was built without our patches ({can}); ./scripts/setup builds it")
    made: list[Native] = []

    def make(path: Path, **options: Any) -> Native:
        made.append(Native(path, **options))
        return made[-1]

    symbols.set_row_exact(True)
    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def weights() -> Callable[..., dict[str, Any]]:
    """Random tensors by name for an architecture; the same ones each time."""
    return random_weights


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A GGUF file of random weights: ``tiny("qwen2")``, ``tiny("llama", rope_freqs=True)``; written once each."""
    folder = tmp_path_factory.mktemp("tiny")

    def make(arch: str = "llama", **options: bool) -> Path:
        path = folder / f"{arch}{''.join(sorted(name for name, on in options.items() if on))}.gguf"
        if not path.exists():
            write_gguf(path, metadata(arch), random_weights(arch, **options))
        return path

    return make


@pytest.fixture(scope="session")
def quantized(tiny: Callable[..., Path]) -> Callable[[str, int], Path]:
    """The tiny llama quantized by llama.cpp, all its matrices: ``quantized("Q4_0", 2)``, the number as in llama.h."""

    def make(name: str, file_type: int) -> Path:
        source, target = tiny("llama"), tiny("llama").with_name(f"{name}.gguf")
        options = library().llama_model_quantize_default_params()
        options.ftype, options.nthread, options.pure = file_type, 1, True
        if not target.exists():
            code = library().llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(options))
            assert code == 0
        return target

    return make


def random_weights(arch: str = "llama", rope_freqs: bool = False, tied: bool = False) -> dict[str, Any]:
    """Tensors by GGUF name; a matrix is (outputs, inputs)."""
    rng = np.random.default_rng(7)

    def matrix(n_out: int, n_in: int) -> Any:
        return (rng.standard_normal((n_out, n_in)) / np.sqrt(n_in)).astype(np.float32)

    head = WIDTH // HEADS
    found = {"token_embd.weight": matrix(VOCAB, WIDTH) * 16, "output_norm.weight": 1 + matrix(1, WIDTH)[0]}
    if not tied:
        found["output.weight"] = matrix(VOCAB, WIDTH)
    if rope_freqs:
        found["rope_freqs.weight"] = np.linspace(1, 8, head // 2, dtype=np.float32)
    if arch == "qwen2":
        found["output.bias"] = matrix(1, VOCAB)[0]
    for layer in range(LAYERS):
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (KV_HEADS * head, WIDTH),
            "attn_v": (KV_HEADS * head, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        block = {f"{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        block |= {f"{name}.weight": 1 + matrix(1, WIDTH)[0] for name in ("attn_norm", "ffn_norm")}
        if arch == "qwen2":
            block |= {f"attn_{each}.bias": matrix(1, shapes[f"attn_{each}"][0])[0] for each in "qkv"}
        if arch == "qwen3":
            block |= {f"attn_{each}_norm.weight": 1 + matrix(1, head)[0] for each in "qk"}
        found |= {f"blk.{layer}.{name}": value for name, value in block.items()}
    return found


def metadata(arch: str) -> dict[str, Any]:
    """The keys that llama.cpp asks for, without a tokenizer."""
    return {
        "general.architecture": arch,
        f"{arch}.context_length": 2048,
        f"{arch}.embedding_length": WIDTH,
        f"{arch}.block_count": LAYERS,
        f"{arch}.feed_forward_length": INNER,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KV_HEADS,
        f"{arch}.attention.layer_norm_rms_epsilon": NORM_EPS,
        f"{arch}.rope.freq_base": 10000.0,
        f"{arch}.rope.dimension_count": WIDTH // HEADS,
        f"{arch}.vocab_size": VOCAB,
        "tokenizer.ggml.model": "no_vocab",
    }


def write_gguf(path: Path, keys: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Write a GGUF version 3 file of float32 tensors (ggml's docs/gguf.md: strings, then tensor table, then data)."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def value(entry: Any) -> bytes:
        if isinstance(entry, str):
            return struct.pack("<I", 8) + text(entry)
        return struct.pack("<If", 6, entry) if isinstance(entry, float) else struct.pack("<II", 4, entry)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(name) + value(entry) for name, entry in keys.items())
    data = bytearray()
    for name, array in tensors.items():
        shape = struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape))
        head += text(name) + shape + struct.pack("<IQ", 0, len(data))
        data += array.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
