"""Intervals, each with the name of the method that made it. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from ..bootstrap import RESAMPLES, ratios, resample_counts
from ..bootstrap import interval as middle

T = TypeVar("T")
Pair = tuple[float, float]
"""(baseline, candidate) of one unit of work, measured in turn."""

_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % bounds around ``value``."""

    value: float
    low: float
    high: float
    method: str

    def as_json(self) -> dict[str, Any]:
        """Plain data, four significant digits; None where there is no number."""
        return {k: _rounded(v) if isinstance(v, float) else v for k, v in asdict(self).items()}


def normal_interval(values: Sequence[float]) -> Interval | None:
    """Mean of repeated runs and its bounds by the normal approximation; None for fewer than two runs."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = _Z95 * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, f"normal approximation of the mean, 95 %, {len(values)} runs")


def cluster_interval(clusters: Mapping[str, Sequence[Pair]], draws: int = RESAMPLES) -> Interval:
    """Total of the candidate over that of the baseline, with a bootstrap over whole clusters drawn with replacement.

    What belongs together (one prompt, one talk) is one cluster, so that its likeness does not pass for certainty.
    Raises ValueError if there is no pair or the baselines add up to nothing.
    """
    sums = np.array([np.sum(np.asarray(pairs, float), axis=0) for pairs in clusters.values() if len(pairs)])
    if not len(sums) or sums[:, 0].sum() <= 0:
        raise ValueError("a ratio needs pairs whose baseline is not nothing")
    base, candidate = sums[:, 0], sums[:, 1]
    low, high = middle(ratios(resample_counts(len(sums), draws), candidate, base)) or (math.nan, math.nan)
    method = f"cluster bootstrap of the ratio of sums, 95 %, {len(sums)} clusters, {draws} draws"
    return Interval(float(candidate.sum() / base.sum()), low, high, method)


def interleaved(
    baseline: Callable[[], T], candidate: Callable[[], T], rounds: int, warm_up: int = 1
) -> list[tuple[T, T]]:
    """Both in turn, the order changing from round to round, so that a change of the machine's load meets both.

    The first ``warm_up`` rounds are thrown away. Returns (baseline, candidate) of each kept round.
    """
    kept = []
    for number in range(warm_up + rounds):
        if number % 2:
            second, first = candidate(), baseline()
        else:
            first, second = baseline(), candidate()
        if number >= warm_up:
            kept.append((first, second))
    return kept


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
