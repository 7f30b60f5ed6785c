"""What a strategy's talks come to: one row a turn, totals, and differences on the same turns. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..bootstrap import Floats, interval, resample_counts
from ..timing import percentile

RESAMPLES = 400
WAITS = ("post_confirm_ttft_ms", "dead_air_ms")


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """One turn under one strategy. Times are None where the turn was not answered."""

    block: int
    turn: int
    place: str
    pause_s: float
    post_confirm_ttft_ms: float | None
    dead_air_ms: float | None
    prepared: int
    committed: int
    false_cutoffs: int
    wasted_tokens: int
    wasted_cpu_ms: float
    user: str
    agent: str


@dataclass(frozen=True)
class StrategyFigures:
    """All turns of one strategy, in order, and what the machine spent on them."""

    name: str
    meaning: str
    turns: tuple[TurnFigures, ...]
    cpu_s: float
    """Processor time of the process, all threads, models included."""
    joules: float | None
    """None where the machine does not tell."""

    def values(self, wait: str) -> Floats:
        """(turns,) of a wait in ms, NaN where there is none."""
        found = [getattr(turn, wait) for turn in self.turns]
        return np.array([math.nan if value is None else value for value in found], np.float64)

    def as_json(self) -> dict[str, Any]:
        """Totals, with 95 % intervals of the medians and of the waste by a bootstrap over turns."""
        prepared, committed = (sum(getattr(turn, key) for turn in self.turns) for key in ("prepared", "committed"))
        wasted = np.array([turn.wasted_tokens for turn in self.turns], np.float64)
        return {
            "strategy": self.name,
            "meaning": self.meaning,
            "turns": len(self.turns),
            **{wait: spread(self.values(wait)) for wait in WAITS},
            "prepared": prepared,
            "committed": committed,
            "hit_rate": round(committed / prepared, 4) if prepared else None,
            "false_cutoffs": sum(turn.false_cutoffs for turn in self.turns),
            "wasted_tokens": int(wasted.sum()),
            "wasted_tokens_per_turn": bounded(wasted, np.mean),
            "wasted_cpu_ms": round(sum(turn.wasted_cpu_ms for turn in self.turns), 1),
            "cpu_s": round(self.cpu_s, 2),
            "joules": self.joules,
            "by_place": {
                place: spread(
                    np.array(
                        [v for v, t in zip(self.values("dead_air_ms"), self.turns, strict=True) if t.place == place]
                    )
                )
                for place in sorted({turn.place for turn in self.turns})
            },
        }


def spread(values: Floats) -> dict[str, Any] | None:
    """p50 and p95 with their intervals; None without a value."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    return {
        "n": len(known),
        "p50": bounded(known, lambda v: percentile(v, 50)),
        "p95": bounded(known, lambda v: percentile(v, 95)),
    }


def bounded(values: Floats, figure: Any) -> dict[str, Any]:
    """A figure of the values with its 95 % interval; turns are drawn with replacement."""
    draws = resample_counts(len(values), RESAMPLES).astype(int)
    found = np.array([figure(np.repeat(values, row)) for row in draws])
    low, high = interval(found) or (math.nan, math.nan)
    return {"value": round(float(figure(values)), 3), "low": round(low, 3), "high": round(high, 3)}


def difference(candidate: StrategyFigures, base: StrategyFigures, wait: str) -> dict[str, Any] | None:
    """Mean of (candidate - base) over turns that both answered, with its interval: turns are drawn as pairs."""
    pairs = candidate.values(wait) - base.values(wait)
    known = pairs[~np.isnan(pairs)]
    if not len(known):
        return None
    return {"candidate": candidate.name, "base": base.name, "wait": wait, "n": len(known), **bounded(known, np.mean)}


@dataclass(frozen=True, slots=True)
class Replies:
    """Whether strategies said the same: ``compared`` pairs of replies to the same words after the same history."""

    compared: int
    not_comparable: int
    """Pairs after a false cut-off under either strategy: what was heard of a reply that was cut off depends on the
    waiting, and stands in the history of all that follows in the talk."""
    odd: tuple[str, ...]
    """Those that differ; empty is as it should be."""


def same_replies(all_: Sequence[StrategyFigures]) -> Replies:
    """Every strategy's replies against the first one's."""
    compared = apart = 0
    odd: list[str] = []
    for other in all_[1:]:
        cut: set[int] = set()
        for a, b in zip(all_[0].turns, other.turns, strict=True):
            if a.false_cutoffs or b.false_cutoffs or a.user != b.user:
                cut.add(a.block)
            if a.block in cut:
                apart += 1
                continue
            compared += 1
            if a.agent != b.agent:
                odd.append(f"{other.name}, block {b.block} turn {b.turn}: {b.agent!r}, {all_[0].name}: {a.agent!r}")
    return Replies(compared, apart, tuple(odd))


def pareto(all_: Sequence[StrategyFigures], wait: str = "dead_air_ms") -> list[str]:
    """Names of the strategies that no other beats in both the median wait and the tokens wasted."""
    points = {s.name: (float(np.nanmedian(s.values(wait))), sum(t.wasted_tokens for t in s.turns)) for s in all_}
    return [
        name
        for name, (a, b) in points.items()
        if not any((x <= a and y <= b) and (x < a or y < b) for other, (x, y) in points.items() if other != name)
    ]


def rows(strategy: StrategyFigures) -> list[dict[str, Any]]:
    """Every turn as plain data."""
    return [{"strategy": strategy.name, **asdict(turn)} for turn in strategy.turns]


def agreement(real: Mapping[str, Any], virtual: Mapping[str, Any]) -> dict[str, Any]:
    """How far the virtual clock's medians are from the real clock's: (virtual - real) / real, by wait."""
    found: dict[str, Any] = {}
    for wait in WAITS:
        a, b = real[wait], virtual[wait]
        if a is not None and b is not None:
            measured, modelled = a["p50"]["value"], b["p50"]["value"]
            off = (modelled - measured) / measured if measured else (0.0 if not modelled else math.inf)
            found[wait] = {"real": measured, "virtual": modelled, "off": round(off, 4)}
    return found
