"""Where a long turn is cut into stretches that fit the recogniser's window. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frames import SAMPLE_RATE, Samples

_STEP = SAMPLE_RATE // 50
_SMOOTH_STEPS = 11


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples ``start`` up to ``end`` of the turn."""

    start: int
    end: int


def chunks(samples: Samples, window_s: float) -> list[Chunk]:
    """Stretches of at most ``window_s`` that cover the turn; the last one is still open.

    A cut falls into the middle of the quietest 0.2 s of the second half of a window, and is made once the window is
    full. It depends on the audio of that window alone, so audio that comes later never moves a cut.
    """
    window = int(window_s * SAMPLE_RATE)
    found: list[Chunk] = []
    start = 0
    while len(samples) - start > window:
        cut = start + window // 2 + _quietest(samples[start + window // 2 : start + window])
        found.append(Chunk(start, cut))
        start = cut
    found.append(Chunk(start, len(samples)))
    return found


def _quietest(samples: Samples) -> int:
    steps = len(samples) // _STEP
    if steps < _SMOOTH_STEPS:
        return len(samples)
    energy = np.square(samples[: steps * _STEP].astype(np.float64)).reshape(steps, _STEP).sum(axis=1)
    smooth = np.convolve(energy, np.ones(_SMOOTH_STEPS), mode="valid")
    # Sums of equal energies may differ in the last bit: compare what can be heard.
    level = np.round(10.0 * np.log10(smooth + 1.0), 3)
    return int((np.argmin(level) + _SMOOTH_STEPS / 2) * _STEP)
