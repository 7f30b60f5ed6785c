"""The microphone's frames on the way from their thread to the session's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

from ..errors import DeviceError
from ..frames import AudioFrame


class LiveSource:
    """An AudioSource that another thread feeds. At most ``capacity`` frames wait; the oldest give way and are counted.

    So no frame is older than ``capacity`` * 20 ms when it is taken, however late the event loop is.
    """

    def __init__(self, capacity: int, on_loop: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        self.frames_lost = 0
        self._waiting: deque[AudioFrame] = deque(maxlen=capacity)
        self._on_loop = on_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._ended = False
        self._error: str | None = None
        self._lock = threading.Lock()

    @property
    def listening(self) -> bool:
        """Whether somebody takes the frames."""
        return self._loop is not None

    def feed(self, frames: Iterable[AudioFrame]) -> None:
        """From the audio thread: hand over frames, in order. Before somebody listens they are dropped."""
        if self._loop is None:
            return
        with self._lock:
            for frame in frames:
                self.frames_lost += len(self._waiting) == self._waiting.maxlen
                self._waiting.append(frame)
        self._notify()

    def end(self, error: str | None = None) -> None:
        """From any thread: no more frames; what waits is still delivered. With ``error`` the reader gets that."""
        self._error = self._error or error
        self._ended = True
        self._notify()

    async def frames(self) -> AsyncIterator[AudioFrame]:
        """The frames from now on, until ``end``. For one reader. Raises DeviceError if the audio thread failed."""
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._on_loop(self._loop)
        while True:
            self._wake.clear()
            while (frame := self._next()) is not None:
                yield frame
            if self._ended and self._error is not None:
                raise DeviceError(self._error)
            if self._ended:
                return
            if not self._waiting:
                await self._wake.wait()

    def _next(self) -> AudioFrame | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _notify(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None and (self._waiting or self._ended):
            with contextlib.suppress(RuntimeError):  # the loop is closed: the talk is over
                loop.call_soon_threadsafe(wake.set)
