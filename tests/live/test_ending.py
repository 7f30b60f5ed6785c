"""What signals do to a process that runs for hours."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from pads_runtime.ending import SIGNALS, Ending


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    left = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert left == before, "whoever handled the signal before does so again"


async def send(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", SIGNALS)
async def test_the_first_signal_asks_for_the_end(number: signal.Signals) -> None:
    told: list[str] = []
    ending = Ending()
    with ending.during(lambda: told.append("quit"), lambda: told.append("insist")):
        await send(number)
    assert told == ["quit"]
    assert ending.interrupted is (number is signal.SIGINT)


async def test_only_a_second_ctrl_c_insists() -> None:
    told: list[str] = []
    ending = Ending()
    with ending.during(lambda: told.append("quit"), lambda: told.append("insist")):
        await send(signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGINT)
    assert told == ["quit", "quit", "quit", "insist"]
    assert ending.interrupted


async def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        told: list[str] = []
        with Ending().during(lambda: told.append("quit"), print):
            await send(signal.SIGHUP)
        with Ending().before():
            await send(signal.SIGHUP)
        assert told == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_while_models_load_a_lost_terminal_ends_it_as_ctrl_c_does() -> None:
    with pytest.raises(KeyboardInterrupt), Ending().before():
        os.kill(os.getpid(), signal.SIGHUP)
