"""Settings that are there to be compared with: reading only after the confirm, sound only after the commit."""

from __future__ import annotations

from pads_runtime.config import PadsSettings
from pads_runtime.testing import Conversation, Script, converse, settings_with

TALK = Script.of((1.0, "what is the weather like in rome"), (8.0, "can you tell me more"), tail_s=6.0)


def times(talk: Conversation, kind: str) -> list[float]:
    return [event.t_s for event in talk.of(kind)]


def said(settings: PadsSettings) -> Conversation:
    return converse(TALK, settings)


def test_a_recogniser_that_begins_at_the_confirm_says_nothing_before_it() -> None:
    talk = said(settings_with(asr={"begin": "confirm"}))
    confirmed, read = times(talk, "turn_confirmed"), times(talk, "transcript_updated")
    assert len(confirmed) == len(read) == 2
    assert all(late > early for early, late in zip(confirmed, read, strict=True))
    assert talk.of("branch_opened") == []


def test_it_answers_with_the_same_words_only_later() -> None:
    early, late = said(settings_with()), said(settings_with(asr={"begin": "confirm"}))
    assert late.replies == early.replies
    pairs = zip(times(early, "playback_started"), times(late, "playback_started"), strict=True)
    assert all(b > a for a, b in pairs)


def test_speech_over_the_agent_is_read_at_once_all_the_same() -> None:
    over = Script.of((1.0, "what is the weather like in rome"), (4.4, "no stop that please and listen"), tail_s=8.0)
    talk = converse(over, settings_with(asr={"begin": "confirm"}))
    assert len(talk.of("reply_interrupted")) == 1


def test_without_sound_ahead_no_phrase_is_ready_before_the_commit() -> None:
    ahead, after = said(settings_with()), said(settings_with(speech={"ahead": False}))
    assert times(ahead, "phrase_ready")[0] < times(ahead, "reply_committed")[0]
    assert times(after, "phrase_ready")[0] > times(after, "reply_committed")[0]
    assert after.replies == ahead.replies
