"""Samples of the microphone into frames with a number and a time; silence where the microphone gives nothing."""

from __future__ import annotations

import numpy as np

from ..frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples

JUMP_S = 0.1
"""How much later than expected a frame's time must be for frames to be missing before it."""
_SLEW_S = 0.0005
"""How far one frame's time is corrected towards the observed one."""
_FAST_SLEW_S = 0.01
"""The same while the times given so far were more than JUMP_S too late, as after a stream that began with a burst."""


class FrameMaker:
    """Makes frames whose ``index`` has a gap exactly where audio is missing, and whose ``end_s`` never goes back.

    Between gaps the times are 20 ms apart, but for a slow correction that follows the microphone's own clock.
    """

    def __init__(self) -> None:
        self.frames_lost = 0
        self._index = -1
        self._end_s: float | None = None
        self._stood_in_until_s = float("-inf")
        self._rest: Samples = np.zeros(0, dtype=np.int16)

    def push(self, samples: Samples, end_s: float) -> list[AudioFrame]:
        """The frames that ``samples`` (int16 mono, 16 kHz) complete; the last of them was recorded at ``end_s``.

        Audio from a time for which silence has stood in is dropped.
        """
        audio = np.concatenate([self._rest, samples])
        whole = len(audio) // FRAME_SAMPLES * FRAME_SAMPLES
        self._rest = audio[whole:]
        made: list[AudioFrame] = []
        for first in range(0, whole, FRAME_SAMPLES):
            t_s = end_s - (len(audio) - first - FRAME_SAMPLES) / SAMPLE_RATE
            if self._place(t_s):
                made.append(self._frame(audio[first : first + FRAME_SAMPLES]))
        return made

    def silence(self, now_s: float) -> list[AudioFrame]:
        """Frames of zeros up to ``now_s``, while there is no microphone. A long wait becomes a gap, not a burst."""
        self._rest = self._rest[:0]
        if self._end_s is None:
            self._end_s = now_s
        if now_s - self._end_s > JUMP_S + FRAME_S:
            self._skip(now_s - FRAME_S - self._end_s)
        made: list[AudioFrame] = []
        while self._end_s + FRAME_S <= now_s:
            self._end_s += FRAME_S
            made.append(self._frame(np.zeros(FRAME_SAMPLES, dtype=np.int16)))
        self._stood_in_until_s = self._end_s
        return made

    def _place(self, t_s: float) -> bool:
        """Settle ``_end_s`` for the next frame, observed to end at ``t_s``; False if it comes too late to be used."""
        if t_s < self._stood_in_until_s:
            self.frames_lost += 1
            return False
        if self._end_s is None:
            self._end_s = t_s
            return True
        error_s = t_s - (self._end_s + FRAME_S)
        if error_s > JUMP_S:
            self._skip(error_s)
            error_s = 0.0
        most_s = _FAST_SLEW_S if error_s < -JUMP_S else _SLEW_S
        self._end_s += FRAME_S + max(-most_s, min(most_s, error_s))
        return True

    def _skip(self, seconds: float) -> None:
        assert self._end_s is not None
        missing = max(1, round(seconds / FRAME_S))
        self._index += missing
        self.frames_lost += missing
        self._end_s += seconds

    def _frame(self, samples: Samples) -> AudioFrame:
        assert self._end_s is not None
        self._index += 1
        return AudioFrame(samples, self._index, self._end_s)
