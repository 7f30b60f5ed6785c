"""Loops are cut, repetitions that people make are kept."""

from __future__ import annotations

import pytest

from pads_runtime.asr.guards import collapse_repeats, is_speechless


@pytest.mark.parametrize(
    ("heard", "kept"),
    [
        ("okay " * 30, "okay"),
        ("So, " * 12, "So,"),
        ("no no no", "no no no"),
        ("bye bye", "bye bye"),
        ("Okay, design on what to see. " * 6, "Okay, design on what to see."),
        ("does anyone want to see " + "Steve's " * 20, "does anyone want to see Steve's"),
        ("not really not really yesterday", "not really not really yesterday"),
        (
            "the duplication of the application of the application of the application.",
            "the duplication of the application",
        ),
        ("five five five five six", "five five five five six"),
        ("", ""),
    ],
)
def test_loops_are_cut_to_one_round(heard: str, kept: str) -> None:
    assert " ".join(collapse_repeats(tuple(heard.split()), runaway=False)) == kept


def test_text_without_loops_is_untouched() -> None:
    words = ("I", "would", "like", "to", "book", "a", "table", "for", "two", "at", "two", "please")
    assert collapse_repeats(words, runaway=False) == words
    assert collapse_repeats(words, runaway=True) == words


def test_a_decoder_that_ran_into_its_limit_loses_the_piece_of_a_round_too() -> None:
    heard = tuple(("Sure, have you a comment? " * 2 + "Sure, have you").split())
    assert " ".join(collapse_repeats(heard, runaway=True)) == "Sure, have you a comment?"
    assert collapse_repeats(heard, runaway=False) == heard


def test_both_signs_are_needed_to_drop_a_reading() -> None:
    assert is_speechless(0.95, -2.2)
    assert is_speechless(0.74, -0.94)
    assert not is_speechless(0.62, -0.4)
    assert not is_speechless(0.95, -0.3)
    assert not is_speechless(0.3, -2.2)
