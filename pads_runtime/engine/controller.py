"""Chooses exit and draft length by expected tokens per ms, and plain decoding when nothing pays. Pure, without a clock.

Acceptance is estimated per exit, old rounds fading. What an exit is worth can only be found by drafting from it,
which may lose time, so every round that drafts is paid from an account. Each served token earns ``SPARE`` of its time,
a round that wins earns what it won up to a limit, a round that loses pays what it lost, and a round whose worst outcome
could not be paid is not run. So whatever the model accepts, decoding takes at most (1 + SPARE) times as long as plain
decoding plus ``ADVANCE`` tokens' time, by the measured costs. Tries have a fund of their own besides, which wins do not
fill: they stay rare also where drafting pays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .costs import DepthCosts
from .depth import MAX_DRAFT, DepthPlan

SPARE = 0.01
"""Part of plain decoding's time that tries may lose: half of the promised 2 %; the rest is for costs that vary."""
ADVANCE = 4.0
"""Tokens' time on the account at the start, enough for a few tries."""
CREDIT = 12.0
"""Most tokens' time on the account: a model that stops accepting cannot lose more than this before drafting stops."""
MARGIN = 1.02
"""A plan must promise this much over plain; less is within what costs vary."""
LOOK_AGAIN = 16
"""Plain rounds between two thoughts about trying again."""
HALF_LIFE = 400.0
"""Served tokens after which what was seen counts half."""
PRIOR_TRIES = 2.0
"""How many tries the prior is worth."""
PRIOR = 0.5
"""Acceptance of an exit that nothing is known about."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Drafts judged at one exit, fading with the tokens served since."""

    tried: float = 0.0
    accepted: float = 0.0
    at: int = 0
    """Tokens served in all when this was written."""

    def after(self, served: int) -> Seen:
        """The same, faded to when ``served`` tokens had been served."""
        kept = 0.5 ** ((served - self.at) / HALF_LIFE)
        return Seen(self.tried * kept, self.accepted * kept, served)

    def estimate(self, prior: float) -> float:
        """Mean of the beta posterior."""
        return (self.accepted + prior * PRIOR_TRIES) / (self.tried + PRIOR_TRIES)

    def hope(self, prior: float) -> float:
        """An acceptance that is still plausible: two standard deviations above the estimate, 1 at most."""
        mean, n = self.estimate(prior), self.tried + PRIOR_TRIES
        return min(1.0, mean + 2.0 * math.sqrt(mean * (1.0 - mean) / (n + 1.0)))


@dataclass(frozen=True, slots=True)
class Option:
    """One plan and what a round of it costs, in tokens' time of plain decoding."""

    exit_layer: int
    draft_len: int
    cost: float

    def speed_up(self, acceptance: float) -> float:
        """Over plain decoding: expected tokens over their cost."""
        if acceptance >= 1.0:
            return (self.draft_len + 1) / self.cost
        return (1.0 - acceptance ** (self.draft_len + 1)) / (1.0 - acceptance) / self.cost


