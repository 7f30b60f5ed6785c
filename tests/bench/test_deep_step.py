"""Deep steps of models that are not here, from one that is; and which pauses they fit into."""

from __future__ import annotations

import pytest

from bench.deep_step import SHAPES, DeepStep, all_weights, carried_over, deep_weights
from bench.engine.files import Shape
from bench.pause_bench import shares
from bench.pauses import Pauses

TINY = Shape(layers=4, embedding=8, feed_forward=16, heads=2, kv_heads=1, vocab=100)


def test_a_step_reads_the_layers_behind_the_exit_and_the_head() -> None:
    layer = 8 * 8 * 2 + 8 * 4 * 2 + 8 * 16 * 3
    assert deep_weights(TINY, 1) == 3 * layer + 800
    assert all_weights(TINY) == 4 * layer + 800
    assert 1.1e9 < all_weights(SHAPES["1B"]) < 1.3e9
    assert 6.4e9 < all_weights(SHAPES["7B"]) < 6.8e9


def test_a_cost_is_carried_over_in_proportion_and_says_so() -> None:
    basis = DeepStep("tiny", 1, 4, 2.0, False, "measured")
    step = carried_over(basis, TINY, "1B", SHAPES["1B"])
    assert step.extrapolated
    assert step.ms == pytest.approx(2.0 * deep_weights(SHAPES["1B"], 5) / deep_weights(TINY, 1))
    assert "tiny's 2 ms" in step.how


def test_the_shares_are_those_of_the_whole_pause_and_of_what_is_left_once_it_is_declared() -> None:
    found = [Pauses("ami", "r", "m", 1, (0.15, 0.25, 0.45, 1.0))]
    steps = [DeepStep("1B", 5, 16, 200.0, False, ""), DeepStep("7B", 11, 32, 900.0, True, "")]
    rows = shares(found, steps, pause_s=0.2)
    assert [(row["share_of_pauses"], row["share_after_declared"], row["tag"]) for row in rows] == [
        (0.75, 0.5, ""),
        (0.25, 0.0, "EXTRAPOLATED"),
    ]
