"""What the loudspeaker's callback plays: a queue, cut to the sample, and a copy of everything it gave away."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from ..errors import DeviceError
from ..frames import Samples
from .ring import Ring
from .stream_clock import StreamClock
from .timing import CallbackTimes

KEEPS_S = 2.0
"""How much of what was played waits for ``played`` to be read."""
QUEUE_S = 300.0
"""Longest speech that may wait to be played; a reply is seconds long."""
CERTAIN_S = 0.021
"""What the device holds back at most when samples once handed over count as played: they sound within 20 ms."""


class Player:
    """Mono int16 at ``rate`` in, blocks for one device out. All calls may come from any thread.

    Position ``n`` is the n-th sample given to the device, silence included; ``played.written`` counts the same.
    """

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self.rate = rate
        self.played = Ring(round(KEEPS_S * rate), 1)
        self.underruns = 0
        self.times = CallbackTimes()
        self.called_s = float("-inf")
        self.delay_s = 0.0
        self._now = now
        self._lock = threading.Lock()
        self._queue: deque[Samples] = deque()
        self._queued = 0
        self._position = 0
        self._clock = StreamClock(rate, "median")
        self._given: list[tuple[int, int]] = []
        self._gone = 0

    # ------------------------------------------------------------ the device's side

    def fill(self, block: Samples, delay_s: float, underflowed: bool) -> None:
        """The callback: fill ``block``, shape (frames, channels); its first sample sounds ``delay_s`` from now."""
        began_s = time.perf_counter()
        now_s = self._now()
        with self._lock:
            self._take(block)
            self._clock.observe(self._position, now_s + max(0.0, delay_s))
            self._position += len(block)
            self.played.write(block[:, :1])
        self.called_s, self.delay_s = now_s, delay_s
        self.underruns += underflowed
        self.times.add(time.perf_counter() - began_s)

    def _take(self, block: Samples) -> None:
        """Move queued samples into ``block``, the same to all channels, and silence after them."""
        done = 0
        while done < len(block) and self._queue:
            piece = self._queue[0]
            count = min(len(piece), len(block) - done)
            block[done : done + count] = piece[:count, None]
            if count == len(piece):
                self._queue.popleft()
            else:
                self._queue[0] = piece[count:]
            done += count
        if done:
            self._note_given(done)
            self._queued -= done
        block[done:] = 0

    def _note_given(self, count: int) -> None:
        start = self._position
        if self._given and sum(self._given[-1]) == start:
            start, before = self._given.pop()
            count += before
        self._given.append((start, count))

    def interrupted(self) -> None:
        """The device went away or was restarted: what it had not yet played is lost, and its timing begins anew."""
        with self._lock:
            self._gone += self._sounded(self._now())
            self._given.clear()
            self._clock.shift()
            self.called_s = float("-inf")

    # ------------------------------------------------------------ the agent's side

    def add(self, samples: Samples) -> None:
        """Queue samples behind what is queued. Raises DeviceError beyond QUEUE_S."""
        with self._lock:
            if self._queued + len(samples) > QUEUE_S * self.rate:
                raise DeviceError(f"the speaker has {QUEUE_S:.0f} s of speech waiting; it plays nothing, or too slowly")
            if len(samples):
                self._queue.append(np.array(samples, dtype=np.int16))
                self._queued += len(samples)

    def ends_s(self, now_s: float) -> float:
        """When the last sample queued or given away will have sounded, or has."""
        with self._lock:
            last = self._given[-1][0] + self._given[-1][1] if self._given else self._position
            if not self._clock.known:
                return now_s + self._queued / self.rate
            if not self._queued:
                return self._clock.time_of(last)
            return max(now_s, self._clock.time_of(self._position)) + self._queued / self.rate

    def cut(self) -> tuple[int, bool]:
        """Drop what is queued. Returns how many samples since the last cut were or will be heard, and whether the
        device must be restarted for that because it still holds more than may sound."""
        with self._lock:
            self._queue.clear()
            self._queued = 0
            given = sum(count for _, count in self._given)
            now_s = self._now()
            sounded = self._sounded(now_s)
            restart = self.delay_s > CERTAIN_S and (given - sounded) > CERTAIN_S * self.rate
            heard = self._gone + (sounded if restart else given)
            self._given.clear()
            self._gone = 0
        return heard, restart

    @property
    def speaking(self) -> bool:
        """Whether anything is queued."""
        return self._queued > 0

    def discard(self) -> None:
        """Drop what is queued as never heard; the count of what was goes on."""
        with self._lock:
            self._queue.clear()
            self._queued = 0

    def sounds_at(self) -> tuple[int, float] | None:
        """A position and the time at which it sounds, by the latest estimate; None while nothing was played."""
        with self._lock:
            return (self._position, self._clock.time_of(self._position)) if self._clock.known else None

    def _sounded(self, now_s: float) -> int:
        """How many of the samples given away since the last cut have come out of the loudspeaker by ``now_s``."""
        if not self._clock.known:
            return sum(count for _, count in self._given)
        at = round(self._clock.count_at(now_s))
        return sum(min(max(at - start, 0), count) for start, count in self._given)
