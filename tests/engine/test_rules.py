"""The rules that judge drafts: coupled draws are plain draws, speculative sampling leaves the distribution alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine import sampling
from pads_runtime.engine.depth import DepthPlan
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.engine.rules import Coupled, Drawing, Leviathan, Rule, accept_or_draw
from pads_runtime.engine.speculate import draft_round
from pads_runtime.errors import EngineError
from pads_runtime.frames import Message

Draw = Callable[[int, Any, Any, tuple[float, float]], int]

VOCAB, SHORT = 50, 20
CRITICAL_1_PERCENT = {3: 11.345, 4: 13.277, 5: 15.086, 6: 16.812, 7: 18.475, 8: 20.090, 9: 21.666}
"""Chi-square above which a fit is rejected at 1 %, by degrees of freedom."""


def scores(seed: int, n: int = VOCAB) -> Any:
    return (np.random.default_rng(seed).normal(size=n) * 2).astype(np.float32)


def chi_square(counts: Counter[Any], expected: dict[Any, float]) -> float:
    n = sum(counts.values())
    assert set(counts) <= set(expected), "something was drawn that the model never says"
    return sum((counts[x] - n * p) ** 2 / (n * p) for x, p in expected.items())


def drawing(seed: int, top_k: int = 4) -> Drawing:
    return Drawing(seed, 1.0, top_k, 1.0)


def always_accept(draft: int, p: Any, q: Any, u: tuple[float, float]) -> int:
    return draft


def draw_again_from_p(draft: int, p: Any, q: Any, u: tuple[float, float]) -> int:
    """The classic mistake: after a rejection the token is drawn from p instead of from what p has more than q."""
    return draft if u[0] * q[draft] < p[draft] else sampling.pick(np.arange(len(p)), p, u[1])


def forget_the_draft_s_probability(draft: int, p: Any, q: Any, u: tuple[float, float]) -> int:
    return draft if u[0] < p[draft] else accept_or_draw(draft, p, q, (1.0, u[1]))


def fit_of(rule: Draw, draws: int = 4000) -> float:
    """Chi-square of what ``rule`` serves from fixed distributions against p, with 4 degrees of freedom."""
    p, q = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.1, 0.2, 0.4, 0.1, 0.2])
    served: Counter[Any] = Counter()
    for i in range(draws):
        u = [sampling.uniform(7, i, lane) for lane in range(3)]
        draft = sampling.pick(np.arange(5), q, u[0])
        served[rule(draft, p, q, (u[1], u[2]))] += 1
    return chi_square(served, dict(enumerate(p)))


def test_speculative_sampling_draws_from_the_deep_distribution() -> None:
    assert fit_of(accept_or_draw) < CRITICAL_1_PERCENT[4]


@pytest.mark.parametrize("wrong", [always_accept, draw_again_from_p, forget_the_draft_s_probability])
def test_a_wrong_acceptance_rule_is_rejected(wrong: Draw) -> None:
    assert fit_of(wrong) > 2 * CRITICAL_1_PERCENT[4]


def test_the_rule_with_drafts_from_a_shorter_head_keeps_the_distribution() -> None:
    deep, shallow = scores(1), scores(2, SHORT)
    ids, probs = sampling.distribution(deep, 1.0, 4, 1.0)
    served: Counter[Any] = Counter()
    accepted = 0
    for seed in range(3000):
        rule = Leviathan(drawing(seed))
        draft = rule.draft(shallow, 5)
        served[rule.serve(deep, 5, draft)] += 1
        accepted += draft == rule.serve(deep, 5, draft)
    assert chi_square(served, dict(zip(ids.tolist(), probs.tolist(), strict=True))) < CRITICAL_1_PERCENT[3]
    assert accepted < 3000


def test_equal_distributions_accept_every_draft() -> None:
    for seed in range(200):
        rule = Leviathan(drawing(seed))
        draft = rule.draft(scores(3), 0)
        assert rule.serve(scores(3), 0, draft) == draft


def test_coupled_draws_are_plain_draws_whatever_was_drafted() -> None:
    for seed in range(50):
        rule, deep = Coupled(drawing(seed)), scores(seed)
        plain = sampling.sample(deep, 1.0, 4, 1.0, sampling.uniform(seed, 9))
        assert rule.serve(deep, 9, None) == plain
        assert rule.serve(deep, 9, rule.draft(scores(seed + 1, SHORT), 9)) == plain
        assert rule.draft(deep, 9) == plain


def test_greedy_looks_at_no_number() -> None:
    rule = Coupled(Drawing(1, 0.0, 40, 0.9))
    assert {rule.serve(scores(4), position, None) for position in range(20)} == {int(np.argmax(scores(4)))}


@pytest.mark.parametrize("make", [Coupled, Leviathan])
def test_a_spoiled_exit_spoils_the_draft_and_not_the_reply(make: Callable[[Drawing], Rule]) -> None:
    deep, spoiled = scores(1), scores(2)
    spoiled[17] = np.nan
    likely = set(sampling.distribution(deep, 1.0, 4, 1.0)[0].tolist())
    for seed in range(20):
        rule = make(drawing(seed))
        draft = rule.draft(spoiled, 0)
        assert rule.serve(deep, 0, draft) in likely
    with pytest.raises(EngineError, match="not finite"):
        make(drawing(1)).serve(spoiled, 0, None)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("wrong", [False, True])
def test_first_and_second_tokens_are_distributed_as_the_deep_model_s(
    wrong: bool,
    make_engine: Callable[..., LlamaEngine],
    talk: Callable[..., list[Message]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not row_exact():
        pytest.skip("this llama.cpp has one depth only: build ours with ./scripts/setup")
    if wrong:
        monkeypatch.setattr("pads_runtime.engine.rules.accept_or_draw", always_accept)
    engine = make_engine(exit_layer=20, draft_len=2)
    engine.open(talk("Tell me a short joke."), 1)
    cache, last = engine._cache, engine.step().tokens[0]
    base = len(cache)
    expected: dict[tuple[int, int], float] = {}
    cache.extend((last,), logits=True)
    for first, p in zip(*sampling.distribution(cache.logits(), 1.5, 3, 1.0), strict=True):
        cache.trim(base + 1)
        cache.extend((int(first),), logits=True)
        for second, p_second in zip(*sampling.distribution(cache.logits(), 1.5, 3, 1.0), strict=True):
            expected[int(first), int(second)] = float(p * p_second)
    served: Counter[Any] = Counter()
    rounds = 0
    draws = 120 if wrong else 250
    for seed in range(draws):
        cache.trim(base)
        rule, tokens = Leviathan(Drawing(seed, 1.5, 3, 1.0)), [last]
        while len(tokens) < 3:
            plan = DepthPlan(20, 3 - len(tokens), "test")
            tokens += draft_round(cache, tokens[-1], plan, rule, len(tokens), lambda token: False).tokens
            rounds += 1
        pair = (tokens[1], tokens[2])
        assert wrong or pair in expected
        served[pair if pair in expected else (-1, -1)] += 1
    assert wrong or draws < rounds < 2 * draws, "some drafts are accepted and some are not"
    merged = merge_rare(expected)
    folded: Counter[Any] = Counter()
    for pair, n in served.items():
        folded[pair if pair in merged else "rare"] += n
    if "rare" in folded:
        merged.setdefault("rare", 1e-3)  # only a wrong rule gets here
    fit = chi_square(folded, merged)
    critical = CRITICAL_1_PERCENT[len(merged) - 1]
    assert (fit > 2 * critical) if wrong else (fit < critical)


def merge_rare(expected: dict[tuple[int, int], float], below: float = 0.02) -> dict[Any, float]:
    """The distribution with all that is rarer than ``below`` in one class."""
    kept: dict[Any, float] = {x: p for x, p in expected.items() if p >= below}
    rest = sum(p for p in expected.values() if p < below)
    return kept | ({"rare": rest} if rest else {})
