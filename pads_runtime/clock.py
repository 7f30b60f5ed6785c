"""Time for a session: wall time, or virtual time that a discrete-event loop advances.

Everything awaits through asyncio, so one event loop class is the whole difference. On a :class:`VirtualLoop` models
really compute, in their worker threads, but the loop's time stands still while any of them does, and a finished job
is delivered when its *declared* cost has passed. Two jobs that finish in either order on the wall are therefore
always delivered in the same order, and the same input gives the same events, however fast or busy the machine is.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The session's time, in seconds since it began."""

    def now(self) -> float:
        """Seconds since the session began."""
        ...

    async def sleep_until(self, t_s: float) -> None:
        """Return at ``t_s``, or at once (after one turn of the event loop) if that has passed."""
        ...


class LoopClock:
    """A clock that reads the running event loop: wall time on asyncio's own loop, virtual on a VirtualLoop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._origin = self._loop.time()

    def now(self) -> float:
        return self._loop.time() - self._origin

    async def sleep_until(self, t_s: float) -> None:
        await asyncio.sleep(max(0.0, t_s - self.now()))


class ManualClock:
    """A clock for tests of passive parts: it moves only when told to."""

    def __init__(self, t_s: float = 0.0) -> None:
        self.t_s = t_s

    def now(self) -> float:
        return self.t_s

    async def sleep_until(self, t_s: float) -> None:
        self.t_s = max(self.t_s, t_s)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps from event to event, starting at 0.

    ``speed`` limits it to that many virtual seconds per wall second; 0 means no limit. Timers, job deliveries and
    ready callbacks run in one fixed order: by time, then deliveries before timers, then by age.
    """

    def __init__(self, speed: float = 0.0) -> None:
        self._now_s = 0.0
        self._speed = speed
        self._wall_start: float | None = None
        self._running_jobs = 0
        self._tickets = 0
        self._deliveries: list[tuple[float, int, Callable[[], None]]] = []
        super().__init__(_VirtualSelector(self))

    def time(self) -> float:
        return self._now_s

    def begin_job(self) -> int:
        """A worker thread begins to compute: time stands still until ``end_job``. Returns its place in line."""
        self._running_jobs += 1
        self._tickets += 1
        return self._tickets

    def end_job(self, ticket: int, deliver_at_s: float, deliver: Callable[[], None]) -> None:
        """The job of ``ticket`` has computed; call ``deliver`` when virtual time reaches ``deliver_at_s``."""
        self._running_jobs -= 1
        heapq.heappush(self._deliveries, (max(deliver_at_s, self._now_s), ticket, deliver))

    def _next_event_s(self, timeout: float | None) -> float | None:
        timer_s = None
        if timeout is not None:
            scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
            timer_s = scheduled[0].when() if scheduled else self._now_s + timeout
        if self._deliveries and (timer_s is None or self._deliveries[0][0] <= timer_s):
            return self._deliveries[0][0]
        return timer_s

    def _wall_wait_s(self, t_s: float) -> float:
        if self._speed <= 0.0:
            return 0.0
        wall = time.monotonic()
        if self._wall_start is None:
            self._wall_start = wall - self._now_s / self._speed
        return max(0.0, self._wall_start + t_s / self._speed - wall)

    def _advance(self, t_s: float) -> None:
        self._now_s = max(self._now_s, t_s)
        if self._deliveries and self._deliveries[0][0] <= self._now_s:
            _, _, deliver = heapq.heappop(self._deliveries)
            deliver()


class _VirtualSelector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the loop's time there."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout == 0:  # callbacks are ready
            return super().select(0)
        if self._loop._running_jobs:
            return super().select(None)  # a worker's call_soon_threadsafe ends this wait
        t_s = self._loop._next_event_s(timeout)
        if t_s is None:
            return super().select(None)
        ready = super().select(self._loop._wall_wait_s(t_s))
        if not ready:
            self._loop._advance(t_s)
        return ready


def run(main: Callable[[], Coroutine[Any, Any, T]], *, virtual: bool, speed: float = 0.0) -> T:
    """Run a coroutine to its end on a fresh loop of the wanted kind, with asyncio.run's handling of Ctrl-C."""
    factory = (lambda: VirtualLoop(speed)) if virtual else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
