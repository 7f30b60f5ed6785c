"""Audio sources that replay samples on the session's clock, 20 ms at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np

from ..clock import Clock
from ..errors import InputError
from ..frames import FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples
from .files import Channel, read_audio


class SamplesSource:
    """Yields ``samples`` (int16 mono, 16 kHz) as frames; the last one is padded with zeros.

    Frame k is due at start + (k + 1) * 20 ms, where start is the clock's time when the first frame is asked for. A
    consumer that lags gets late frames at once and catches up: due times are counted from the start, so nothing
    drifts, and ``end_s`` is the due time even when the frame is late.
    """

    def __init__(self, samples: Samples, clock: Clock) -> None:
        if samples.ndim != 1 or samples.dtype != np.int16:
            raise InputError(f"audio must be int16 mono, not {samples.dtype} of shape {samples.shape}")
        self._samples = samples
        self._clock = clock

    @property
    def duration_s(self) -> float:
        """Length of the audio before padding."""
        return len(self._samples) / SAMPLE_RATE

    async def frames(self) -> AsyncIterator[AudioFrame]:
        """The frames, each not before its ``end_s``."""
        start_s = self._clock.now()
        for index, first in enumerate(range(0, len(self._samples), FRAME_SAMPLES)):
            block = self._samples[first : first + FRAME_SAMPLES]
            if len(block) < FRAME_SAMPLES:
                block = np.pad(block, (0, FRAME_SAMPLES - len(block)))
            end_s = start_s + (first + FRAME_SAMPLES) / SAMPLE_RATE
            await self._clock.sleep_until(end_s)
            yield AudioFrame(block, index, end_s)


class FileSource(SamplesSource):
    """A recording as a source; read whole before the first frame. Raises InputError as ``read_audio`` does."""

    def __init__(self, path: str | Path, clock: Clock, channel: Channel = "mix") -> None:
        super().__init__(read_audio(path, channel), clock)
