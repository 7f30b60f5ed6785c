"""Costs of passes: the ladder, what a round costs, interpolation, and what a stored file may not say."""

from __future__ import annotations

import json

import pytest

from pads_runtime.engine.costs import DepthCosts, ExitCosts, exit_ladder, expected_tokens, rows_ms

COSTS = DepthCosts(
    full={1: 10.0, 2: 18.0, 4: 30.0},
    exits={6: ExitCosts(draft=2.0, draft_whole=4.0, carry=1.5, deep={1: 8.0, 2: 14.0, 4: 22.0})},
)


def test_the_ladder_of_the_default_model_is_five_exits() -> None:
    assert exit_ladder(30) == (6, 10, 15, 20, 25)


@pytest.mark.parametrize("n_layer", [1, 2, 3, 16, 24, 80])
def test_exits_lie_inside_the_model_and_rise(n_layer: int) -> None:
    ladder = exit_ladder(n_layer)
    assert list(ladder) == sorted(set(ladder))
    assert all(1 <= layer < n_layer for layer in ladder)
    assert bool(ladder) == (n_layer > 1)


def test_a_round_serves_its_accepted_drafts_and_one_token_more() -> None:
    assert expected_tokens(0.0, 4) == 1
    assert expected_tokens(1.0, 4) == 5
    assert expected_tokens(0.5, 2) == pytest.approx(1.75)


def test_a_round_costs_its_drafts_the_carried_one_and_one_deep_pass() -> None:
    assert COSTS.round_ms(6, 1, draft_head=True) == 2.0 + 1.5 + 14.0
    assert COSTS.round_ms(6, 3, draft_head=False) == 3 * 4.0 + 1.5 + 22.0
    assert COSTS.speed_up(6, 3, 1.0, draft_head=True) == pytest.approx(4 * 10.0 / 29.5)
    assert COSTS.max_draft == 3


def test_rows_between_and_beyond_the_measured_lie_on_lines() -> None:
    assert rows_ms(COSTS.full, 3) == pytest.approx(24.0)
    assert rows_ms(COSTS.full, 6) == pytest.approx(42.0)
    assert rows_ms({1: 10.0}, 3) == pytest.approx(30.0)


def test_costs_survive_being_stored() -> None:
    assert DepthCosts.from_json(json.loads(json.dumps(COSTS.as_json()))) == COSTS


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("full"),
        lambda data: data["full"].pop("1"),
        lambda data: data["full"].update({"1": -3}),
        lambda data: data["full"].update({"1": float("nan")}),
        lambda data: data["full"].update({"x": 3}),
        lambda data: data["exits"]["6"].pop("carry"),
        lambda data: data["exits"].update({"6": 5}),
    ],
)
def test_costs_that_are_none_are_refused(damage: object) -> None:
    data = COSTS.as_json()
    assert callable(damage)
    damage(data)
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        DepthCosts.from_json(data)
