"""What makes two transcripts the same, and the one form of them that the model reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pads_runtime.frames import Message, Role
from pads_runtime.gate.premise import Premise, canonical, normalise

ODD = "İıſßẞǰŉΐΰςΣ\u0307\u0301\u0345\u1e9e\u1fb3\u1fbc\u212b\ufb01½\u2019'.,:/-_ iI\u200d\u0bcd"
ANY_TEXT = st.text(max_size=60) | st.text(st.sampled_from(ODD), max_size=30)
WORDS = st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=8)
MARKS = st.sampled_from(["", ".", "?", "!", ",", " ...", " -"])


def premise(text: str, history: tuple[Message, ...] = (), settings: str = "s") -> Premise:
    return Premise.spoken(text, history, settings)


@given(ANY_TEXT)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(ANY_TEXT)
def test_the_prompt_form_depends_on_the_normalised_words_only(text: str) -> None:
    assert canonical(normalise(text)) == canonical(text)
    assert canonical(canonical(text)) == canonical(text)


@given(ANY_TEXT)
def test_the_prompt_form_keeps_the_words(text: str) -> None:
    assert normalise(canonical(text)) == normalise(text)


@given(WORDS, st.data())
def test_case_and_punctuation_do_not_change_the_premise(words: list[str], data: st.DataObject) -> None:
    plain = " ".join(words)
    dressed = " ".join(
        data.draw(st.sampled_from([word, word.upper(), word.capitalize()])) + data.draw(MARKS) for word in words
    )
    assert premise(dressed) == premise(plain)


@given(WORDS, WORDS)
def test_other_words_make_another_premise(one: list[str], two: list[str]) -> None:
    assert (premise(" ".join(one)) == premise(" ".join(two))) == (one == two)


@given(WORDS, st.data())
def test_one_changed_word_makes_another_premise(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:at], words[at] + "x", *words[at + 1 :]]
    assert premise(" ".join(changed)) != premise(" ".join(words))


def test_book_it_and_book_it_with_a_full_stop_are_one_premise() -> None:
    assert premise("book it") == premise("Book it.")
    assert premise("book it") != premise("book him")


def test_another_history_or_other_settings_make_another_premise() -> None:
    row = Message(Role.USER, "Hello")
    assert premise("book it") != premise("book it", (row,))
    assert premise("book it") != premise("book it", settings="another model")


@pytest.mark.parametrize(
    ("heard", "read"),
    [
        ("can i go", "Can I go"),
        ("what's the time i'm late", "What's the time I'm late"),
        ("it is 3.5 percent", "It is 3.5 percent"),
        ("a well-known fact", "A well-known fact"),
        ("at 10:30, on 3/4", "At 10:30 on 3/4"),
        ("it\u2019s late", "It's late"),
        ("wait... what?", "Wait what"),
        ("\uff28\uff25\uff2c\uff2c\uff2f", "Hello"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948", "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948"),
        ("e\u0301te\u0301", "\u00c9t\u00e9"),
        ("", ""),
        ("?!...", ""),
        ("__", ""),
    ],
)
def test_the_model_reads_words_not_the_recognisers_dress(heard: str, read: str) -> None:
    assert canonical(heard) == read
