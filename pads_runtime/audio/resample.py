"""Resampling a running stream with little delay.

A streaming resampler works in large blocks: soxr's holds back up to 37 ms, too long for a talk. Here each short unit
is resampled by itself together with its neighbours, of which only a few ms must have come.
"""

from __future__ import annotations

import math

import numpy as np
import soxr
from numpy.typing import NDArray

from ..frames import Samples

AHEAD = 80
"""Samples, at the lower of both rates, that must follow a unit: half the filter's length; 5 ms at 16 kHz. With them
units join to a unit of the last place."""


class UnitResampler:
    """int16 mono from ``rate_in`` to ``rate_out``; output sample k is the input's at k * rate_in / rate_out.

    ``unit_s`` is the shortest length to work on; it grows until it is a whole number of samples on both sides.
    """

    def __init__(self, rate_in: int, rate_out: int, unit_s: float) -> None:
        self._rate_in, self._rate_out = rate_in, rate_out
        common = math.gcd(rate_in, rate_out)
        times = math.ceil(unit_s * common)
        self._unit_in, self._unit_out = rate_in // common * times, rate_out // common * times
        ahead = math.ceil(AHEAD * rate_in / min(rate_in, rate_out))
        self._need = 2 * self._unit_in + ahead
        # The unit before the first one is silence.
        self._waiting: Samples = np.zeros(self._unit_in, dtype=np.int16)

    def push(self, samples: Samples) -> Samples:
        """What can be said after these samples; int16."""
        if self._rate_in == self._rate_out:
            return samples
        self._waiting = np.concatenate([self._waiting, samples])
        done: list[NDArray[np.float32]] = []
        first = 0
        while len(self._waiting) - first >= self._need:
            part = self._waiting[first : first + self._need].astype(np.float32)
            converted = soxr.resample(part, self._rate_in, self._rate_out, quality="HQ")
            done.append(converted[self._unit_out : 2 * self._unit_out])
            first += self._unit_in
        self._waiting = self._waiting[first:]
        if not done:
            return np.zeros(0, dtype=np.int16)
        result: Samples = np.clip(np.rint(np.concatenate(done)), -32768, 32767).astype(np.int16)
        return result
