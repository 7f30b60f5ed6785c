"""Model files made for measuring: the model under test in another weight type, and one of random weights."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pads_runtime.engine.library import library
from pads_runtime.errors import PadsError

_Q4_0_FILE = 2  # LLAMA_FTYPE_MOSTLY_Q4_0
_F32, _Q4_0 = 0, 2  # ggml_type
_UINT32, _INT32, _FLOAT32, _STRING, _ARRAY = 4, 5, 6, 8, 9  # gguf value types
_ALIGNMENT = 32
_BLOCK_BYTES, _BLOCK_WEIGHTS = 18, 32


def requantised(path: Path, into: Path) -> Path:
    """The model as Q4_0, quantised again from what ``path`` holds: a little worse than from full weights, as fast."""
    llama = library()
    parameters = llama.llama_model_quantize_default_params()
    parameters.ftype, parameters.allow_requantize, parameters.nthread = _Q4_0_FILE, True, 2
    out = into / f"{path.stem}.requantised-Q4_0.gguf"
    if llama.llama_model_quantize(str(path).encode(), str(out).encode(), parameters) != 0:
        raise PadsError(f"llama.cpp could not write '{out}' as Q4_0; is the disk full?")
    return out


@dataclass(frozen=True)
class Shape:
    """Sizes of a llama; the default is that of a model of 1.2 billion weights."""

    layers: int = 16
    embedding: int = 2048
    feed_forward: int = 8192
    heads: int = 32
    kv_heads: int = 8
    vocab: int = 128_256


def random_model(path: Path, shape: Shape, seed: int = 0) -> Path:
    """Write a GGUF file (version 3, llama, Q4_0, tied head) of random weights: slow and fast in the same places."""
    kv = shape.embedding // shape.heads * shape.kv_heads
    tensors: list[tuple[str, tuple[int, ...]]] = [("token_embd.weight", (shape.embedding, shape.vocab))]
    for i in range(shape.layers):
        e, f = shape.embedding, shape.feed_forward
        sizes = {"attn_norm": (e,), "attn_q": (e, e), "attn_k": (e, kv), "attn_v": (e, kv), "attn_output": (e, e)}
        sizes |= {"ffn_norm": (e,), "ffn_gate": (e, f), "ffn_up": (e, f), "ffn_down": (f, e)}
        tensors += [(f"blk.{i}.{name}.weight", size) for name, size in sizes.items()]
    tensors.append(("output_norm.weight", (shape.embedding,)))
    with path.open("wb") as file:
        metadata = list(_metadata(shape))
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata))
        offset = 0
        for name, size in tensors:
            kind = _F32 if len(size) == 1 else _Q4_0
            file.write(_text(name) + struct.pack(f"<I{len(size)}QIQ", len(size), *size, kind, offset))
            offset += _padded(_bytes(size))
        file.write(bytes(_padded(file.tell()) - file.tell()))
        noise = _noise(np.random.default_rng(seed))
        for _, size in tensors:
            _write_tensor(file, size, noise)
    return path


def _metadata(shape: Shape) -> Iterator[bytes]:
    def number(key: str, value: int) -> bytes:
        return _text(key) + struct.pack("<II", _UINT32, value)

    yield _text("general.architecture") + struct.pack("<I", _STRING) + _text("llama")
    yield _text("general.name") + struct.pack("<I", _STRING) + _text("random weights")
    yield number("general.file_type", _Q4_0_FILE)
    yield number("llama.block_count", shape.layers)
    yield number("llama.context_length", 4096)
    yield number("llama.embedding_length", shape.embedding)
    yield number("llama.feed_forward_length", shape.feed_forward)
    yield number("llama.attention.head_count", shape.heads)
    yield number("llama.attention.head_count_kv", shape.kv_heads)
    yield number("llama.rope.dimension_count", shape.embedding // shape.heads)
    yield _text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", _FLOAT32, 1e-5)
    yield _text("tokenizer.ggml.model") + struct.pack("<I", _STRING) + _text("llama")
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    words += [f"w{i}" for i in range(shape.vocab - len(words))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (shape.vocab - 259)  # unknown, control, byte, normal
    yield _array("tokenizer.ggml.tokens", _STRING, b"".join(map(_text, words)), len(words))
    yield _array("tokenizer.ggml.scores", _FLOAT32, np.zeros(len(words), "<f4").tobytes(), len(words))
    yield _array("tokenizer.ggml.token_type", _INT32, np.array(kinds, "<i4").tobytes(), len(words))
    yield number("tokenizer.ggml.bos_token_id", 1)
    yield number("tokenizer.ggml.eos_token_id", 2)


def _noise(rng: np.random.Generator) -> bytes:
    """A MiB or so of Q4_0 blocks with one small scale, so that no hidden state overflows."""
    blocks = np.zeros((1 << 16, _BLOCK_BYTES), np.uint8)
    blocks[:, 2:] = rng.integers(0, 256, (1 << 16, _BLOCK_BYTES - 2), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(0.004).tobytes(), np.uint8)
    return blocks.tobytes()


def _write_tensor(file: BinaryIO, size: tuple[int, ...], noise: bytes) -> None:
    data_bytes = _bytes(size)
    if len(size) == 1:
        file.write(np.ones(size, "<f4").tobytes())
    else:
        for start in range(0, data_bytes, len(noise)):
            file.write(noise[: data_bytes - start])
    file.write(bytes(_padded(data_bytes) - data_bytes))


def _bytes(size: tuple[int, ...]) -> int:
    weights = int(np.prod(size))
    return weights * 4 if len(size) == 1 else weights // _BLOCK_WEIGHTS * _BLOCK_BYTES


def _padded(n: int) -> int:
    return -(-n // _ALIGNMENT) * _ALIGNMENT


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _array(key: str, kind: int, data: Any, count: int) -> bytes:
    return bytes(_text(key) + struct.pack("<IIQ", _ARRAY, kind, count) + data)
