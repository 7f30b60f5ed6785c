"""A bounded channel with a stated overflow policy, and the worker thread that owns one native model."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from .clock import VirtualLoop
from .errors import WorkerBusy, WorkerStopped

T = TypeVar("T")

WORKER_NAMES = "pads-"
"""How the names of all worker threads begin."""


class Overflow(Enum):
    """What a full channel does."""

    WAIT = "wait"
    """The sender waits (tokens, phrases: back-pressure)."""
    DROP_OLDEST = "drop_oldest"
    """The oldest item is dropped and counted (audio: late sound is worth less than new sound)."""


class ChannelClosed(Exception):
    """The channel is closed and empty."""


class Channel(Generic[T]):
    """A bounded queue between tasks of one event loop."""

    def __init__(self, capacity: int, overflow: Overflow) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._overflow = overflow
        self._changed = asyncio.Condition()
        self._closed = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, item: T) -> None:
        """Add an item; when full, wait or drop the oldest by the policy. Raises ChannelClosed."""
        async with self._changed:
            if self._overflow is Overflow.WAIT:
                await self._changed.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                raise ChannelClosed
            if len(self._items) >= self._capacity:
                self._items.popleft()
                self.dropped += 1
            self._items.append(item)
            self._changed.notify_all()

    async def get(self) -> T:
        """The next item; waits for one. Raises ChannelClosed once the channel is closed and empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self._items)
            if not self._items:
                raise ChannelClosed
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    async def close(self) -> None:
        """No more items; readers drain what is left. Idempotent."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()


CostOf = Callable[[Any], float]
"""Reads the declared cost, in seconds, from a job's result."""


class Worker:
    """One thread that owns one native model. Jobs run in the order they were given; the event loop never waits.

    On a VirtualLoop a job takes the time its ``cost`` says; on a real loop it takes the time it takes. ``busy_s`` adds
    up either. On a real loop a cancelled job calls ``on_cancel`` (so that native code can stop early), or is left out
    if it has not begun. Under virtual time the computation always runs to its end, and only its delivery is dropped,
    so that what a cancelled job leaves behind never depends on the machine.
    """

    def __init__(self, name: str, capacity: int = 64) -> None:
        self.name = name
        self.busy_s = 0.0
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(capacity)
        self.free_at_s = 0.0
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name=WORKER_NAMES + name, daemon=True)
        self._thread.start()

    async def run(
        self,
        job: Callable[..., T],
        *args: Any,
        cost: CostOf | float = 0.0,
        on_cancel: Callable[[], None] | None = None,
    ) -> T:
        """Run ``job(*args)`` in the worker's thread and return its result or raise its exception."""
        if self._stopped:
            raise WorkerStopped(f"worker '{self.name}' has been shut down")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        virtual = _VirtualJob(self, loop, future, cost) if isinstance(loop, VirtualLoop) else None

        def finish(result: Any, error: BaseException | None, took_s: float) -> None:
            if virtual is not None:
                virtual.computed(result, error)
            else:
                self.busy_s += took_s
                _settle(future, result, error)

        def work() -> None:
            if virtual is None and future.cancelled():
                return
            began = time.monotonic()
            result, error = None, None
            try:
                result = job(*args)
            except BaseException as exc:  # handed to the awaiting task
                error = exc
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits for this any more
                loop.call_soon_threadsafe(finish, result, error, time.monotonic() - began)

        try:
            self._jobs.put_nowait(work)
        except queue.Full:
            raise WorkerBusy(f"worker '{self.name}' already has {self._jobs.maxsize} jobs waiting") from None
        if virtual is not None:
            virtual.begin()
        try:
            return await future
        except asyncio.CancelledError:
            if virtual is not None:
                virtual.cancelled()
            elif on_cancel is not None:
                on_cancel()
            raise

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            if self._stopped and self._jobs.empty():  # the queue may have been too full for stop's mark
                return

    def stop(self, timeout_s: float = 1.0) -> bool:
        """Refuse new jobs, let queued ones finish, and wait at most ``timeout_s``; True if the thread has ended.

        The thread is a daemon: native code that does not return cannot keep the process alive.
        """
        if not self._stopped:
            self._stopped = True
            with contextlib.suppress(queue.Full):
                self._jobs.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


class _VirtualJob:
    """The virtual-time side of one job: when it starts, ends, and frees its worker."""

    def __init__(self, worker: Worker, loop: VirtualLoop, future: asyncio.Future[Any], cost: CostOf | float) -> None:
        self._worker, self._loop, self._future, self._cost = worker, loop, future, cost
        self._given_s = loop.time()
        self._start_s: float | None = None
        self._ticket = 0

    def begin(self) -> None:
        self._ticket = self._loop.begin_job()

    def computed(self, result: Any, error: BaseException | None) -> None:
        if self._future.cancelled():
            self._loop.end_job(self._ticket, self._loop.time(), lambda: None)
            return
        cost_s = 0.0
        if error is None:
            try:
                cost_s = self._cost(result) if callable(self._cost) else self._cost
            except Exception as exc:  # or the job would never be delivered and time would stand still
                error = exc
        self._start_s = max(self._given_s, self._worker.free_at_s)
        self._worker.free_at_s = self._start_s + cost_s
        self._worker.busy_s += cost_s
        self._loop.end_job(self._ticket, self._worker.free_at_s, lambda: _settle(self._future, result, error))

    def cancelled(self) -> None:
        """The worker turns to its next job now, or never began this one; only the time used is charged."""
        if self._start_s is not None and self._worker.free_at_s > self._loop.time():
            free_s = max(self._start_s, self._loop.time())
            self._worker.busy_s -= self._worker.free_at_s - free_s
            self._worker.free_at_s = free_s


def _settle(future: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if isinstance(error, StopIteration):  # a future refuses it, and the caller would wait for ever
        wrapped = RuntimeError("a job raised StopIteration")
        wrapped.__cause__ = error
        error = wrapped
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
