"""The recipe in numbers."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from pads_runtime.errors import ModelError, UsageError
from training.layerskip.plan import (
    Plan,
    chosen_exits,
    dropout_rates,
    dropped_layers,
    learning_rate,
    rows_of_step,
)


def test_the_dropout_rate_rises_linearly_from_none_at_the_first_layer() -> None:
    rates = dropout_rates(16, 0.5)
    assert (rates[0], rates[-1]) == (0.0, 0.5)
    assert np.allclose(np.diff(rates), 0.5 / 15)


def test_layers_are_dropped_as_often_as_their_rates_say_and_alike_when_asked_again() -> None:
    plan = Plan()
    drawn = Counter(layer for step in range(2000) for layer in dropped_layers(plan, 16, step, 0))
    shares = np.array([drawn[layer] / 2000 for layer in range(16)])
    assert np.abs(shares - dropout_rates(16, 0.5)).max() < 0.05
    assert dropped_layers(plan, 16, 7, 1) == dropped_layers(plan, 16, 7, 1)
    assert len({dropped_layers(plan, 30, step, part) for step in range(20) for part in (0, 1)}) > 30


def test_exits_are_the_published_ones_in_proportion_to_the_depth() -> None:
    assert chosen_exits(Plan(), 16) == (4, 6, 8, 10, 12)
    assert chosen_exits(Plan(), 32) == (8, 12, 16, 20, 24)
    assert chosen_exits(Plan(exits=(20, 6)), 30) == (6, 20)
    assert chosen_exits(Plan(), 2) == (1,)


def test_an_exit_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="30 layers; use 1 to 29"):
        chosen_exits(Plan(exits=(30,)), 30)
    with pytest.raises(ModelError, match="no early exit"):
        chosen_exits(Plan(), 1)


def test_the_learning_rate_rises_then_falls_along_a_cosine_to_a_tenth() -> None:
    plan = Plan(steps=100, warmup=9, learning_rate=1.0)
    rates = [learning_rate(plan, step) for step in range(100)]
    assert rates[:9] == pytest.approx([i / 10 for i in range(1, 10)])
    assert rates[9] == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in itertools.pairwise(rates[9:]))


@pytest.mark.parametrize("devices", [1, 3])
def test_each_pass_takes_every_row_once_in_an_order_of_its_own(devices: int) -> None:
    plan = Plan(batch=2, accumulate=2)
    n_rows = 24
    steps = n_rows // (plan.rows_a_step * devices)
    passes = [
        [row for step in range(steps) for row in rows_of_step(plan, n_rows, first * steps + step, devices)]
        for first in (0, 1)
    ]
    assert [sorted(rows) for rows in passes] == [list(range(n_rows))] * 2
    assert passes[0] != passes[1]


def test_fewer_rows_than_a_step_wants_are_read_again() -> None:
    assert sorted(rows_of_step(Plan(batch=2, accumulate=2), 2, 0)) == [0, 0, 1, 1]
