"""Single keys of a terminal while a talk runs. The terminal gets its own settings back on every way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import termios
from collections.abc import Callable, Iterator
from enum import Enum

LFLAG, CC = 3, 6
"""Places in what tcgetattr returns."""

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])?", re.DOTALL)
"""What an arrow, a function key, a mouse or a pasted text sends (ECMA-48 control sequences): none of it is a letter."""


class Command(Enum):
    """What a key asks for."""

    MUTE = "m"
    STOP = "s"
    REPEAT = "r"
    QUIT = "q"


_KEYS = {b"m": Command.MUTE, b"s": Command.STOP, b" ": Command.STOP, b"r": Command.REPEAT, b"q": Command.QUIT}


def commands(typed: bytes) -> list[Command]:
    """The commands in what was typed; other keys mean nothing, upper case is lower case."""
    letters = _SEQUENCE.sub(b"", typed).lower()
    return [_KEYS[key] for key in (letters[i : i + 1] for i in range(len(letters))) if key in _KEYS]


def readable(fd: int) -> bool:
    """Whether ``fd`` is a terminal that this process may read: a background job must not touch its settings."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def keys(fd: int, on_command: Callable[[Command], None], on_hangup: Callable[[], None]) -> Iterator[None]:
    """While inside, keys of the terminal ``fd`` arrive one by one on the running event loop, without echo.

    Ctrl-C still interrupts. Ctrl-Z does nothing: a stopped process would leave the devices open and the sound
    overflowing. ``on_hangup`` is called once if the terminal goes away.
    """
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(fd)

    def read() -> None:
        try:
            typed = os.read(fd, 256)
        except BlockingIOError:
            return
        except OSError:
            typed = b""
        if not typed:
            loop.remove_reader(fd)
            on_hangup()
        for command in commands(typed):
            on_command(command)

    raw = termios.tcgetattr(fd)
    raw[LFLAG] &= ~(termios.ICANON | termios.ECHO)
    raw[CC][termios.VMIN], raw[CC][termios.VTIME] = 1, 0
    raw[CC][termios.VSUSP] = b"\0"
    try:
        termios.tcsetattr(fd, termios.TCSANOW, raw)
        loop.add_reader(fd, read)
        yield
    finally:
        loop.remove_reader(fd)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSANOW, before)
            termios.tcflush(fd, termios.TCIFLUSH)  # keys typed for the talk are not the shell's
