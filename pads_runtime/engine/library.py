"""Loads llama.cpp once, with the settings that must stand before it is loaded, and keeps its log out of the way.

``OMP_WAIT_POLICY=PASSIVE``: OpenMP threads that spin while they wait starve every other process of the machine, and a
busy recognizer beside them starves the engine; sleeping threads share. libgomp reads it when it is loaded.

``GGML_CPU_FA_NO_SPLIT_KV=1``: flash attention computes a row by a different path depending on how many rows and cells
there are, so a token would get other logits in a batch than alone. Our build of llama.cpp (``native/``) reads this
when the CPU backend starts and takes one path always. A build without the change ignores it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from collections import deque
from typing import Any

from ..errors import SetupError

BEFORE_LOADING = {"OMP_WAIT_POLICY": "PASSIVE", "GGML_CPU_FA_NO_SPLIT_KV": "1"}
_ERROR, _CONTINUED = 4, 5
_SETUP = "run ./scripts/setup"


def prepare_environment() -> None:
    """Set what llama.cpp reads on loading; a value set by the user stays. Warns when it comes too late."""
    missing = [name for name in BEFORE_LOADING if name not in os.environ]
    if missing and "llama_cpp" in sys.modules:
        warnings.warn(
            f"llama_cpp was imported before pads_runtime.engine, so {', '.join(missing)} has no effect: "
            "the engine may stall beside a busy process; import pads_runtime.engine.library first",
            RuntimeWarning,
            stacklevel=2,
        )
    for name in missing:
        os.environ[name] = BEFORE_LOADING[name]


prepare_environment()


class NativeLog:
    """The last errors llama.cpp reported, which would otherwise go to stderr between thousands of other lines."""

    def __init__(self, keep: int = 40) -> None:
        self._lines: deque[str] = deque(maxlen=keep)
        self._keeping = False

    def write(self, level: int, text: bytes) -> None:
        """Take one callback from llama.cpp; level 5 continues the line before."""
        if level != _CONTINUED:
            self._keeping = level == _ERROR
        if self._keeping and (line := " ".join(text.decode("utf-8", "replace").split())):
            self._lines.append(line)

    def clear(self) -> None:
        """Forget what was said so far."""
        self._lines.clear()

    def reason(self, default: str) -> str:
        """The first line since ``clear``, where llama.cpp names the cause, or ``default``."""
        return self._lines[0] if self._lines else default


LOG = NativeLog()


@functools.cache
def library() -> Any:
    """The module ``llama_cpp``, loaded and silenced. Raises SetupError when it is missing or does not load."""
    try:
        import llama_cpp
    except ImportError as exc:
        raise SetupError(f"llama-cpp-python cannot be imported ({_one_line(exc)}); {_SETUP}") from None
    except (RuntimeError, FileNotFoundError, OSError) as exc:
        raise SetupError(f"the llama.cpp library does not load ({_one_line(exc)}); {_SETUP}") from None
    module: Any = llama_cpp
    module.llama_log_set(_log_callback(module), None)
    module.llama_backend_init()
    return module


@functools.cache
def _log_callback(module: Any) -> Any:
    # Cached, because llama.cpp keeps the bare pointer for as long as the process lives.
    return module.llama_log_callback(lambda level, text, _: LOG.write(level, text))


def row_exact() -> bool:
    """Whether this build computes each row alike in every batch, at any context length.

    False means: only while at most 256 cells are in use.
    """
    native = library().llama_cpp._lib
    try:
        getter = native.ggml_cpu_get_row_exact
    except AttributeError:
        return False
    getter.restype = ctypes.c_bool
    getter.argtypes = []
    return bool(getter())


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())
