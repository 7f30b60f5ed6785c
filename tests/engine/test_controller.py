"""The choice of exit and draft length: never slower than plain, finds what pays, and repeats itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pads_runtime.engine.controller import ADVANCE, HALF_LIFE, SPARE, AdaptiveDepth
from pads_runtime.engine.costs import DepthCosts, ExitCosts
from pads_runtime.engine.depth import DepthPlan

EXITS = (6, 15, 25)


def linear(step: float, carry: float, first: float, row: float) -> ExitCosts:
    return ExitCosts(step, step * 1.5, carry, {n: first + row * (n - 1) for n in range(1, 10)})


CHEAP_ROWS = DepthCosts(
    full={1: 10.0}, exits={6: linear(2, 2, 8, 0.4), 15: linear(5, 5, 5, 0.3), 25: linear(8, 8, 2, 0.1)}
)
"""A model that is bound by memory: rows of a batch cost little."""
DEAR_ROWS = DepthCosts(full={1: 10.0}, exits={6: linear(3, 2, 8, 8), 15: linear(6, 5, 5, 5), 25: linear(9, 8, 2, 2)})
"""A model that is bound by arithmetic: a batch costs nearly as much as its rows alone."""


def run(
    controller: AdaptiveDepth, costs: DepthCosts, outcome: Callable[[DepthPlan], int], tokens: int
) -> tuple[list[DepthPlan], float, int]:
    """Rounds until ``tokens`` are served: the plans, their ms by ``costs``, and how many tokens were served."""
    plans: list[DepthPlan] = []
    ms, served = 0.0, 0
    while served < tokens:
        plan = controller.plan()
        plans.append(plan)
        if plan.plain:
            controller.learn(plan, 0, 0)
            ms, served = ms + costs.plain_ms, served + 1
            continue
        assert plan.exit_layer is not None
        accepted = outcome(plan)
        controller.learn(plan, plan.draft_len, accepted)
        ms, served = ms + costs.round_ms(plan.exit_layer, plan.draft_len, True), served + accepted + 1
    return plans, ms, served


def drawn(acceptance: dict[int, float], seed: int = 0) -> Callable[[DepthPlan], int]:
    rng = np.random.default_rng(seed)

    def outcome(plan: DepthPlan) -> int:
        assert plan.exit_layer is not None
        wrong = np.flatnonzero(rng.random(plan.draft_len) >= acceptance[plan.exit_layer])
        return int(wrong[0]) if len(wrong) else plan.draft_len

    return outcome


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([CHEAP_ROWS, DEAR_ROWS]), st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_whatever_is_accepted_it_takes_no_longer_than_plain_by_more_than_the_spare(
    costs: DepthCosts, pattern: list[float]
) -> None:
    asked = iter(range(10**6))

    def outcome(plan: DepthPlan) -> int:
        return round(pattern[next(asked) % len(pattern)] * plan.draft_len)

    _, ms, served = run(AdaptiveDepth(costs, EXITS), costs, outcome, 600)
    assert ms <= costs.plain_ms * (served * (1 + SPARE) + ADVANCE) + 1e-6


def test_a_model_that_turns_bad_after_winning_long_loses_a_bounded_time() -> None:
    controller = AdaptiveDepth(CHEAP_ROWS, EXITS)
    run(controller, CHEAP_ROWS, lambda plan: plan.draft_len, 2000)
    _, ms, served = run(controller, CHEAP_ROWS, lambda plan: 0, 2000)
    assert ms <= CHEAP_ROWS.plain_ms * (served * (1 + SPARE) + 12.0)


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.floats(0, 1)] * 3), st.integers(0, 100), st.sampled_from([CHEAP_ROWS, DEAR_ROWS]))
def test_no_plan_but_a_try_is_expected_to_be_slower_than_plain(
    acceptance: tuple[float, float, float], seed: int, costs: DepthCosts
) -> None:
    controller = AdaptiveDepth(costs, EXITS)
    outcome = drawn(dict(zip(EXITS, acceptance, strict=True)), seed)
    for _ in range(300):
        plan = controller.plan()
        if plan.plain:
            controller.learn(plan, 0, 0)
            continue
        assert plan.exit_layer is not None
        a = controller.acceptance[plan.exit_layer]
        assert plan.reason.startswith("trying") or costs.speed_up(plan.exit_layer, plan.draft_len, a, True) > 1.0
        controller.learn(plan, plan.draft_len, outcome(plan))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("good", EXITS)
def test_it_finds_the_exit_that_pays_and_a_draft_length_near_the_best(good: int, seed: int) -> None:
    costs = DepthCosts(full={1: 10.0}, exits=dict.fromkeys(EXITS, linear(2, 2, 8, 0.4)))
    controller = AdaptiveDepth(costs, EXITS)
    acceptance = dict.fromkeys(EXITS, 0.1) | {good: 0.85}
    run(controller, costs, drawn(acceptance, seed), 3000)
    plans, ms, served = run(controller, costs, drawn(acceptance, seed + 99), 1500)
    assert sum(plan.exit_layer == good for plan in plans) > 0.9 * len(plans)
    best = max(costs.speed_up(good, m, 0.85, True) for m in range(1, 9))
    assert served * costs.plain_ms / ms > 0.9 * best
    assert abs(controller.acceptance[good] - 0.85) < 0.1


def test_it_stops_drafting_when_nothing_is_accepted_and_says_why() -> None:
    controller = AdaptiveDepth(CHEAP_ROWS, EXITS)
    plans, _, _ = run(controller, CHEAP_ROWS, lambda plan: 0, 2000)
    assert sum(not plan.plain for plan in plans[-1000:]) < 50
    assert plans[-1].reason.startswith("plain: best draft 0.")


def test_it_takes_to_drafting_again_when_the_model_accepts_again() -> None:
    controller = AdaptiveDepth(CHEAP_ROWS, EXITS)
    run(controller, CHEAP_ROWS, lambda plan: 0, 2000)
    run(controller, CHEAP_ROWS, lambda plan: plan.draft_len, 3000)
    plans, _, _ = run(controller, CHEAP_ROWS, lambda plan: plan.draft_len, 200)
    assert not any(plan.plain for plan in plans)


def test_where_no_draft_can_pay_none_is_ever_made() -> None:
    dear = DepthCosts(full={1: 10.0}, exits={6: linear(3, 3, 8, 8)})
    plans, ms, served = run(AdaptiveDepth(dear, (6,)), dear, lambda plan: plan.draft_len, 500)
    assert all(plan.plain for plan in plans)
    assert ms == served * dear.plain_ms
    assert plans[0].reason == "plain: no draft can pay here"


def test_exits_without_costs_are_left_out() -> None:
    assert AdaptiveDepth(CHEAP_ROWS, (3, 15)).acceptance.keys() == {15}
    assert AdaptiveDepth(CHEAP_ROWS, ()).plan().plain


def test_a_known_acceptance_is_used_from_the_first_round() -> None:
    assert AdaptiveDepth(CHEAP_ROWS, {6: 0.95, 15: 0.0, 25: 0.0}).plan().exit_layer == 6


def test_the_same_rounds_give_the_same_plans() -> None:
    acceptance = {6: 0.4, 15: 0.7, 25: 0.9}
    first, *_ = run(AdaptiveDepth(CHEAP_ROWS, EXITS), CHEAP_ROWS, drawn(acceptance), 1000)
    again, *_ = run(AdaptiveDepth(CHEAP_ROWS, (25, 6, 15)), CHEAP_ROWS, drawn(acceptance), 1000)
    assert first == again


def test_what_was_seen_fades() -> None:
    controller = AdaptiveDepth(CHEAP_ROWS, {6: 0.2})
    controller.learn(DepthPlan(6, 8, ""), 8, 8)
    fresh = controller.acceptance[6]
    for _ in range(int(HALF_LIFE) * 10):
        controller.learn(DepthPlan(None, 0, ""), 0, 0)
    assert fresh > 0.8
    assert controller.acceptance[6] == pytest.approx(0.2, abs=0.01)
