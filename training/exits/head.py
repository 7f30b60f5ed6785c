"""What turns a hidden state into scores: the output norm and the first rows of the output matrix, as numbers.

They are read from the GGUF file and dequantised by the very library that runs the model, so every type it can run can
be read here, and nothing else needs to be installed.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine.library import library
from pads_runtime.engine.model import Model
from pads_runtime.engine.native import symbols
from pads_runtime.errors import ModelError

Floats = NDArray[np.float32]
_F32 = 0


class _InitParams(ctypes.Structure):  # struct gguf_init_params
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


class _TypeTraits(ctypes.Structure):  # struct ggml_type_traits
    _fields_ = [
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    ]


@dataclass(frozen=True)
class Head:
    """The model's own output norm and the first rows of its output matrix."""

    rows: Floats
    """(draft_vocab, n_embd)"""
    norm: Floats
    """(n_embd,), the weight of the RMS norm"""
    bias: Floats
    """(draft_vocab,), zero for most models"""
    eps: float

    def normed(self, states: Floats) -> Floats:
        """The states (n, n_embd) after the output norm."""
        scale = 1 / np.sqrt(np.mean(states * states, axis=1, keepdims=True) + np.float32(self.eps))
        return np.asarray(states * scale * self.norm, np.float32)

    def scores(self, states: Floats) -> Floats:
        """Logits (n, draft_vocab) of hidden states (n, n_embd)."""
        return np.asarray(self.normed(states) @ self.rows.T + self.bias, np.float32)


def read_head(model: Model, draft_vocab: int) -> Head:
    """Read the head of ``model`` down to ``draft_vocab`` rows; a smaller vocabulary gives what it has in whole steps.

    Raises ModelError for an architecture without early exits and for a file that does not hold the tensors.
    """
    arch = model.metadata("general.architecture") or "unknown"
    if arch not in symbols.ARCHITECTURES:
        known = ", ".join(symbols.ARCHITECTURES)
        raise ModelError(f"model '{model.path}' is of architecture {arch}; early exits work for {known}")
    rows = min(draft_vocab, model.n_vocab) // symbols.DRAFT_VOCAB_STEP * symbols.DRAFT_VOCAB_STEP
    if rows < 1:
        raise ModelError(f"model '{model.path}' has {model.n_vocab} tokens, too few for a draft head")
    with _gguf(model.path) as file:
        norm = file.tensor("output_norm.weight", model.n_embd)
        matrix = file.tensor(
            "output.weight", rows * model.n_embd, file.tensor("token_embd.weight", rows * model.n_embd)
        )
        bias = file.tensor("output.bias", rows, np.zeros(rows, np.float32))
    return Head(
        rows=matrix.reshape(rows, model.n_embd),
        norm=norm,
        bias=bias,
        eps=float(model.metadata(f"{arch}.attention.layer_norm_rms_epsilon") or 1e-5),
    )


class _Gguf:
    """The tensors of an open GGUF file."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self._native = _functions()

    def tensor(self, name: str, values: int, default: Floats | None = None) -> Floats:
        """The first ``values`` numbers of a tensor. Raises ModelError if it is shorter, or missing without one."""
        index = self._native["gguf_find_tensor"](self._handle, name.encode())
        if index < 0:
            if default is not None:
                return default
            raise ModelError(f"model '{self._path}' has no tensor {name} (a model in several parts? merge them first)")
        kind = self._native["gguf_get_tensor_type"](self._handle, index)
        traits = self._native["ggml_get_type_traits"](kind).contents
        blocks = -(-values // traits.blck_size)
        start = self._native["gguf_get_data_offset"](self._handle) + self._native["gguf_get_tensor_offset"](
            self._handle, index
        )
        size = blocks * traits.type_size
        if size > self._native["gguf_get_tensor_size"](self._handle, index):
            raise ModelError(f"model '{self._path}': tensor {name} holds fewer than {values} numbers")
        with self._path.open("rb") as file:
            file.seek(start)
            raw = file.read(size)
        if kind == _F32:
            return np.frombuffer(raw, np.float32, values).copy()
        found = np.empty(blocks * traits.blck_size, np.float32)
        traits.to_float(raw, found.ctypes.data, len(found))
        return found[:values]


@contextmanager
def _gguf(path: Path) -> Iterator[_Gguf]:
    native = _functions()
    handle = native["gguf_init_from_file"](str(path).encode(), _InitParams(True, None))
    if not handle:
        raise ModelError(f"model '{path}' cannot be read as a GGUF file; fetch it again or choose another")
    try:
        yield _Gguf(path, handle)
    finally:
        native["gguf_free"](handle)


@functools.cache
def _functions() -> dict[str, Any]:
    pointer, index = ctypes.c_void_p, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "gguf_init_from_file": (pointer, [ctypes.c_char_p, _InitParams]),
        "gguf_free": (None, [pointer]),
        "gguf_find_tensor": (index, [pointer, ctypes.c_char_p]),
        "gguf_get_data_offset": (ctypes.c_size_t, [pointer]),
        "gguf_get_tensor_offset": (ctypes.c_size_t, [pointer, index]),
        "gguf_get_tensor_size": (ctypes.c_size_t, [pointer, index]),
        "gguf_get_tensor_type": (ctypes.c_int, [pointer, index]),
        "ggml_get_type_traits": (ctypes.POINTER(_TypeTraits), [ctypes.c_int]),
    }
    found: dict[str, Any] = {}
    for name, (result, arguments) in signatures.items():
        found[name] = getattr(library().llama_cpp._lib, name)
        found[name].restype, found[name].argtypes = result, arguments
    return found
