"""Views beside a talk: they may be slow, they may break, and the talk does not notice."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rich.console import Console

from pads_runtime.clock import ManualClock
from pads_runtime.frames import TraceEvent
from pads_runtime.view import views
from pads_runtime.view.terminal import Look, Vitals
from pads_runtime.view.views import LineView, ScreenView, View


def served(turn: int) -> TraceEvent:
    return TraceEvent(float(turn), "reply_served", {"turn": turn, "user": "question", "agent": f"answer {turn}"})


@contextlib.asynccontextmanager
async def running(view: View) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(view.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        await view.close()


class Stuck(io.StringIO):
    """A stream whose reader takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def flush(self) -> None:
        self.released.wait(10)


async def test_lines_come_in_order_and_the_last_ones_are_not_lost() -> None:
    stream = io.StringIO()
    view = LineView(stream)
    async with running(view):
        view.listener(served(1))
        await asyncio.sleep(0.05)
        view.listener(served(2))
    told = [line.split(": ")[1] for line in stream.getvalue().splitlines()]
    assert told == ["answer 1", "answer 2"]


async def test_a_reader_that_is_stuck_holds_up_nothing_and_what_it_missed_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "LINES_KEPT", 10)
    stream = Stuck()
    view = LineView(stream)
    async with running(view):
        view.listener(served(0))
        await asyncio.sleep(0.05)  # the writer is stuck now
        for turn in range(1, 100):
            view.listener(served(turn))
        stream.released.set()
        await asyncio.sleep(0.05)
    lines = stream.getvalue().splitlines()
    assert "(89 lines were not shown" in lines[1]
    assert lines[-1].endswith("answer 99")


async def test_closing_does_not_wait_for_a_reader_that_never_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CLOSES_WITHIN_S", 0.1)
    stream = Stuck()
    view = LineView(stream)
    async with asyncio.timeout(3):
        async with running(view):
            view.listener(served(0))
            await asyncio.sleep(0.05)
    stream.released.set()


async def test_a_closed_pipe_is_told_to_the_talk() -> None:
    read, write = os.pipe()
    os.close(read)
    view = LineView(os.fdopen(write, "w"))
    task = asyncio.create_task(view.run())
    view.listener(served(1))
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(task, 5)
    await view.close()
    with contextlib.suppress(BrokenPipeError):
        view._stream.close()


def screen(stream: Any) -> Console:
    return Console(file=stream, width=100, height=30, force_terminal=True, color_system="standard")


async def test_the_screen_is_drawn_and_left_as_it_was() -> None:
    stream = io.StringIO()
    view = ScreenView(ManualClock(), Look(), lambda: Vitals(cpu_percent=12.0), screen(stream))
    async with running(view):
        view.listener(served(1))
        await asyncio.sleep(0.4)
        assert "answer 1" in stream.getvalue()
        assert "12 % CPU" in stream.getvalue()
    text = stream.getvalue()
    assert text.startswith("\x1b[?1049h"), "the alternate screen"
    assert text.endswith("\x1b[?25h\x1b[?1049l") or text.rstrip().endswith("\x1b[?1049l\x1b[?25h")


async def test_a_screen_on_which_nothing_happens_is_left_alone() -> None:
    drawn: list[None] = []

    def vitals() -> Vitals:
        drawn.append(None)
        return Vitals()

    view = ScreenView(ManualClock(), Look(), vitals, screen(io.StringIO()))
    async with running(view):
        await asyncio.sleep(0.6)
        assert len(drawn) == 1
        view.listener(served(1))
        await asyncio.sleep(0.3)
        assert len(drawn) == 2


async def test_a_screen_that_was_never_drawn_can_be_closed() -> None:
    view = ScreenView(ManualClock(), Look(), Vitals, screen(io.StringIO()))
    await view.close()
    await view.close()
