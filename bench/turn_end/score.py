"""Figures of one candidate on one label set. Pure: answers and silences in, figures with intervals out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .activity import Span
from .completeness import Label, Labels, label_of
from .metrics import auc, balanced_accuracy, interval, repeated, weighted_f1
from .policy import LONGEST_HOLD_S, Costs, Judged, Policy, Scored, best_cut, best_latency_s, chosen

Floats = NDArray[np.float64]
S = TypeVar("S", bound=Judged)

SHORTEST_HOLD_S = 0.2
DECIDE_AT_S = 0.2
BUDGETS = (0.05, 0.10)
WAITS_S = (0.3, 0.6)
_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with the 2.5 and 97.5 % points of its bootstrap over talks."""

    value: float
    low: float
    high: float

    def as_json(self) -> list[float | None]:
        """[value, low, high], None where there is no value."""
        return [round(x, 4) if np.isfinite(x) else None for x in (self.value, self.low, self.high)]


def counted(spans: Sequence[Span], label_set: str, labels: Labels) -> list[tuple[int, Span]]:
    """Silences that count: holds of 0.2 to 5 s and all turn ends (eot-bench's rule), with their index.

    ``next_speaker`` takes all of them. ``completeness`` takes holds labelled unfinished and turn ends labelled
    complete: to answer a complete hold is no mistake, and nothing is asked of ambiguous ones.
    """
    found = []
    for index, span in enumerate(spans):
        if not span.shift and not SHORTEST_HOLD_S - _EPS <= span.length_s <= LONGEST_HOLD_S + _EPS:
            continue
        wanted = Label.COMPLETE if span.shift else Label.UNFINISHED
        if label_set == "next_speaker" or label_of(labels, span) is wanted:
            found.append((index, span))
    return found


def trade_off(costs: Costs) -> dict[str, Figure]:
    """eot-bench's operating points, each the best policy on these very talks, which flatters."""
    found: dict[str, Figure] = {}
    for budget in BUDGETS:
        name = f"latency_ms_at_{round(budget * 100)}pct"
        found[name] = _over_talks(costs, partial(_latency_ms, budget=budget))
    for wait_s in WAITS_S:
        name = f"cutoffs_at_{round(wait_s * 1e3)}ms"
        found[name] = _over_talks(costs, partial(best_cut, budget_s=wait_s))
    return found


def carried_over(costs: Costs) -> dict[str, Figure]:
    """Cut-offs and latency of each talk under the policy that was best on the *other* talks for each budget."""
    talks = len(costs.talks)
    found: dict[str, Figure] = {}
    for budget in BUDGETS:
        picks = []
        for talk in range(talks):
            others = np.ones(talks)
            others[talk] = 0.0
            pick = chosen(*costs.rates(others), budget)
            picks.append(-1 if pick is None else pick)
        usable = [talk for talk in range(talks) if picks[talk] >= 0]
        cut = np.array([costs.cut[picks[t], t] for t in usable])
        waited = np.array([costs.waited_s[picks[t], t] for t in usable])
        holds, ends = costs.holds[usable], costs.ends[usable]
        name = f"{round(budget * 100)}pct"
        found[f"carried_cutoffs_{name}"] = _ratio(cut, holds)
        waits = _ratio(waited, ends)
        found[f"carried_latency_ms_{name}"] = Figure(1e3 * waits.value, 1e3 * waits.low, 1e3 * waits.high)
    return found


def one_policy(
    spans: Sequence[S], fires_s: Callable[[S], float], was_cut: Callable[[S, float], bool]
) -> dict[str, Figure]:
    """Cut-off rate and mean latency of one given rule; a turn end that is never taken counts as 5 s."""
    talks = sorted({span.talk for span in spans})
    cut, holds, waited, ends = (np.zeros(len(talks)) for _ in range(4))
    for span in spans:
        at, where = fires_s(span), talks.index(span.talk)
        if span.hold:
            holds[where] += 1
            cut[where] += was_cut(span, at)
        else:
            ends[where] += 1
            waited[where] += min(at, LONGEST_HOLD_S)
    waits = _ratio(waited, ends)
    return {"cutoffs": _ratio(cut, holds), "latency_ms": Figure(1e3 * waits.value, 1e3 * waits.low, 1e3 * waits.high)}


def before_the_end(span: Scored, fired_s: float) -> bool:
    """Whether a turn taken at ``fired_s`` came before the silence was over."""
    return fired_s < span.length_s - _EPS


def classification(spans: Sequence[Scored]) -> dict[str, Figure]:
    """AUC, balanced accuracy and weighted F1 of p_end 0.2 s into the silence; thresholds from the other talks."""
    talks = sorted({span.talk for span in spans})
    ends, holds = _at(spans, False, talks), _at(spans, True, talks)
    if not ends[0] or not holds[0]:
        return {}
    thresholds = [
        _best_threshold(
            [p for p, o in zip(*ends, strict=True) if o != talk], [p for p, o in zip(*holds, strict=True) if o != talk]
        )
        for talk in range(len(talks))
    ]
    hit = [float(p >= thresholds[o]) for p, o in zip(*ends, strict=True)]
    kept = [float(p < thresholds[o]) for p, o in zip(*holds, strict=True)]

    def figure(of: Callable[[list[bool], list[bool]], float]) -> Figure:
        def weighted(weights: Floats) -> float:
            return of(
                [x > 0 for x in repeated(hit, ends[1], weights)], [x > 0 for x in repeated(kept, holds[1], weights)]
            )

        return Figure(weighted(np.ones(len(talks))), *interval(weighted, len(talks)))

    def area(weights: Floats) -> float:
        return auc(repeated(*ends, weights), repeated(*holds, weights))

    return {
        "auc": Figure(area(np.ones(len(talks))), *interval(area, len(talks), 300)),
        "balanced_accuracy": figure(balanced_accuracy),
        "weighted_f1": figure(weighted_f1),
    }


