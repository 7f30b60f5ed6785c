"""The microphone's callback, and what makes 16 kHz mono with times of what it copied."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..frames import SAMPLE_RATE, AudioFrame, Samples
from .framing import FrameMaker
from .resample import UnitResampler
from .ring import Ring
from .stream_clock import StreamClock
from .timing import CallbackTimes

RING_S = 2.0
UNIT_S = 0.01


class Microphone:
    """One opening of one device. ``hear`` is its callback; ``collect`` is called by one other thread.

    The time of a sample is the earliest that the arrivals allow: a callback can be late, never early.
    """

    def __init__(self, rate: int, channels: int, now: Callable[[], float], times: CallbackTimes) -> None:
        self.rate = rate
        self.overruns = 0
        """Times that the device or the ring lost something."""
        self.called_s = float("-inf")
        self._now, self._times = now, times
        self._ring = Ring(round(RING_S * rate), channels)
        self._stamp = (0, 0.0)
        self._overflowed = False
        self._clock = StreamClock(rate, "earliest")
        self._resampled = 0
        self._lost = 0
        self._resampler = UnitResampler(rate, SAMPLE_RATE, UNIT_S)

    def hear(self, block: Samples, overflowed: bool) -> None:
        """The callback: copy ``block``, shape (frames, channels), and note when."""
        began_s = time.perf_counter()
        self._ring.write(block)
        now_s = self._now()
        self._stamp = (self._ring.written, now_s)
        self.called_s = now_s
        if overflowed:
            self.overruns += 1
            self._overflowed = True
        self._times.add(time.perf_counter() - began_s)

    def collect(self, maker: FrameMaker) -> list[AudioFrame]:
        """The frames that have become complete."""
        count, at_s = self._stamp
        block, lost = self._ring.read()
        if lost:
            self.overruns += 1
        if self._overflowed:
            self._overflowed = False
            self._clock.shift()
        if at_s:
            self._clock.observe(count, at_s)
        if not len(block) or not self._clock.known:
            return []
        self._lost += lost
        converted = self._resampler.push(self._to_mono(block))
        self._resampled += len(converted)
        # The resampler holds some samples back, so time follows what it has let go.
        heard = self._resampled * self.rate / SAMPLE_RATE + self._lost
        return maker.push(converted, self._clock.time_of(heard))

    @staticmethod
    def _to_mono(block: Samples) -> Samples:
        if block.shape[1] == 1:
            return block[:, 0]
        mean: Samples = np.rint(block.mean(axis=1)).astype(np.int16)
        return mean
