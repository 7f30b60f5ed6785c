"""Would another rule of confirming have been better? Chosen on some talks, scored on the others.

The runtime's rule has four numbers (``turn.confirm_min_s``, ``confirm_max_s``, ``sure``, ``unsure``). Searching them on
the talks they are scored on flatters; here each talk is scored under the rule that did best on the other talks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pads_runtime.config import TurnSettings

from .loop import LONGEST_WAIT_S, Heard, was_cut
from .loop_rows import confirms_s
from .policy import Floats

BUDGET = 0.10
MIN_S, MAX_S, SURE, UNSURE = (0.5, 0.6, 0.7), (1.2, 1.4, 1.6, 1.8, 2.0), (0.5, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3)
NAMES = ("confirm_min_s", "confirm_max_s", "sure", "unsure")
Rule = tuple[float, float, float, float]


@dataclass(frozen=True)
class Outcome:
    """One rule over all silences: by talk, holds cut off, holds, seconds waited on turn ends, turn ends."""

    rule: Rule
    sums: Floats

    def over(self, talks: Sequence[int]) -> tuple[float, float]:
        """(cut-off rate, mean latency in seconds) over some talks."""
        cut, holds, waited, ends = self.sums[list(talks)].sum(axis=0)
        return float(cut / max(holds, 1.0)), float(waited / max(ends, 1.0))


def outcome(spans: Sequence[Heard], rule: Rule, turn: TurnSettings, compute_s: float) -> Outcome:
    """What the runtime would have done with ``rule``."""
    talks = sorted({span.talk for span in spans})
    sums = np.zeros((len(talks), 4))
    settings = turn.model_copy(update=dict(zip(NAMES, rule, strict=True)))
    for span in spans:
        fired_s = confirms_s(span, settings, compute_s)
        row = sums[talks.index(span.talk)]
        row += (was_cut(span, fired_s), 1, 0, 0) if span.hold else (0, 0, min(fired_s, LONGEST_WAIT_S), 1)
    return Outcome(rule, sums)


def best(outcomes: Sequence[Outcome], talks: Sequence[int], budget: float = BUDGET) -> Outcome:
    """The quickest rule within the budget; if none keeps to it, the one that cuts off least."""

    def order(one: Outcome) -> tuple[float, float, Rule]:
        cut, latency_s = one.over(talks)
        return max(cut, budget + 1e-9), round(latency_s, 9), one.rule

    return min(outcomes, key=order)


def search(spans: Sequence[Heard], turn: TurnSettings, compute_s: float) -> dict[str, Any]:
    """The rule as set, the best one on the same talks, and the best one on the others, as plain figures."""
    rules = list(itertools.product(MIN_S, MAX_S, SURE, UNSURE))
    outcomes = [outcome(spans, rule, turn, compute_s) for rule in rules]
    as_set = outcome(spans, (turn.confirm_min_s, turn.confirm_max_s, turn.sure, turn.unsure), turn, compute_s)
    everyone = list(range(len(as_set.sums)))
    apart = np.zeros(4)
    for talk in everyone:
        chosen = best(outcomes, [other for other in everyone if other != talk])
        apart += chosen.sums[talk]
    same = best(outcomes, everyone)
    return {
        "as_set": _told(as_set.sums.sum(axis=0)),
        "best_on_the_same_talks": _told(same.sums.sum(axis=0)) | dict(zip(NAMES, same.rule, strict=True)),
        "best_on_the_other_talks": _told(apart),
        "confirm_max_s=1.6, sure=0.7": _told(
            outcome(spans, (turn.confirm_min_s, 1.6, 0.7, turn.unsure), turn, compute_s).sums.sum(axis=0)
        ),
    }


def _told(sums: Floats) -> dict[str, float]:
    cut, holds, waited, ends = (float(value) for value in sums)
    return {"cut": int(cut), "holds": int(holds), "latency_ms": round(1e3 * waited / max(ends, 1.0), 1)}
