"""Intervals by cluster bootstrap, on plain numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bench.bootstrap import interval, ratios, resample_counts


def test_every_resample_draws_as_many_clusters_as_there_are_and_the_same_each_time() -> None:
    counts = resample_counts(7)
    assert counts.shape == (2000, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert np.array_equal(counts, resample_counts(7))
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.1)


def test_a_ratio_is_that_of_the_sums_so_long_replies_count_more() -> None:
    assert ratios(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]]), [1, 9], [10, 10]).tolist() == [0.5, 0.1, 0.9]


def test_nothing_over_nothing_is_not_a_number_and_too_many_of_them_leave_no_interval() -> None:
    found = ratios(np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1], [0, 2])
    assert np.isnan(found[0])
    assert found[1] == 0.5
    assert interval(np.array([np.nan] * 6 + [0.5] * 94)) is None
    assert interval(np.array([np.nan] * 4 + [0.5] * 96)) == (0.5, 0.5)


def test_positions_of_one_reply_are_no_independent_evidence() -> None:
    rng = np.random.default_rng(1)
    right = rng.integers(0, 2, 40) * 50.0  # each reply all right or all wrong
    clustered = interval(ratios(resample_counts(40), right, np.full(40, 50.0)))
    spread = rng.permutation(np.repeat(right / 50.0, 50))
    single = interval(ratios(resample_counts(2000, 500), spread, np.ones(2000)))
    assert clustered is not None and single is not None
    assert clustered[1] - clustered[0] > 4 * (single[1] - single[0])
