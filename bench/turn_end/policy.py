"""When a policy would have taken the turn, and what that costs: eot-bench's sweep. Pure.

A policy has a threshold, a delay and a timeout (the latter two are silence lengths in seconds): it takes the turn at
the first scored moment not before the delay whose p_end reaches the threshold, and at the timeout in any case. Taking
it inside a hold is a *cut-off*; on a turn end the time from the end of speech, compute included, is the *latency*.
(livekit/eot-bench, README, "Evaluation Model".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 50))
DELAYS_S = tuple(round(0.1 * step, 1) for step in range(1, 11))
TIMEOUTS_S = (*(round(0.1 * step, 1) for step in range(1, 31)), 3.5, 4.0, 4.5, 5.0)
LONGEST_HOLD_S = 5.0
_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Scored:
    """One silence with what a predictor said in it: ``moments_s`` (silence so far, rising) and ``p_end`` at each."""

    talk: str
    hold: bool
    length_s: float
    moments_s: tuple[float, ...]
    p_end: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The three knobs; ``threshold`` None means silence alone."""

    threshold: float | None
    delay_s: float
    timeout_s: float

    def fires_s(self, span: Scored, compute_s: float) -> float:
        """Silence at which the turn is taken. An answer is there ``compute_s`` after it was asked for."""
        if self.threshold is not None:
            for moment, p_end in zip(span.moments_s, span.p_end, strict=True):
                if moment >= self.delay_s - _EPS and p_end >= self.threshold:
                    return min(moment + compute_s, self.timeout_s)
        return self.timeout_s


@dataclass(frozen=True, slots=True)
class Costs:
    """What each policy (row) did in each talk (column): sums that can be added over any choice of talks."""

    policies: tuple[Policy, ...]
    talks: tuple[str, ...]
    cut: Floats
    holds: Floats
    waited_s: Floats
    ends: Floats

    def rates(self, weights: Floats) -> tuple[Floats, Floats]:
        """Cut-off rate and mean latency of each policy with every talk counted ``weights`` times."""
        holds, ends = float(self.holds @ weights), float(self.ends @ weights)
        return self.cut @ weights / max(holds, _EPS), self.waited_s @ weights / max(ends, _EPS)


def grid(thresholds: Sequence[float] = THRESHOLDS, delays_s: Sequence[float] = DELAYS_S) -> tuple[Policy, ...]:
    """Every combination, silence alone included."""
    alone = [Policy(None, 0.0, timeout) for timeout in TIMEOUTS_S]
    swept = [
        Policy(threshold, delay, timeout)
        for threshold in thresholds
        for delay in delays_s
        for timeout in TIMEOUTS_S
        if timeout > delay
    ]
    return tuple(alone + swept)


def costs(spans: Sequence[Scored], policies: Sequence[Policy], compute_s: float) -> Costs:
    """Run every policy over every silence. Turn ends have ``hold`` False."""
    fires = _all_fires(spans, policies, compute_s)
    length = np.array([span.length_s for span in spans])
    return tally(spans, policies, fires, fires < length[None] - _EPS)


class Judged(Protocol):
    """What a silence must say of itself to be counted."""

    @property
    def talk(self) -> str: ...

    @property
    def hold(self) -> bool: ...


def tally(spans: Sequence[Judged], policies: Sequence[Policy], fires_s: Floats, taken: NDArray[np.bool_]) -> Costs:
    """Sums by talk. ``fires_s`` and ``taken`` (would it have cut a hold off?) are of shape (policies, spans)."""
    talks = tuple(sorted({span.talk for span in spans}))
    member = np.array([[span.talk == talk for talk in talks] for span in spans], dtype=float)
    hold = np.array([span.hold for span in spans])
    cut = (taken & hold[None]).astype(float)
    waited = np.where(hold[None], 0.0, fires_s)
    return Costs(
        tuple(policies),
        talks,
        cut @ member,
        hold.astype(float) @ member,
        waited @ member,
        (~hold).astype(float) @ member,
    )


def _all_fires(spans: Sequence[Scored], policies: Sequence[Policy], compute_s: float) -> Floats:
    """Shape (policies, spans). First crossings are found once for each (threshold, delay)."""
    crossings: dict[tuple[float | None, float], Floats] = {}
    rows = []
    for policy in policies:
        key = (policy.threshold, policy.delay_s)
        if key not in crossings:
            never = Policy(policy.threshold, policy.delay_s, float("inf"))
            crossings[key] = np.array([never.fires_s(span, compute_s) for span in spans])
        rows.append(np.minimum(crossings[key], policy.timeout_s))
    return np.stack(rows)


def best_latency_s(cut: Floats, latency_s: Floats, budget: float) -> float:
    """Least mean latency among policies whose cut-off rate keeps to ``budget``; nan if none does."""
    kept = latency_s[cut <= budget + _EPS]
    return float(kept.min()) if len(kept) else float("nan")


def best_cut(cut: Floats, latency_s: Floats, budget_s: float) -> float:
    """Least cut-off rate among policies whose mean latency keeps to ``budget_s``; nan if none does."""
    kept = cut[latency_s <= budget_s + _EPS]
    return float(kept.min()) if len(kept) else float("nan")


def chosen(cut: Floats, latency_s: Floats, budget: float) -> int | None:
    """Index of the policy ``best_latency_s`` stands for; among equals the one that cuts off least, then the first."""
    allowed = np.flatnonzero(cut <= budget + _EPS)
    if not len(allowed):
        return None
    return int(min(allowed, key=lambda i: (round(float(latency_s[i]), 9), round(float(cut[i]), 9), i)))


def pareto(cut: Floats, latency_s: Floats) -> list[int]:
    """Indices of policies that no other beats on both, by rising latency."""
    order = np.lexsort((cut, latency_s))
    front: list[int] = []
    for index in order:
        if not front or cut[index] < cut[front[-1]] - _EPS:
            front.append(int(index))
    return front
