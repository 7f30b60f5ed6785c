"""Single keys, on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from pads_runtime.view.keys import CC, LFLAG, Command, commands, keys, readable


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends: what a person types goes into the first, the program reads the second."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def test_keys_are_commands_and_others_are_not() -> None:
    assert commands(b"mM sxrq\n") == [
        Command.MUTE,
        Command.MUTE,
        Command.STOP,
        Command.STOP,
        Command.REPEAT,
        Command.QUIT,
    ]
    assert commands("ü€".encode()) == []


@pytest.mark.parametrize(
    "typed",
    [b"\x1b[A", b"\x1b[1;2R", b"\x1bOS", b"\x1b[<0;10;20m", b"\x1b[200~", b"\x1bq", b"\x1b[15~", b"\x1b"],
)
def test_arrows_function_keys_and_the_mouse_are_no_letters(typed: bytes) -> None:
    assert commands(typed) == []


async def test_a_key_arrives_alone_and_without_echo(terminal: tuple[int, int]) -> None:
    person, program = terminal
    got: asyncio.Queue[Command] = asyncio.Queue()
    with keys(program, got.put_nowait, lambda: None):
        mode = termios.tcgetattr(program)
        assert not mode[LFLAG] & (termios.ICANON | termios.ECHO)
        assert mode[LFLAG] & termios.ISIG, "Ctrl-C still interrupts"
        assert mode[CC][termios.VSUSP] == b"\0", "Ctrl-Z does not stop a talk whose devices are open"
        os.write(person, b"r")
        assert await asyncio.wait_for(got.get(), 5) is Command.REPEAT
    os.set_blocking(person, False)
    with pytest.raises(BlockingIOError):
        os.read(person, 10)


async def test_the_terminal_gets_its_settings_back_however_it_ends(terminal: tuple[int, int]) -> None:
    _, program = terminal
    before = termios.tcgetattr(program)
    with keys(program, print, print):
        assert termios.tcgetattr(program) != before
    assert termios.tcgetattr(program) == before
    for error in (ValueError, KeyboardInterrupt, asyncio.CancelledError, SystemExit):
        with pytest.raises(error), keys(program, print, print):
            raise error
        assert termios.tcgetattr(program) == before


async def test_what_was_typed_for_the_talk_is_not_left_for_the_shell(terminal: tuple[int, int]) -> None:
    person, program = terminal
    with keys(program, print, print):
        os.write(person, b"rm -rf\n")
    os.set_blocking(program, False)
    with pytest.raises(BlockingIOError):
        os.read(program, 100)


async def test_a_terminal_that_goes_away_is_told_once_and_is_no_fault() -> None:
    person, program = pty.openpty()
    gone: asyncio.Queue[None] = asyncio.Queue()
    with keys(program, print, lambda: gone.put_nowait(None)):
        os.close(person)
        await asyncio.wait_for(gone.get(), 5)
        await asyncio.sleep(0.05)
        assert gone.empty()
    os.close(program)


def test_what_is_no_terminal_of_ours_is_not_read(terminal: tuple[int, int]) -> None:
    read, write = os.pipe()
    try:
        assert not readable(read)
        assert not readable(terminal[1]), "it is not this process's controlling terminal"
        assert not readable(9999)
    finally:
        os.close(read)
        os.close(write)
