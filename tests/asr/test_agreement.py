"""LocalAgreement: what two hypotheses share is stable, and what is stable stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pads_runtime.asr.agreement import Agreement, Words, agreed, aligned_prefix, plain, split_words


def words(text: str) -> Words:
    return tuple(text.split())


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert [plain(w) for w in ("Book", "it.", "It's", "\N{RIGHT SINGLE QUOTATION MARK}tis", "9.30", "--")] == [
        "book",
        "it",
        "it's",
        "tis",
        "930",
        "",
    ]
    assert split_words(" Well - book it . ") == ("Well", "book", "it")


def test_one_hypothesis_makes_nothing_stable() -> None:
    assert Agreement().heard(words("I want to")) == Agreement((), words("I want to"))


def test_words_of_two_successive_hypotheses_become_stable_in_the_newer_spelling() -> None:
    heard = Agreement().heard(words("I want to Cam")).heard(words("i want, to Cambridge please"))
    assert heard == Agreement(words("i want, to"), words("Cambridge please"))


def test_a_stable_word_is_not_taken_back_by_a_later_hypothesis() -> None:
    heard = Agreement(words("I want a"), words("ticket")).heard(words("I wanted a ticket for two"))
    assert heard == Agreement(words("I want a ticket"), words("for two"))


def test_a_hypothesis_that_shrinks_keeps_what_is_stable() -> None:
    assert Agreement(words("I want a"), ()).heard(words("I want")) == Agreement(words("I want a"), ())
    assert Agreement(words("I want a"), words("b")).heard(()) == Agreement(words("I want a"), ())


@pytest.mark.parametrize(
    ("stable", "text", "prefix"),
    [
        ("", "a b", 0),
        ("a b", "a b c", 2),
        ("a b", "a x c", 2),
        ("a b", "x a b c", 3),
        ("a b b", "a b c", 3),
        ("a b", "", 0),
        ("yes yes", "yes yes yes", 2),
    ],
)
def test_the_aligned_prefix_is_the_one_with_least_edits(stable: str, text: str, prefix: int) -> None:
    assert aligned_prefix(words(stable), words(text)) == prefix


def test_a_cut_settles_the_closed_part_and_carries_the_rest() -> None:
    settled, carried = Agreement(words("one two three four"), words("five")).split(words("one two three"))
    assert (settled, carried) == (words("one two three"), Agreement(words("four")))


def test_a_cut_behind_all_that_is_stable_settles_the_new_words_too() -> None:
    settled, carried = Agreement(words("one two"), words("tree")).split(words("One, two three four."))
    assert (settled, carried) == (words("one two three four."), Agreement())


texts = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8).map(tuple)


@given(st.lists(texts, max_size=8))
def test_stable_words_only_grow(hypotheses: list[Words]) -> None:
    agreement = Agreement()
    for hypothesis in hypotheses:
        grown = agreement.heard(hypothesis)
        assert grown.stable[: len(agreement.stable)] == agreement.stable
        agreement = grown


@given(texts, texts, texts)
def test_a_cut_never_loses_or_changes_a_stable_word(stable: Words, tail: Words, closed: Words) -> None:
    settled, carried = Agreement(stable, tail).split(closed)
    assert (settled + carried.stable)[: len(stable)] == stable


@given(texts, texts)
def test_repeating_a_hypothesis_makes_all_of_it_stable(first: Words, second: Words) -> None:
    assert Agreement().heard(first).heard(second).heard(second).tail == ()
    assert Agreement().heard(second).heard(second).stable == second


@given(texts, texts)
def test_agreement_is_symmetric(first: Words, second: Words) -> None:
    assert agreed(first, second) == agreed(second, first)
