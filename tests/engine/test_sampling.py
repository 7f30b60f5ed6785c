from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pads_runtime.engine.sampling import distribution, greedy, pick, sample, uniform

LOGITS = arrays(np.float32, st.integers(1, 40), elements=st.floats(-30, 30, width=32))


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


@given(LOGITS)
def test_greedy_is_the_lowest_id_of_the_largest_logit(logits: np.ndarray) -> None:
    assert greedy(logits) == min(i for i, value in enumerate(logits) if value == logits.max())


@given(LOGITS, st.floats(0.05, 5))
def test_without_limits_the_distribution_is_the_softmax_at_that_temperature(logits: np.ndarray, t: float) -> None:
    ids, probs = distribution(logits, t, top_k=0, top_p=1.0)
    expected = softmax(logits.astype(np.float64) / t)
    assert sorted(ids) == list(range(len(logits)))
    np.testing.assert_allclose(probs, expected[ids], rtol=1e-9, atol=1e-300)


@given(LOGITS, st.floats(0.05, 5), st.integers(0, 50), st.floats(0.01, 1))
def test_probabilities_fall_sum_to_one_and_obey_the_limits(logits: np.ndarray, t: float, k: int, p: float) -> None:
    ids, probs = distribution(logits, t, k, p)
    assert 1 <= len(ids) <= (k or len(logits))
    assert probs.sum() == pytest.approx(1.0)
    assert (np.diff(probs) <= 0).all()
    assert len(set(ids.tolist())) == len(ids)
    assert logits[ids].min() >= np.sort(logits)[::-1][: len(ids)].min()


def test_top_p_keeps_the_shortest_head_that_reaches_it() -> None:
    logits = np.log(np.array([0.1, 0.5, 0.15, 0.25], np.float32))
    ids, probs = distribution(logits, 1.0, top_k=0, top_p=0.7)
    assert ids.tolist() == [1, 3]
    np.testing.assert_allclose(probs, [2 / 3, 1 / 3], rtol=1e-6)


def test_top_k_breaks_ties_by_the_lower_id() -> None:
    ids, _ = distribution(np.array([1, 2, 2, 2, 0], np.float32), 1.0, top_k=2, top_p=1.0)
    assert ids.tolist() == [1, 2]


@given(LOGITS, st.integers(0, 2**70), st.integers(0, 10_000))
def test_top_k_one_is_greedy(logits: np.ndarray, seed: int, position: int) -> None:
    assert sample(logits, 1.5, 1, 1.0, uniform(seed, position)) == greedy(logits)


@given(LOGITS, st.floats(0, 1, exclude_max=True))
def test_pick_gives_only_what_the_distribution_holds(logits: np.ndarray, u: float) -> None:
    ids, probs = distribution(logits, 0.7, 10, 0.9)
    assert pick(ids, probs, u) in ids


def test_pick_follows_the_cumulative_probability_exactly() -> None:
    ids, probs = np.array([7, 3, 9]), np.array([0.5, 0.25, 0.25])
    drawn = [pick(ids, probs, u) for u in (0.0, 0.4999, 0.5, 0.7499, 0.75, 0.9999999)]
    assert drawn == [7, 7, 3, 3, 9, 9]


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**31))
@settings(max_examples=50)
def test_a_position_always_draws_the_same_number_whatever_was_drawn_before(seed: int, position: int) -> None:
    first = uniform(seed, position)
    uniform(seed, position + 1)
    uniform(seed + 1, position)
    assert uniform(seed, position) == first
    assert 0.0 <= first < 1.0


def test_numbers_of_neighbouring_positions_seeds_and_lanes_differ() -> None:
    numbers = {uniform(s, p, lane) for s in range(20) for p in range(20) for lane in range(3)}
    assert len(numbers) == 20 * 20 * 3


def test_draws_over_positions_are_uniform_and_follow_the_distribution() -> None:
    draws = np.array([uniform(5, position) for position in range(20_000)])
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert chi_square(counts, np.full(20, 1000.0)) < 36.19  # 1 % point for 19 degrees of freedom
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02

    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5], np.float32)
    tokens = [sample(logits, 1.3, 0, 1.0, u) for u in draws]
    expected = softmax(logits.astype(np.float64) / 1.3) * len(draws)
    assert chi_square(np.bincount(tokens, minlength=5), expected) < 13.28  # 1 % point for 4


def test_the_chi_square_rejects_a_wrong_temperature() -> None:
    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5], np.float32)
    tokens = [sample(logits, 1.2, 0, 1.0, uniform(5, position)) for position in range(20_000)]
    expected = softmax(logits.astype(np.float64) / 1.3) * 20_000
    assert chi_square(np.bincount(tokens, minlength=5), expected) > 13.28


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())