class AdaptiveDepth:
    """A ``DepthController`` on measured costs. The same rounds give the same plans.

    ``exits`` are those to choose from, each with the acceptance to start from (None: unknown); exits without costs are
    left out. ``draft_head`` says whether drafts are scored by the short head.
    """

    def __init__(
        self,
        costs: DepthCosts,
        exits: Collection[int] | Mapping[int, float | None],
        max_draft: int = MAX_DRAFT,
        draft_head: bool = True,
    ) -> None:
        priors = exits if isinstance(exits, Mapping) else dict.fromkeys(exits)
        self._priors = {k: PRIOR if p is None else p for k, p in sorted(priors.items()) if k in costs.exits}
        self._costs, self._draft_head = costs, draft_head
        self._options = {
            exit_layer: tuple(
                Option(exit_layer, m, costs.round_ms(exit_layer, m, draft_head) / costs.plain_ms)
                for m in range(1, max_draft + 1)
            )
            for exit_layer in self._priors
        }
        # An option that loses even if every draft is right is never worth a try.
        self._options = {k: kept for k, all_ in self._options.items() if (kept := tuple(filter(_may_pay, all_)))}
        self._seen = dict.fromkeys(self._priors, Seen())
        self._served = 0
        self._account = self._fund = ADVANCE
        self._trying = False
        self._plain_rounds = 0
        self._next = self._choose()

    @property
    def acceptance(self) -> dict[int, float]:
        """The present estimate for each exit."""
        return {k: self._seen[k].after(self._served).estimate(prior) for k, prior in self._priors.items()}

    def plan(self) -> DepthPlan:
        """The next round. See DepthController."""
        return self._next

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        """Take what came of ``plan`` into the estimate and the account. See DepthController."""
        self._served += accepted + 1
        if plan.exit_layer is None or drafted < 1 or plan.exit_layer not in self._priors:
            self._credit(SPARE, 1)
            self._plain_rounds += 1
            if self._plain_rounds >= LOOK_AGAIN:
                self._next = self._choose()
            return
        cost = self._costs.round_ms(plan.exit_layer, drafted, self._draft_head) / self._costs.plain_ms
        self._credit((accepted + 1) * (1.0 + SPARE) - cost, accepted + 1)
        seen = self._seen[plan.exit_layer].after(self._served)
        tried = min(accepted + 1, drafted)  # nothing is known of the drafts after the first wrong one
        self._seen[plan.exit_layer] = Seen(seen.tried + tried, seen.accepted + accepted, self._served)
        self._next = self._choose()

    def _credit(self, net: float, served: int) -> None:
        """Book a round that won ``net`` tokens' time, what ``served`` tokens earn included."""
        self._account = min(self._account + net, CREDIT)
        self._fund = min(self._fund + (min(net, served * SPARE) if self._trying else served * SPARE), CREDIT)

    def _choose(self) -> DepthPlan:
        self._plain_rounds = 0
        if not self._options:
            return DepthPlan(None, 0, "plain: no draft can pay here")
        seen = {k: self._seen[k].after(self._served) for k in self._options}
        best, rate = self._best({k: seen[k].estimate(self._priors[k]) for k in seen})
        a = seen[best.exit_layer].estimate(self._priors[best.exit_layer])
        pays = rate >= MARGIN and self._affordable(best)
        trial = self._trial(seen, best.exit_layer if pays else None, max(rate, 1.0))
        self._trying = trial is not None
        if trial is not None:
            return trial
        if pays:
            return DepthPlan(best.exit_layer, best.draft_len, f"{rate:.2f}x at acceptance {a:.2f}")
        why = f"best draft {rate:.2f}x" if rate < MARGIN else f"{rate:.2f}x promised, too much lost before"
        return DepthPlan(None, 0, f"plain: {why} (exit {best.exit_layer} x{best.draft_len} at acceptance {a:.2f})")

    def _best(self, acceptance: Mapping[int, float]) -> tuple[Option, float]:
        """The option of the highest expected speed-up; of equals, the first exit and the shortest draft."""
        pairs = ((option, option.speed_up(acceptance[k])) for k, options in self._options.items() for option in options)
        return max(pairs, key=lambda pair: pair[1])

    def _trial(self, seen: Mapping[int, Seen], in_use: int | None, known: float) -> DepthPlan | None:
        """A try of the exit that could beat ``known`` by the most, with the draft that risks the least.

        None if no other exit than the one ``in_use`` could, or if it cannot be paid.
        """
        option, hoped = self._best({k: seen[k].hope(self._priors[k]) for k in seen})
        if hoped < known * MARGIN or option.exit_layer == in_use:
            return None
        trial = min(self._options[option.exit_layer], key=lambda o: o.cost)
        if self._fund < trial.cost - 1.0 or not self._affordable(trial):
            return None
        return DepthPlan(trial.exit_layer, trial.draft_len, f"trying: could be {hoped:.2f}x")

    def _affordable(self, option: Option) -> bool:
        return self._account >= option.cost - 1.0  # the worst outcome serves one token


def _may_pay(option: Option) -> bool:
    return option.speed_up(1.0) >= MARGIN
