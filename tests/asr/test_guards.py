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
    assert " ".join(collapse_repeats(tuple(heard.split()))) == kept


def test_text_without_loops_is_untouched() -> None:
    words = ("I", "would", "like", "to", "book", "a", "table", "for", "two", "at", "two", "please")
    assert collapse_repeats(words) == words


def test_both_signs_are_needed_to_drop_a_reading() -> None:
    assert is_speechless(0.95, -2.2)
    assert not is_speechless(0.95, -0.3)
    assert not is_speechless(0.3, -2.2)
