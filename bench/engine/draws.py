"""Does drafting leave the deep model's distribution as it is? A chi-square test on draws from the engine's own loop.

One draw is one round of the engine (two drafts, verified) and, if it served one token only, a second: the first and the
second token after a fixed prompt. They are compared with what the deep model says: p(first), and p(second) summed over
the first tokens. A wrong rule, which keeps every draft that the deep model might say at all, has to be found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine import sampling
from pads_runtime.engine.cache import TokenCache
from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.depth import DepthPlan
from pads_runtime.engine.exits import Exits
from pads_runtime.engine.rules import Coupled, Drawing, Leviathan, Rule
from pads_runtime.engine.sampling import Logits
from pads_runtime.engine.speculate import draft_round

from ..report import Measurement, measurement
from .common import QUESTION, Bench, talk

TOP_K, TEMPERATURE = 6, 1.5
"""Few tokens, none of them rare, so that a thousand draws say something."""
REJECTED_BELOW = 0.01
_MIN_EXPECTED = 5.0
_AT = 1
"""Position of the first drawn token in the reply."""


class KeepsTooMuch(Leviathan):
    """The planted mistake: a draft is kept whenever the deep model gives it any probability."""

    def serve(self, logits: Logits, position: int, draft: int | None) -> int:
        """See Rule."""
        if draft is not None:
            ids, _ = self._distribution(logits)
            if draft in ids:
                return draft
        return super().serve(logits, position, draft)


def measure(bench: Bench) -> Iterator[Measurement]:
    """p-values of both rules and of the planted mistake."""
    count = 5000 if bench.full else 400
    engine = bench.engine()
    engine.open(talk(QUESTION), 1)
    prompt = engine.cached_tokens
    engine.close()
    settings = bench.settings.model_copy(update={"exit_layer": exit_ladder(bench.model.n_layer)[1]})
    cache = TokenCache(bench.model, settings)
    try:
        Exits(bench.model, settings, cache, bench.translators)
        cache.extend(prompt[:-1], logits=False)
        plan = DepthPlan(int(settings.exit_layer), 2, "")
        wanted = _truth(cache, prompt)
        rules: dict[str, Callable[[Drawing], Rule]] = {
            "chi_square_coupled": Coupled,
            "chi_square_leviathan": Leviathan,
            "chi_square_planted_wrong_rule": KeepsTooMuch,
        }
        for name, rule in rules.items():
            planted = "planted" in name
            bench.say(f"{name}, {count} draws")
            drawn = [_draw(cache, prompt, plan, rule(Drawing(seed, TEMPERATURE, TOP_K, 1.0))) for seed in range(count)]
            lowest = min(chi_square(Counter(pair[i] for pair in drawn), wanted[i], count) for i in (0, 1))
            note = f"first and second token (Bonferroni), {count} draws, top {TOP_K} at temperature {TEMPERATURE}"
            yield measurement(
                name,
                [min(1.0, 2.0 * lowest)],
                "p",
                limit=REJECTED_BELOW if planted else None,
                at_least=None if planted else REJECTED_BELOW,
                note=note + (", must be rejected" if planted else ", must not be rejected"),
            )
    finally:
        cache.close()


def chi_square(seen: Counter[int], expected: dict[int, float], count: int) -> float:
    """p-value of ``seen`` against probabilities; rare tokens are counted as one. 0 if a token came that never may.

    (Pearson, 1900.) The p-value is the upper tail of the chi-square distribution.
    """
    from scipy.stats import chi2  # type: ignore[import-untyped]

    if any(token not in expected for token in seen):
        return 0.0
    common = [token for token, p in expected.items() if p * count >= _MIN_EXPECTED]
    observed = np.array([seen[token] for token in common], float)
    wanted = np.array([expected[token] * count for token in common], float)
    rest = count - wanted.sum()
    if rest >= 1e-9 * count:
        observed, wanted = np.append(observed, count - observed.sum()), np.append(wanted, rest)
    statistic = float((((observed - wanted) ** 2) / wanted).sum())
    return float(chi2.sf(statistic, max(len(wanted) - 1, 1)))


def _draw(cache: TokenCache, prompt: tuple[int, ...], plan: DepthPlan, rule: Rule) -> tuple[int, int]:
    """The first and the second token after ``prompt``, as the engine would serve them."""
    served = draft_round(cache, prompt[-1], plan, rule, _AT, _never).tokens
    if len(served) == 1:
        served += draft_round(cache, served[0], plan, rule, _AT + 1, _never).tokens
    cache.trim(len(prompt) - 1)
    return served[0], served[1]


def _truth(cache: TokenCache, prompt: tuple[int, ...]) -> tuple[dict[int, float], dict[int, float]]:
    """The deep model's distributions of the first token and of the second."""
    cache.extend(prompt[-1:], logits=True)
    first = _distribution(cache.logits())
    second: dict[int, float] = {}
    for token, p in first.items():
        cache.extend((token,), logits=True)
        for after, q in _distribution(cache.logits()).items():
            second[after] = second.get(after, 0.0) + p * q
        cache.trim(len(prompt))
    cache.trim(len(prompt) - 1)
    return first, second


def _distribution(logits: NDArray[np.float32]) -> dict[int, float]:
    ids, probs = sampling.distribution(logits, TEMPERATURE, TOP_K, 1.0)
    return dict(zip(ids.tolist(), probs.tolist(), strict=True))


def _never(token: int) -> bool:
    return False
