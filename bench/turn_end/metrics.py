"""Classification figures and bootstrap intervals. Pure; every random draw is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REPEATS = 1_000
SEED = 20_261


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """P(a positive scores above a negative), ties half; nan if either is empty."""
    if not len(positive) or not len(negative):
        return float("nan")
    high, low = np.asarray(positive)[:, None], np.asarray(negative)[None]
    return float(((high > low) + 0.5 * (high == low)).mean())


def balanced_accuracy(hit: Sequence[bool], rejected: Sequence[bool]) -> float:
    """Mean of the shares of positives found and of negatives rejected; nan if either is empty."""
    if not len(hit) or not len(rejected):
        return float("nan")
    return (float(np.mean(hit)) + float(np.mean(rejected))) / 2.0


def weighted_f1(hit: Sequence[bool], rejected: Sequence[bool]) -> float:
    """F1 of shift and of hold, weighted by how many of each there are (VAP's shift/hold figure)."""
    tp, fn = sum(hit), len(hit) - sum(hit)
    tn, fp = sum(rejected), len(rejected) - sum(rejected)
    if not hit and not rejected:
        return float("nan")
    shift = 2 * tp / max(1, 2 * tp + fp + fn)
    hold = 2 * tn / max(1, 2 * tn + fn + fp)
    return (shift * len(hit) + hold * len(rejected)) / (len(hit) + len(rejected))


def draws(talks: int, repeats: int = REPEATS, seed: int = SEED) -> Floats:
    """How often each talk counts in each bootstrap repeat, shape (repeats, talks): talks drawn with replacement."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, talks, size=(repeats, talks))
    return np.stack([np.bincount(row, minlength=talks) for row in picks]).astype(float)


def interval(figure: Callable[[Floats], float], talks: int, repeats: int = REPEATS) -> tuple[float, float]:
    """2.5 and 97.5 % of ``figure(weights)`` over talks drawn with replacement; repeats without a value are left out.

    With four talks this says how much the talks differ, not how a fifth would fare.
    """
    values = np.array([figure(weights) for weights in draws(talks, repeats)])
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def repeated(items: Sequence[float], owner: Sequence[int], weights: Floats) -> list[float]:
    """``items`` with each one as often as its owner's weight says."""
    return [value for value, who in zip(items, owner, strict=True) for _ in range(int(weights[who]))]