@dataclass(frozen=True, slots=True)
class Speech:
    """One channel's answers during its speech, and where its turn ends begin."""

    talk: str
    rows: tuple[tuple[float, float], ...]
    ends_s: tuple[float, ...]
    pauses: tuple[tuple[tuple[float, float], ...], ...]
    """For each end: (silence, p_end) after it."""


def lead(channels: Sequence[Speech], false_alarms: float = 0.05, before_s: float = 0.3) -> dict[str, float | None]:
    """Median time before a turn end at which p_end passes its threshold and stays above it until the end.

    The threshold is the one that, on the other talks, is passed in ``false_alarms`` of the moments of speech that no
    turn end follows within ``before_s``. Negative: only in the silence; an end never noticed counts as -1,000 ms.
    """
    talks = sorted({channel.talk for channel in channels})
    leads: list[float] = []
    alarms = quiet = 0
    for talk in talks:
        others = [p for channel in channels if channel.talk != talk for p in _idle(channel, before_s)]
        if not others:
            continue
        threshold = float(np.quantile(others, 1.0 - false_alarms))
        for channel in channels:
            if channel.talk == talk:
                idle = _idle(channel, before_s)
                alarms += sum(p >= threshold for p in idle)
                quiet += len(idle)
                leads += [lead_of(channel, index, threshold) for index in range(len(channel.ends_s))]
    if not leads:
        return {"lead_ms": None, "noticed_before_share": None, "false_alarm_share": None, "ends": 0}
    return {
        "lead_ms": round(1e3 * float(np.median(leads)), 1),
        "noticed_before_share": round(float(np.mean([x > 0 for x in leads])), 3),
        "false_alarm_share": round(alarms / max(1, quiet), 3),
        "ends": len(leads),
    }


def lead_of(channel: Speech, end: int, threshold: float) -> float:
    """Seconds before one end since when p_end has been at or above the threshold without a break."""
    end_s, since = channel.ends_s[end], None
    for t_s, p_end in reversed([row for row in channel.rows if end_s - 2.0 <= row[0] <= end_s + _EPS]):
        if p_end < threshold:
            break
        since = t_s
    if since is not None:
        return end_s - since
    return next((-silence for silence, p_end in channel.pauses[end] if p_end >= threshold), -1.0)


def _idle(channel: Speech, before_s: float) -> list[float]:
    return [p for t, p in channel.rows if not any(0.0 <= end - t <= before_s + _EPS for end in channel.ends_s)]


def _latency_ms(cut: Floats, latency_s: Floats, budget: float) -> float:
    return 1e3 * best_latency_s(cut, latency_s, budget)


def _over_talks(costs: Costs, of: Callable[[Floats, Floats], float]) -> Figure:
    def figure(weights: Floats) -> float:
        if not costs.holds @ weights or not costs.ends @ weights:
            return float("nan")
        return of(*costs.rates(weights))

    return Figure(figure(np.ones(len(costs.talks))), *interval(figure, len(costs.talks), 300))


def _ratio(above: Floats, below: Floats) -> Figure:
    def figure(weights: Floats) -> float:
        total = float(below @ weights)
        return float(above @ weights) / total if total else float("nan")

    if not len(below):
        return Figure(float("nan"), float("nan"), float("nan"))
    return Figure(figure(np.ones(len(below))), *interval(figure, len(below)))


def _at(spans: Sequence[Scored], hold: bool, talks: list[str]) -> tuple[list[float], list[int]]:
    found = [
        (p_end, talks.index(span.talk))
        for span in spans
        if span.hold is hold
        for moment, p_end in zip(span.moments_s, span.p_end, strict=True)
        if abs(moment - DECIDE_AT_S) < _EPS
    ]
    return [p for p, _ in found], [o for _, o in found]


def _best_threshold(ends: Sequence[float], holds: Sequence[float]) -> float:
    """The lowest threshold of the best balanced accuracy; 0.5 where one kind is missing."""
    if not ends or not holds:
        return 0.5
    options = sorted({0.5, *ends, *holds})
    return max(options, key=lambda at: (balanced_accuracy([p >= at for p in ends], [p < at for p in holds]), -at))


def front(costs: Costs, pick: Sequence[int]) -> list[dict[str, Any]]:
    """The Pareto front as rows."""
    cut, wait = costs.rates(np.ones(len(costs.talks)))
    return [_front_row(costs.policies[i], float(cut[i]), float(wait[i])) for i in pick]


def _front_row(policy: Policy, cut: float, wait_s: float) -> dict[str, Any]:
    return {
        "cutoffs": round(cut, 4),
        "latency_ms": round(1e3 * wait_s, 1),
        "threshold": policy.threshold,
        "delay_s": policy.delay_s,
        "timeout_s": policy.timeout_s,
    }
