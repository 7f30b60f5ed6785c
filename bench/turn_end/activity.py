"""Who spoke when, and the silences in between: the reference that predictions are scored against. Pure.

Unlike the runtime's voice activity this looks at the whole recording, so it may call a level "speech" by what is loud
in that recording. It decides only *where silences lie*; no predictor sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pads_runtime.frames import SAMPLE_RATE, Samples

STEP_S = 0.01
_STEP = SAMPLE_RATE // 100
_BELOW_LOUD_DB = 28.0
_PEAK_BELOW_LOUD_DB = 18.0
_ABOVE_FLOOR_DB = 10.0
_CROSSTALK_DB = 20.0
_CLOSE_STEPS = 9
_SHORTEST_STEPS = 6

Activity = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Span:
    """One silence of at least the shortest counted length, after speech of ``channel``.

    ``start_s`` is the end of the speech, ``end_s`` when anyone speaks again, ``resume_s`` when this channel does (the
    end of the recording if never), ``shift`` whether the other side is the one who spoke next.
    """

    talk: str
    channel: str
    start_s: float
    end_s: float
    resume_s: float
    shift: bool

    @property
    def length_s(self) -> float:
        """Silence of everyone, in seconds."""
        return self.end_s - self.start_s


def levels_db(samples: Samples) -> NDArray[np.float64]:
    """Power of each 10 ms, dB of full scale, of shape (len // 160,)."""
    blocks = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP).astype(np.float64) / 32768.0
    level: NDArray[np.float64] = 10.0 * np.log10(blocks.var(axis=1) + 1e-12)
    return level


def activity(channels: Sequence[Samples]) -> Activity:
    """Speech of each channel on a 10 ms grid, shape (channels, steps).

    Speech is what lies within 28 dB of the channel's loud parts and 10 dB above its floor, and rises to within 18 dB of
    them somewhere, which a breath does not. A channel 20 dB below another one at that instant hears it through the
    wire. Holes under 100 ms are closed, bursts under 60 ms dropped.
    """
    level = np.stack([levels_db(samples) for samples in channels])
    loud, floor = np.percentile(level, 95, axis=1), np.percentile(level, 20, axis=1)
    threshold = np.maximum(loud - _BELOW_LOUD_DB, floor + _ABOVE_FLOOR_DB)
    active = level >= threshold[:, None]
    active &= level >= level.max(axis=0)[None] - _CROSSTALK_DB
    return np.stack([_tidy(*row) for row in zip(active, level >= loud[:, None] - _PEAK_BELOW_LOUD_DB, strict=True)])


def spans(talk: str, active: Activity, channels: Sequence[str], shortest_s: float = 0.1) -> list[Span]:
    """Every mutual silence of at least ``shortest_s`` that follows speech, in order.

    A silence that both sides entered together (one 10 ms step) has no one turn to end and is left out, as are the
    silences before the first and after the last speech.
    """
    found: list[Span] = []
    anyone: Activity = np.asarray(active.any(axis=0))
    edges = np.flatnonzero(np.diff(anyone.astype(np.int8)))
    for left, right in pairwise(edges):
        if anyone[left + 1] or (right - left) * STEP_S < shortest_s - STEP_S / 2:
            continue
        before, after = active[:, left], active[:, right + 1]
        if before.sum() != 1:
            continue
        side = int(np.argmax(before))
        later = np.flatnonzero(active[side, right + 1 :])
        resume = right + 1 + int(later[0]) if len(later) else active.shape[1]
        found.append(
            Span(
                talk,
                channels[side],
                round((left + 1) * STEP_S, 2),
                round((right + 1) * STEP_S, 2),
                round(resume * STEP_S, 2),
                not bool(after[side]),
            )
        )
    return found


def _tidy(active: Activity, strong: Activity) -> Activity:
    """Close short holes, then drop bursts that are short or nowhere strong."""
    kept = _flip_short(active, hole=True, longest=_CLOSE_STEPS)
    kept = _flip_short(kept, hole=False, longest=_SHORTEST_STEPS - 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], kept.astype(np.int8), [0]])))
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        kept[left:right] &= bool(strong[left:right].any())
    return kept


def _flip_short(active: Activity, hole: bool, longest: int) -> Activity:
    """Runs of holes (or of activity) of at most ``longest`` steps that touch no edge are turned over."""
    flipped = active.copy()
    edges = np.flatnonzero(np.diff(active.astype(np.int8))) + 1
    for left, right in pairwise(edges):
        if active[left] != hole and right - left <= longest:
            flipped[left:right] = hole
    return flipped
