"""The functions that our patches add to llama.cpp, with their C types; PATCH.md says what they do and ask for.

Every ``context`` is a ``llama_context`` pointer as llama-cpp-python returns it. One thread owns a context.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import EngineError, SetupError
from ..library import LOG, library

Floats = npt.NDArray[np.float32]

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""``general.architecture`` of the models that can exit early."""
DRAFT_VOCAB_STEP = 64
"""A draft head takes a multiple of this many rows of the output matrix (repacked weights interleave rows)."""

_FLOAT16_MAX = 65504.0
_FLOATS = ctypes.POINTER(ctypes.c_float)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_cpu_set_row_exact": (None, [ctypes.c_bool]),
    "ggml_cpu_get_row_exact": (ctypes.c_bool, []),
    "llama_set_layer_range": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]),
    "llama_get_exit_states": (_FLOATS, [ctypes.c_void_p]),
    "llama_set_draft_head": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_int32, _FLOATS, _FLOATS, ctypes.c_int32]),
}


@dataclass(frozen=True)
class Capabilities:
    """What the loaded library can do beyond the release it was built from."""

    layer_range: bool
    """Passes over some of the layers: ``set_layer_range``, ``exit_states``."""
    draft_head: bool
    """A translator and a shorter head for early exits: ``set_draft_head``."""
    no_split_kv: bool
    """Rows whose results do not depend on the batch, the context length or the threads: ``set_row_exact``."""


@functools.cache
def capabilities() -> Capabilities:
    """Look at the loaded library. Raises SetupError if there is none."""
    return Capabilities(
        layer_range=_has("llama_set_layer_range") and _has("llama_get_exit_states"),
        draft_head=_has("llama_set_draft_head"),
        no_split_kv=_has("ggml_cpu_set_row_exact") and _has("ggml_cpu_get_row_exact"),
    )


def set_row_exact(value: bool) -> None:
    """Make every row's result independent of its batch, for the whole process; not while a pass is running."""
    _function("ggml_cpu_set_row_exact")(value)


def set_layer_range(context: Any, begin: int, end: int | None = None) -> None:
    """Let the next decodes evaluate the layers [begin, end) only; ``end`` None is the last layer.

    The range stays until it is set again. Raises EngineError, with the range as it was, for a range that is none of
    the model's and for an architecture or cache that cannot do it.
    """
    LOG.clear()
    if not _function("llama_set_layer_range")(context, begin, -1 if end is None else end):
        reason = LOG.reason("no reason given")
        known = ", ".join(ARCHITECTURES)
        raise EngineError(f"layers {begin} to {end or 'the last'}: {reason}; early exits work for {known}")


def exit_states(context: Any, n_tokens: int, n_embd: int) -> Floats:
    """Copy of the hidden states (n_tokens, n_embd) that the last decode left at its exit, one row a token of its batch.

    Raises EngineError if the last decode failed or reached the last layer.
    """
    pointer = _function("llama_get_exit_states")(context)
    if not pointer:
        raise EngineError("the last pass left no exit states; set a layer range that ends early before it")
    return np.ctypeslib.as_array(pointer, (n_tokens, n_embd)).copy()


def set_draft_head(
    context: Any, exit_layer: int, matrix: Floats | None = None, bias: Floats | None = None, draft_vocab: int = 0
) -> None:
    """Make the exit at ``exit_layer`` score h + matrix @ h + bias instead of h, for the first ``draft_vocab`` tokens.

    ``matrix`` (n_embd, n_embd) and ``bias`` (n_embd,) are float32, copied, the matrix rounded to float16; None leaves h
    as it is. ``draft_vocab`` is a multiple of 64, 0 means all; rows of logits stay n_vocab long, the rest is -inf.
    Without any of the three, the head is taken away. Raises EngineError, with everything as it was, if they do not fit.
    """
    n_embd = library().llama_model_n_embd(library().llama_get_model(context))
    for name, value, shape in (("matrix", matrix, (n_embd, n_embd)), ("bias", bias, (n_embd,))):
        if value is not None and value.shape != shape:
            raise EngineError(f"draft head at layer {exit_layer}: its {name} is {value.shape}, the model needs {shape}")
        if value is not None and not (np.abs(value) <= _FLOAT16_MAX).all():
            raise EngineError(f"draft head at layer {exit_layer}: its {name} has values that float16 cannot hold")
    LOG.clear()
    call = _function("llama_set_draft_head")
    kept = [None if value is None else np.ascontiguousarray(value, np.float32) for value in (matrix, bias)]
    if not call(context, exit_layer, _pointer(kept[0]), _pointer(kept[1]), draft_vocab):
        raise EngineError(f"draft head at layer {exit_layer}: {LOG.reason('refused without a reason')}")


def _pointer(values: Floats | None) -> Any:
    return None if values is None else values.ctypes.data_as(_FLOATS)


def _has(name: str) -> bool:
    return hasattr(library().llama_cpp._lib, name)


@functools.cache
def _function(name: str) -> Any:
    try:
        function = getattr(library().llama_cpp._lib, name)
    except AttributeError:
        raise SetupError(
            f"this llama.cpp has no {name}: it was built without our patches; run ./scripts/setup"
        ) from None
    function.restype, function.argtypes = _SIGNATURES[name]
    return function
