"""Intervals by cluster bootstrap: whole prompts are drawn again, because positions of one reply are not independent.

Every figure of one benchmark uses the same draws, so that a difference is taken within the same resample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
SEED = 20260923
_ENOUGH = 0.95
"""A figure that fewer of the resamples have gets no interval."""

Floats = NDArray[np.float64]


def resample_counts(clusters: int, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """How often each cluster was drawn: (resamples, clusters), every row sums to ``clusters``."""
    drawn = np.random.default_rng(seed).integers(0, clusters, (resamples, clusters))
    counts = np.zeros((resamples, clusters))
    np.add.at(counts, (np.arange(resamples)[:, None], drawn), 1.0)
    return counts


def ratios(counts: Floats, top: ArrayLike, bottom: ArrayLike) -> Floats:
    """sum(top) / sum(bottom) in each resample, (resamples, ...); ``top``, ``bottom`` (clusters, ...). NaN for 0 / 0."""
    above, below = counts @ np.asarray(top, np.float64), counts @ np.asarray(bottom, np.float64)
    found: Floats = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    return found


def interval(values: Floats) -> tuple[float, float] | None:
    """What holds the middle 95 % of ``values`` (resamples,); None if more than 5 % of them are NaN."""
    known = values[~np.isnan(values)]
    if len(known) < _ENOUGH * len(values):
        return None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
