"""The arithmetic of fitting and scoring, on made-up states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pads_runtime.errors import DataError
from training.exits.collect import Positions
from training.exits.corpus import check_no_leak, written
from training.exits.evaluate import accepted_by_round, agreement
from training.exits.fit import Plan, Targets, Translator, loss_and_slope, refine, ridge, targets, usable
from training.exits.head import Head

WIDTH, DRAFT_VOCAB, ROWS = 24, 64, 3000


@pytest.fixture
def head() -> Head:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((DRAFT_VOCAB, WIDTH)).astype(np.float32)
    norm = (1 + 0.3 * rng.standard_normal(WIDTH)).astype(np.float32)
    return Head(rows, norm, np.zeros(DRAFT_VOCAB, np.float32), 1e-5)


@pytest.fixture
def positions(head: Head) -> Positions:
    """States that are a fixed linear map away from the last layer's, one number of them very large."""
    rng = np.random.default_rng(2)
    last = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    mixing = np.eye(WIDTH) + 0.9 * rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
    states = last @ mixing.T
    states[:, 3] = 40 * states[:, 3] + 300
    outputs = head.normed(last)
    return Positions(
        states=states[:, None].astype(np.float16),
        outputs=outputs.astype(np.float16),
        choices=np.argmax(outputs @ head.rows.T, axis=1).astype(np.int32),
        tokens=rng.integers(0, DRAFT_VOCAB, ROWS).astype(np.int32),
        item=(np.arange(ROWS) // 50).astype(np.int32),
        reply=np.arange(ROWS) % 50 >= 20,
    )


def right(translator: Translator | None, positions: Positions, head: Head) -> float:
    states = positions.states[:, 0].astype(np.float32)
    scores = head.scores(states if translator is None else translator(states))
    return float(np.mean(scores.argmax(axis=1) == positions.choices))


def test_the_regression_finds_a_linear_map_and_the_descent_does_not_lose_it(head: Head, positions: Positions) -> None:
    train, test = (positions.where(positions.item % 2 == part) for part in (0, 1))
    plan = Plan(ridge=1e-4, epochs=5, batch=64, rate=0.003)
    wanted = targets(train, head, plan)
    states = train.states[:, 0].astype(np.float32)
    first = ridge(states, train.outputs.astype(np.float32), head, plan.ridge)
    assert right(None, test, head) < 0.5
    assert right(first, test, head) > 0.85
    refined = refine(first, train.states[:, 0], wanted, head, plan, lambda _: None)
    assert right(refined.stored(), test, head) > 0.85


def test_the_descent_repairs_a_bad_start_and_gives_the_same_bytes_each_time(head: Head, positions: Positions) -> None:
    plan = Plan(epochs=8, batch=64, rate=0.02)
    wanted = targets(positions, head, plan)
    states = positions.states[:, 0].astype(np.float32)
    bad = ridge(states, positions.outputs.astype(np.float32), head, penalty=3)
    said: list[str] = []
    once, again = (refine(bad, positions.states[:, 0], wanted, head, plan, said.append) for _ in range(2))
    assert np.array_equal(once.matrix, again.matrix) and np.array_equal(once.bias, again.bias)
    assert right(once, positions, head) > right(bad, positions, head) + 0.15
    assert said[: plan.epochs] == said[plan.epochs :]


def test_the_slope_is_the_derivative_of_the_loss(head: Head) -> None:
    rng = np.random.default_rng(4)
    head = Head(*(np.asarray(part, np.float64) for part in (head.rows, head.norm, head.bias)), head.eps)  # type: ignore[arg-type]
    states: Any = rng.standard_normal((5, WIDTH))
    shares: Any = rng.random((5, 3))
    ids = np.stack([rng.choice(DRAFT_VOCAB, 3, replace=False) for _ in range(5)])
    wanted = Targets(ids, shares / shares.sum(axis=1, keepdims=True))
    _, slope = loss_and_slope(states, wanted, head)
    for row, column in ((0, 0), (2, 5), (4, 23)):
        step = np.zeros_like(states)
        step[row, column] = 1e-5
        numeric = (
            loss_and_slope(states + step, wanted, head)[0] - loss_and_slope(states - step, wanted, head)[0]
        ) / 2e-5
        assert slope[row, column] == pytest.approx(numeric, rel=2e-3, abs=1e-6)


def test_targets_mix_choice_and_distribution_and_choices_beyond_the_draft_rows_are_left_out(
    head: Head, positions: Positions
) -> None:
    choices = positions.choices.copy()
    choices[7], choices[8] = DRAFT_VOCAB, (choices[8] + 1) % DRAFT_VOCAB  # one beyond, one that is not the likeliest
    odd = Positions(**(vars(positions) | {"choices": choices}))
    kept = usable(odd, head)
    assert len(kept) == ROWS - 1
    wanted = targets(kept, head, Plan(hard=0.5, top=8))
    assert np.allclose(wanted.shares.sum(axis=1), 1, atol=1e-5)
    share = (wanted.shares * (wanted.ids == kept.choices[:, None])).sum(axis=1)
    assert (share >= 0.5).all()
    fewer = usable(odd, head, text_every=4)
    assert fewer.reply.sum() == kept.reply.sum()
    assert (~fewer.reply).sum() == pytest.approx((~kept.reply).sum() / 4, abs=20)


def test_agreement_counts_reply_positions_only_and_its_interval_comes_from_prompts(positions: Positions) -> None:
    guessed = np.where(positions.reply, positions.choices, -1).astype(np.int32)
    assert agreement(guessed, positions).share == 1.0
    half = np.where(positions.item % 2, positions.choices, -1).astype(np.int32)
    found = agreement(half, positions)
    assert found.share == 0.5
    # 60 prompts that are right or wrong as a whole: 1.96 * 0.5 / sqrt(60) = 0.127 to each side, as if 60 draws
    assert found.high - found.low == pytest.approx(0.253, abs=0.04)
    assert agreement(half, positions) == found


@pytest.mark.parametrize(
    ("hits", "accepted"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([1, 1, 0, 1], [2, 1]),
        ([1, 1, 1, 1, 1, 1], [4, 1]),
        ([], []),
        ([1, 0, 0, 1, 1], [1, 0, 2]),
    ],
)
def test_a_round_accepts_up_to_the_first_miss_and_the_model_adds_one(hits: list[int], accepted: list[int]) -> None:
    assert accepted_by_round(np.array(hits, bool), 4) == accepted


def test_a_planted_leak_is_found_and_a_near_miss_is_not() -> None:
    streams = [np.array([5, 6, 7, 8], np.int32), np.array([9, 10, 1536, 6], np.int32)]
    assert check_no_leak([(6, 8), (8, 9), (7, 9), (10, 6), (6, 0)], streams) == 5
    with pytest.raises(DataError, match="held-out prompt 2 is in the training data"):
        check_no_leak([(1, 2), (10, 1536)], streams)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I ' m fine , thanks .", "I'm fine, thanks."),
        ("He \u2019 s here !", "He's here!"),
        ("rock ' n ' roll", "rock ' n ' roll"),
    ],
)
def test_the_blanks_of_the_corpus_around_marks_are_taken_out(text: str, wanted: str) -> None:
    assert written(text) == wanted
