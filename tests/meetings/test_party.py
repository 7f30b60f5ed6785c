"""A participant's voice, words and ends of turns, from annotated elements."""

from __future__ import annotations

from pads_runtime.corpora.ami import Element, Kind, Meeting
from pads_runtime.meetings.party import party_of


def said(start_s: float, text: str, kind: Kind = "w") -> list[Element]:
    """Words of 0.3 s, one after the other."""
    return [Element(kind, start_s + 0.3 * i, start_s + 0.3 * (i + 1), word) for i, word in enumerate(text.split())]


def meeting(**speakers: list[Element]) -> Meeting:
    return Meeting("T1", {name: tuple(elements) for name, elements in speakers.items()})


def ends(**speakers: list[Element]) -> list[bool]:
    return [stretch.turn_ends for stretch in party_of(meeting(**speakers), "A", 0.2).stretches]


def test_short_silences_are_part_of_the_voice_and_long_ones_part_it() -> None:
    found = party_of(meeting(A=said(1.0, "one two") + said(1.7, "three") + said(3.0, "four")), "A", 0.2)
    assert [(round(s.start_s, 3), round(s.end_s, 3)) for s in found.stretches] == [(1.0, 2.0), (3.0, 3.3)]
    assert [word.text for word in found.words] == ["one", "two", "three", "four"]


def test_a_turn_ends_where_another_takes_the_floor_before_one_speaks_again() -> None:
    own = said(1.0, "shall we begin") + said(5.0, "good")
    assert ends(A=own, B=said(2.5, "yes of course")) == [True, True]
    assert ends(A=own, B=said(5.5, "yes of course")) == [False, True]


def test_a_listeners_yeah_ends_no_turn() -> None:
    own = said(1.0, "shall we begin") + said(5.0, "good")
    assert ends(A=own, B=said(2.5, "yeah") + said(4.0, "right okay")) == [False, True]


def test_an_answer_may_begin_a_little_before_the_end() -> None:
    own = said(1.0, "shall we begin") + said(5.0, "good")
    assert ends(A=own, B=said(1.2, "yes of course")) == [True, True]
    assert ends(A=own, B=said(0.5, "yes of course")) == [False, True]


def test_laughter_is_voice_without_words_and_punctuation_is_neither() -> None:
    own = [Element("vocalsound", 1.0, 2.0, "laugh"), Element("punc", 2.5, 2.6, "."), Element("w", None, None, "lost")]
    found = party_of(meeting(A=own), "A", 0.2)
    assert [(s.start_s, s.end_s) for s in found.stretches] == [(1.0, 2.0)]
    assert found.words == ()


def test_who_never_spoke_has_no_voice() -> None:
    assert party_of(meeting(A=[]), "A", 0.2).end_s == 0.0
