"""The agent's own voice as it sounded, at 16 kHz: what the echo canceller and the turn predictor compare with."""

from __future__ import annotations

import threading

import numpy as np

from ..frames import SAMPLE_RATE, Samples
from .player import Player
from .resample import UnitResampler

KEEPS_S = 16.0
UNIT_S = 0.005
RESYNC_S = 0.02
"""An error of alignment beyond which the canceller's reading place jumps; it relearns the delay afterwards."""


class Reference:
    """Reads what a Player gave away, and serves it by the time at which it sounded. One thread calls ``update`` and
    ``take``; ``window`` may be called from any."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._resampler = UnitResampler(player.rate, SAMPLE_RATE, UNIT_S)
        self._data: Samples = np.zeros(round(KEEPS_S * SAMPLE_RATE), dtype=np.int16)
        self._end = 0
        """Index on a 16 kHz line, 0 being the player's position 0, up to which samples are known."""
        self._time_of_zero_s: float | None = None
        self._next: int | None = None
        self._lock = threading.Lock()
        self.resyncs = 0
        self.late = 0
        """Times that ``take`` wanted samples that were not known yet."""

    def update(self) -> None:
        """Take over what has been given to the loudspeaker since the last call."""
        block, lost = self._player.played.read()
        at = self._player.sounds_at()
        samples = block[:, 0]
        if lost:  # nobody called for seconds: what was missed counts as silence
            samples = np.concatenate([np.zeros(lost, dtype=np.int16), samples])
        samples = self._resampler.push(samples)
        with self._lock:
            if at is not None:
                position, sounds_s = at
                self._time_of_zero_s = sounds_s - position / self._player.rate
            self._append(samples[-len(self._data) :], len(samples))

    def _append(self, samples: Samples, count: int) -> None:
        self._end += count
        places = np.arange(self._end - len(samples), self._end) % len(self._data)
        self._data[places] = samples

    def take(self, end_s: float, count: int) -> Samples:
        """The next ``count`` samples for a canceller: those that sounded up to ``end_s``, without a seam.

        The place is settled once and then moves by ``count``; it jumps only if it has come off by RESYNC_S.
        """
        with self._lock:
            if self._time_of_zero_s is None:
                return np.zeros(count, dtype=np.int16)
            due = round((end_s - self._time_of_zero_s) * SAMPLE_RATE) - count
            due = min(due, self._end - count)  # what was not yet given to the loudspeaker cannot have sounded
            if self._next is None or abs(due - self._next) > RESYNC_S * SAMPLE_RATE:
                self.resyncs += self._next is not None
                self._next = due
            self.late += self._next + count > self._end
            first = min(self._next, self._end - count)
            self._next = first + count
            return self._span(first, count)

    def window(self, start_s: float, end_s: float) -> Samples:
        """What sounded in [start_s, end_s), int16 mono at 16 kHz; zeros where nothing did, or it is not known."""
        first, last = round(start_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE)
        with self._lock:
            if self._time_of_zero_s is None:
                return np.zeros(max(0, last - first), dtype=np.int16)
            return self._span(first - round(self._time_of_zero_s * SAMPLE_RATE), last - first)

    def _span(self, first: int, count: int) -> Samples:
        out = np.zeros(max(0, count), dtype=np.int16)
        low, high = max(first, self._end - len(self._data), 0), min(first + count, self._end)
        if low < high:
            out[low - first : high - first] = self._data[np.arange(low, high) % len(self._data)]
        return out
