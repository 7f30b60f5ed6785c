"""The flag that stops a running pass."""

from __future__ import annotations

import ctypes
from typing import Any

from ..errors import EngineAborted
from .library import library


class AbortFlag:
    """A flag that any thread may raise and llama.cpp reads before every node of its graph.

    The callback is libc's ``strlen`` on two bytes of ours: "" is 0, false, and one byte is 1, true. A Python callback
    would be called hundreds of times a token and wait for the interpreter lock each time, so a busy event loop would
    stall the model.
    """

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(2)
        self._strlen = ctypes.CDLL(None).strlen

    def install(self, context: Any) -> None:
        """Have ``context`` obey this flag, which must outlive it."""
        llama = library()
        callback = ctypes.cast(self._strlen, llama.ggml_abort_callback)
        llama.llama_set_abort_callback(context, callback, ctypes.cast(self._bytes, ctypes.c_void_p))

    def raise_(self) -> None:
        """Ask for the running pass to stop; stays until ``clear``."""
        self._bytes[0] = b"\x01"

    def clear(self) -> None:
        """Let passes run again."""
        self._bytes[0] = b"\x00"

    def check(self) -> None:
        """Raises EngineAborted while the flag is up."""
        if self._bytes[0] != b"\x00":
            raise EngineAborted("the engine was told to stop; roll back to a mark before the next call")
