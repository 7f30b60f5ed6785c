"""Phrases: where they end, and that it never depends on how the text arrived."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pads_runtime.config import SpeechSettings
from pads_runtime.speech.phrases import PhraseSplitter
from pads_runtime.speech.text import speakable


def split(text: str, limits: SpeechSettings | None = None) -> list[str]:
    splitter = PhraseSplitter(limits)
    return splitter.push(text) + splitter.flush()


def bare(text: str) -> str:
    return "".join(text.split())


PIECES = [
    "Dr. Smith", "Mr.", "e.g. this", "3.5", "1,000", "$9.99", "https://a.example/b.c?d=1,2", "...", "…", " . . . ",
    ". ", "? ", "! ", ", ", "; ", ": ", " - ", " — ", "—", "\n", "\n\n", "- item", "1. First", "**bold**", "# Head",
    "`code`", "😀", "U.S.", "p.m.", "J. K.", "No. 5", "No.", "word", "Word", " ", "I", "\"Yes.\"", "(so)", "。",
    "```", "[a](http://b.c)", "--", "5 - 3", "\t", "a" * 40, "x ",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=200)
limits = st.builds(SpeechSettings, first_phrase_words=st.integers(1, 5), max_phrase_chars=st.integers(20, 60))


@given(texts, limits, st.data())
@settings(max_examples=400, deadline=None)
def test_any_cut_of_the_text_into_pushes_gives_the_same_phrases(
    text: str, limit: SpeechSettings, data: st.DataObject
) -> None:
    splitter = PhraseSplitter(limit)
    phrases: list[str] = []
    rest = text
    while rest:
        size = data.draw(st.integers(1, min(12, len(rest))))
        phrases += splitter.push(rest[:size])
        rest = rest[size:]
    assert phrases + splitter.flush() == split(text, limit)


@given(texts, limits)
@settings(max_examples=400, deadline=None)
def test_the_phrases_are_the_text_but_for_blanks_and_a_soundless_tail(text: str, limit: SpeechSettings) -> None:
    joined, whole = bare("".join(split(text, limit))), bare(text)
    assert whole.startswith(joined)
    if joined:
        tail = whole[len(joined) :]
        assert not speakable(tail)


@given(texts, limits)
@settings(max_examples=400, deadline=None)
def test_no_phrase_is_empty_unspeakable_or_framed_by_blanks(text: str, limit: SpeechSettings) -> None:
    for phrase in split(text, limit):
        assert phrase == phrase.strip()
        assert speakable(phrase)


@given(texts, limits)
@settings(max_examples=200, deadline=None)
def test_a_phrase_is_too_long_only_if_its_beginning_cannot_be_cut(text: str, limit: SpeechSettings) -> None:
    for phrase in split(text, limit):
        if len(phrase) > limit.max_phrase_chars:
            head = phrase[: limit.max_phrase_chars + 1]
            cuts = [i for i, c in enumerate(head) if c.isspace()]
            assert not any(speakable(phrase[:i]) for i in cuts)


@given(texts)
@settings(max_examples=100, deadline=None)
def test_a_flushed_splitter_is_as_good_as_new(text: str) -> None:
    splitter = PhraseSplitter()
    first = splitter.push(text) + splitter.flush()
    assert splitter.push(text) + splitter.flush() == first


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Sure! I can help.", ["Sure!", "I can help."]),
        ("That is 3.5 miles. Or 1,000 feet.", ["That is 3.5 miles.", "Or 1,000 feet."]),
        ("Dr. Smith met Mr. Jones. They talked.", ["Dr. Smith met Mr. Jones.", "They talked."]),
        ("Use a fruit, e.g. an apple. Good.", ["Use a fruit,", "e.g. an apple.", "Good."]),
        ("See https://a.example/b.c?d=1,2 now. Bye.", ["See https://a.example/b.c?d=1,2 now.", "Bye."]),
        ("Wait... I know.", ["Wait...", "I know."]),
        ("Wait. . . what now", ["Wait. . . what now"]),
        ("It opens at 3:30 p.m. Then it fills up.", ["It opens at 3:30 p.m.", "Then it fills up."]),
        ("It opens at 3 p.m. every day.", ["It opens at 3 p.m. every day."]),
        ("He lives in the U.S. Army base.", ["He lives in the U.S. Army base."]),
        ("J. K. Rowling wrote it. So do I. Really.", ["J. K. Rowling wrote it.", "So do I.", "Really."]),
        ("No. It is No. 5 here.", ["No.", "It is No. 5 here."]),
        ("I was born in 1990. It was cold.", ["I was born in 1990.", "It was cold."]),
        ('"Yes." He nodded.', ['"Yes."', "He nodded."]),
        ('"Really?" he said.', ['"Really?" he said.']),
        ("(It is late.) Good night!", ["(It is late.)", "Good night!"]),
        ("It is five - three or 5 - 3.", ["It is five -", "three or 5 - 3."]),
        ("Ideas:\n1. Walk\n2. Read\n- Sleep", ["Ideas:", "1. Walk", "2. Read", "- Sleep"]),
        ("**Hello there.** *Bye.*", ["**Hello there.**", "*Bye.*"]),
        ("今日は。元気ですか？はい", ["今日は。", "元気ですか？", "はい"]),  # noqa: RUF001
        ("", []),
        ("  \n ", []),
        ("😀 *** - #", []),
        ("Done. 😀", ["Done."]),
        ("😀 Done.", ["😀 Done."]),
    ],
)
def test_phrases_end_where_a_reader_would_pause(text: str, phrases: list[str]) -> None:
    assert split(text) == phrases


@pytest.mark.parametrize("words", [1, 3, 5])
def test_only_the_first_phrase_may_end_at_a_comma_and_only_with_enough_words(words: int) -> None:
    text = "Well, if you say so, fine, I agree. Yes, I do, I do."
    first = {1: "Well,", 3: "Well, if you say so,", 5: "Well, if you say so,"}[words]
    assert split(text, SpeechSettings(first_phrase_words=words))[0] == first
    assert split(text, SpeechSettings(first_phrase_words=words))[-1] == "Yes, I do, I do."


def test_a_sentence_end_is_known_only_when_the_next_character_has_come() -> None:
    splitter = PhraseSplitter()
    assert splitter.push("It costs 3.") == []
    assert splitter.push("5 euros.") == []
    assert splitter.push(" ") == []
    assert splitter.push("Yes") == ["It costs 3.5 euros."]
    assert splitter.flush() == ["Yes"]


def test_a_sentence_without_an_end_is_cut_at_its_last_clause_and_else_at_a_word() -> None:
    clauses = "it goes on and on, " * 5
    phrases = split("One. " + clauses, SpeechSettings(max_phrase_chars=60))
    assert phrases[1] == ("it goes on and on, " * 3).strip()
    words = split("One. " + "word " * 30, SpeechSettings(max_phrase_chars=60))
    assert words[1] == ("word " * 12).strip()


def test_a_single_endless_word_is_not_cut() -> None:
    address = "https://a.example/" + "x" * 300
    assert split(f"See {address} now.") == ["See", f"{address}", "now."]
