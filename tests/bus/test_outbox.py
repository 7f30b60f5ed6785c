"""What waits for the broker, what goes first when there is too much, and how fast things may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pads_runtime.bus.outbox import Grade, Letter, Outbox
from pads_runtime.bus.pace import Bucket, backoff_s

LIVE, KEPT, PROMISED = Grade


def letters(*grades: Grade) -> list[Letter]:
    return [Letter("t", str(i).encode(), grade) for i, grade in enumerate(grades)]


def drain(box: Outbox) -> list[Letter]:
    out = []
    while (letter := box.head()) is not None:
        box.done(letter)
        out.append(letter)
    return out


def test_letters_leave_in_the_order_they_came_whatever_they_are_worth() -> None:
    box, given_ = Outbox(10), letters(PROMISED, LIVE, KEPT, PROMISED, LIVE)
    box.connected(True)
    for letter in given_:
        box.put(letter)
    assert drain(box) == given_


def test_without_a_broker_what_is_worthless_late_is_not_kept() -> None:
    box = Outbox(10)
    for letter in letters(LIVE, KEPT, PROMISED):
        box.put(letter)
    assert [letter.grade for letter in drain(box)] == [KEPT, PROMISED]
    assert dict(box.dropped) == {LIVE: 1}


def test_when_the_broker_goes_what_is_worthless_late_goes_too() -> None:
    box = Outbox(10)
    box.connected(True)
    for letter in letters(LIVE, PROMISED, LIVE):
        box.put(letter)
    box.connected(False)
    assert (len(box), box.dropped[LIVE]) == (1, 2)


def test_a_full_outbox_gives_up_the_oldest_figures_before_anything_promised() -> None:
    box, given_ = Outbox(3), letters(PROMISED, KEPT, KEPT, PROMISED, PROMISED, PROMISED)
    for letter in given_:
        box.put(letter)
    assert drain(box) == given_[3:]
    assert dict(box.dropped) == {KEPT: 2, PROMISED: 1}


def test_a_figure_that_meets_a_box_full_of_promises_is_itself_given_up() -> None:
    box, given_ = Outbox(2), letters(PROMISED, PROMISED, KEPT)
    for letter in given_:
        box.put(letter)
    assert drain(box) == given_[:2]


def test_a_letter_stays_until_it_is_done_and_done_of_one_given_up_meanwhile_takes_no_other() -> None:
    box, (first, second) = Outbox(1), letters(PROMISED, PROMISED)
    box.put(first)
    assert box.head() is box.head() is first
    box.put(second)  # first is on its way and is given up
    box.done(first)
    assert box.head() is second


@given(st.lists(st.sampled_from(Grade), max_size=60), st.integers(1, 12), st.booleans())
def test_nothing_is_lost_uncounted_and_the_bound_holds(grades: list[Grade], capacity: int, connected: bool) -> None:
    box, given_ = Outbox(capacity), letters(*grades)
    box.connected(connected)
    for letter in given_:
        box.put(letter)
        assert len(box) <= capacity
    left = drain(box)
    assert left == [letter for letter in given_ if letter in left]
    assert len(left) + box.dropped.total() == len(given_)
    if box.dropped[PROMISED]:
        assert {letter.grade for letter in left} == {PROMISED}


def test_only_what_is_worthless_late_is_sent_without_an_acknowledgement() -> None:
    assert [grade.qos for grade in Grade] == [0, 1, 1]


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    bucket = Bucket(rate_per_s=16.0, burst=3.0)
    assert [bucket.take(5.0) for _ in range(5)] == [True, True, True, False, False]
    assert [bucket.take(5.0 + i / 32) for i in range(1, 7)] == [False, True, False, True, False, True]
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_stands_still_or_goes_back_fills_no_bucket() -> None:
    bucket = Bucket(1.0, 1.0)
    assert bucket.take(10.0)
    assert not any(bucket.take(t_s) for t_s in (10.0, 5.0, 10.0))


@pytest.mark.parametrize(("failures", "wait_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (10**6, 30.0)])
def test_the_wait_doubles_up_to_its_limit(failures: int, wait_s: float) -> None:
    assert backoff_s(failures, 0.5, 30.0) == wait_s
