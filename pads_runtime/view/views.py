"""Views that run beside a talk: a screen, or lines. Both are told by the trace and write in a thread of their own,
so a terminal that does not take its text (a slow connection, Ctrl-S) never holds up the talk."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live

from ..aio import Worker
from ..clock import Clock
from ..frames import TraceEvent
from .plain import line_of
from .state import Seen, reduce
from .terminal import Look, Vitals, render

REFRESH_S = 0.12
IDLE_REFRESH_S = 1.0
"""A screen on which nothing happens is drawn again for its clock and vitals."""
LINES_KEPT = 2000
"""Lines that may wait for their reader; beyond it the oldest are dropped and counted."""
CLOSES_WITHIN_S = 1.0


class View(Protocol):
    """Shows a running talk."""

    seen: Seen

    def listener(self, event: TraceEvent) -> None:
        """Take one event of the trace, on the event loop; never blocks."""
        ...

    async def run(self) -> None:
        """Show until cancelled. Raises BrokenPipeError when nobody reads any more."""
        ...

    async def close(self) -> None:
        """Show what is left, for a bounded time, and leave the terminal as it was."""
        ...


class ScreenView:
    """The whole terminal, drawn anew when something happened. ``vitals`` is asked in the view's thread."""

    def __init__(self, clock: Clock, look: Look, vitals: Callable[[], Vitals], console: Console | None = None) -> None:
        self.seen = Seen()
        self._clock, self._look, self._vitals = clock, look, vitals
        self._console = console or Console()
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._worker = Worker("view", capacity=2)
        self._changed = True
        self._closed = False

    def listener(self, event: TraceEvent) -> None:
        self.seen = reduce(self.seen, event)
        self._changed = True

    async def run(self) -> None:
        await self._worker.run(self._live.start)
        drawn_s = -IDLE_REFRESH_S
        while True:
            now_s = self._clock.now()
            moving = self.seen.reply is not None and self.seen.reply.playing
            if self._changed or moving or now_s - drawn_s >= IDLE_REFRESH_S:
                self._changed, drawn_s = False, now_s
                await self._worker.run(self._draw, self.seen, now_s)
            await asyncio.sleep(REFRESH_S)

    def _draw(self, seen: Seen, now_s: float) -> None:
        size = self._console.size
        self._live.update(render(seen, self._vitals(), self._look, now_s, (size.width, size.height)), refresh=True)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(CLOSES_WITHIN_S):
                await self._worker.run(self._live.stop)
        self._worker.stop(timeout_s=0.2)


class LineView:
    """One line a fact, for a log or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self.seen = Seen()
        self._stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._wake = asyncio.Event()
        self._worker = Worker("view", capacity=2)
        self._closed = False

    def listener(self, event: TraceEvent) -> None:
        self.seen = reduce(self.seen, event)
        line = line_of(event, self.seen)
        if line is None:
            return
        if len(self._lines) >= LINES_KEPT:
            self._lines.popleft()
            self._dropped += 1
        self._lines.append(line)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._write()

    async def _write(self) -> None:
        lines = list(self._lines)
        if self._dropped:
            lines.insert(0, f"({self._dropped} lines were not shown: their reader is too slow)")
        self._lines.clear()
        self._dropped = 0
        await self._worker.run(self._print, lines)

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(TimeoutError, OSError, ValueError):
            async with asyncio.timeout(CLOSES_WITHIN_S):
                await self._write()
        self._worker.stop(timeout_s=0.2)
