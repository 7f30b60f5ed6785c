"""A policy swept over its threshold, and policies compared where they cost the same. Pure.

At every position of the whole model's own reply a policy decides: deep, and the token is the whole model's by
definition, or not, and it is what the exit guesses. *Agreement* is the share of positions whose token is the whole
model's, *deep fraction* the share that went deep; every position counts one, whatever reply it is in. The whole model's
tokens are always the context, so one look at each position serves all policies and thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.bootstrap import interval, ratios, resample_counts
from pads_runtime.engine.policies import ExitPolicy, ExitView

Floats = NDArray[np.float64]
Make = Callable[[float], ExitPolicy]

THRESHOLDS = (0.01, *(round(0.05 * i, 2) for i in range(1, 20)), 0.97, 0.99)
"""Rising. What lies outside the deep fractions that they give is not known."""
BUDGETS = (0.25, 0.50, 0.75)


@dataclass(frozen=True)
class Prompt:
    """One reply at one exit."""

    hits: NDArray[np.bool_]
    """(n,): the exit guesses what the whole model says"""
    views: tuple[ExitView, ...]
    """n of them: what a policy sees"""


@dataclass(frozen=True)
class Swept:
    """Counts by threshold and prompt."""

    deep: Floats
    """(prompts, thresholds): positions that went deep"""
    right: Floats
    """(prompts, thresholds): positions whose token is the whole model's"""
    size: Floats
    """(prompts,): positions"""

    def point(self, at: int) -> tuple[float, float]:
        """Deep fraction and agreement at one threshold."""
        total = self.size.sum()
        return float(self.deep[:, at].sum() / total), float(self.right[:, at].sum() / total)

    def at_budget(self, budget: float, counts: Floats | None = None) -> Floats:
        """Agreement at a deep fraction, (resamples,); NaN where no two measured points have it between them.

        ``counts`` (resamples, prompts) says how often each prompt counts; None: once, and there is one "resample".
        """
        counts = np.ones((1, len(self.size))) if counts is None else counts
        size = np.broadcast_to(self.size[:, None], self.deep.shape)
        pairs = zip(ratios(counts, self.deep, size), ratios(counts, self.right, size), strict=True)
        return np.array([interpolated(deep, right, budget) for deep, right in pairs])


def sweep(prompts: Sequence[Prompt], make: Make, thresholds: Sequence[float] = THRESHOLDS) -> Swept:
    """Ask the policy at every position, for every threshold."""
    deep, right = (np.zeros((len(prompts), len(thresholds))) for _ in range(2))
    for at, threshold in enumerate(thresholds):
        leaves = make(threshold)
        for row, prompt in enumerate(prompts):
            shallow = np.array([leaves(view) for view in prompt.views], bool)
            deep[row, at] = np.count_nonzero(~shallow)
            right[row, at] = np.count_nonzero(~shallow | prompt.hits)
    return Swept(deep, right, np.array([len(prompt.hits) for prompt in prompts], np.float64))


def interpolated(deep: Floats, right: Floats, budget: float) -> float:
    """The line through the points (deep, right) at ``budget``; NaN outside the points: nothing is extrapolated.

    ``deep`` must not fall. A policy that decides the same for two thresholds gives the same point twice.
    """
    if np.any(np.diff(deep) < -1e-12):
        raise ValueError("a higher threshold must not send fewer tokens deep")
    return float(np.interp(budget, deep, right, left=np.nan, right=np.nan))


@dataclass(frozen=True)
class Figure:
    """A value with the interval that holds 95 % of its resamples; None: not bracketed."""

    value: float
    low: float
    high: float

    @property
    def resolved(self) -> bool:
        """For a difference: the interval leaves 0 out."""
        return self.low > 0.0 or self.high < 0.0

    def as_json(self) -> list[float]:
        """value, low, high"""
        return [round(x, 4) for x in (self.value, self.low, self.high)]


def matched(swept: Swept, budget: float, counts: Floats) -> Figure | None:
    """Agreement at a budget; None if it is not bracketed, or not in more than 95 % of the resamples."""
    return _figure(swept.at_budget(budget), swept.at_budget(budget, counts))


def difference(a: Swept, b: Swept, budget: float, counts: Floats) -> Figure | None:
    """Agreement of ``a`` less that of ``b`` at a budget, both in the same resample."""
    return _figure(a.at_budget(budget) - b.at_budget(budget), a.at_budget(budget, counts) - b.at_budget(budget, counts))


def over_coin(swept: Swept, shallow: Floats, budget: float, counts: Floats) -> Figure | None:
    """Agreement less that of a coin that sends the budgeted share deep, whatever the token; paired alike.

    ``shallow`` (prompts,): positions where the exit agrees, which is all that a policy that never goes deep gets right.
    """

    def coin(drawn: Floats) -> Floats:
        return budget + (1.0 - budget) * ratios(drawn, shallow, swept.size)

    once = np.ones((1, len(swept.size)))
    return _figure(swept.at_budget(budget) - coin(once), swept.at_budget(budget, counts) - coin(counts))


def counts_for(swept: Swept) -> Floats:
    """The resamples of these prompts: the same for every policy."""
    return resample_counts(len(swept.size))


def nearest(swept: Swept, budget: float) -> int | None:
    """The threshold whose deep fraction is nearest to a budget that is bracketed; of equals, the lowest."""
    if np.isnan(swept.at_budget(budget)[0]):
        return None
    return int(np.argmin([abs(swept.point(at)[0] - budget) for at in range(swept.deep.shape[1])]))


def _figure(here: Floats, resampled: Floats) -> Figure | None:
    between = interval(resampled)
    if np.isnan(here[0]) or between is None:
        return None
    return Figure(float(here[0]), *between)
