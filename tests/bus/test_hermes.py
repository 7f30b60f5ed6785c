"""A talk as Hermes sessions, and the end of what was asked to be said."""

from __future__ import annotations

import json
from typing import Any

from bus_rig import Orders

from pads_runtime.bus.hermes import HermesTranslator
from pads_runtime.bus.inbound import Inbound
from pads_runtime.bus.outbox import Grade
from pads_runtime.config import BusSettings
from pads_runtime.frames import TraceEvent
from pads_runtime.testing import Conversation, Script, WordEngine, converse, settings_with, swap
from pads_runtime.trace import Trace

ONE = "pads-hall-talk0001-1"


def messages(talk: HermesTranslator, *events: tuple[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    letters = [letter for kind, fields in events for letter in talk.letters(TraceEvent(5.0, kind, fields))]
    assert all(letter.grade is Grade.PROMISED for letter in letters)
    return [(letter.topic.removeprefix("hermes/"), json.loads(letter.data)) for letter in letters]


def overheard(script: Script, give: bool = True) -> tuple[Conversation, list[tuple[str, dict[str, Any]]]]:
    translator = HermesTranslator("hall", "talk0001", give)
    told: list[tuple[str, dict[str, Any]]] = []
    trace = Trace()
    trace.listen(
        lambda event: told.extend(
            (letter.topic.removeprefix("hermes/"), json.loads(letter.data)) for letter in translator.letters(event)
        )
    )
    return converse(script, settings_with(), swap(engine=WordEngine(12)), trace=trace), told


def test_a_turn_is_a_session_with_its_words() -> None:
    _, told = overheard(Script.of((0.5, "what is"), (1.5, "the capital of france"), tail_s=8.0))
    assert [topic for topic, _ in told] == [
        "dialogueManager/sessionStarted",
        "asr/textCaptured",
        "dialogueManager/sessionEnded",
    ]
    assert told[0][1] == {"siteId": "hall", "sessionId": ONE, "customData": ""}
    captured = told[1][1]
    assert (captured["text"], captured["sessionId"]) == ("what is the capital of france", ONE)
    assert captured["seconds"] == 2.0  # from the first word to the last
    assert told[2][1]["termination"] == {"reason": "nominal"}


def test_every_session_is_started_and_ended_once_whatever_becomes_of_the_turns() -> None:
    talk, told = overheard(
        Script.of((0.5, "what is this"), (2.5, "stop that now please"), (7.0, "tell me why"), (10.0, "it is so big"))
    )
    assert talk.of("reply_interrupted") or talk.of("turn_reopened")
    started = [p["sessionId"] for topic, p in told if topic.endswith("sessionStarted")]
    ended = [p["sessionId"] for topic, p in told if topic.endswith("sessionEnded")]
    assert started == ended and len(set(started)) == len(started) > 1


def test_an_interrupted_turn_was_aborted_by_the_user() -> None:
    talk, told = overheard(Script.of((0.5, "what is the capital of france"), (4.0, "no wait i meant of spain")))
    assert talk.of("reply_interrupted")
    reasons = [payload["termination"]["reason"] for topic, payload in told if topic.endswith("sessionEnded")]
    assert reasons == ["abortedByUser", "nominal"]


def test_who_takes_transcripts_publishes_none() -> None:
    _, told = overheard(Script.of((0.5, "what is this")), give=False)
    assert "asr/textCaptured" not in [topic for topic, _ in told]


def test_a_turn_without_words_ends_as_not_recognised_and_one_whose_reply_failed_as_an_error() -> None:
    listening = ("state_changed", {"turn": 1, "before": "idle", "state": "listening"})
    closed = ("turn_closed", {"turn": 1, "reason": "r"})
    words = ("transcript_updated", {"stable": "what", "unstable": "", "final": True})
    silent = messages(HermesTranslator("hall", "talk0001", True), listening, closed)
    assert [p.get("termination") for _, p in silent][-1] == {"reason": "intentNotRecognized"}
    failed = messages(HermesTranslator("hall", "talk0001", True), listening, words, closed)
    assert [topic for topic, _ in failed][1:] == ["asr/textCaptured", "dialogueManager/sessionEnded"]
    assert failed[-1][1]["termination"] == {"reason": "error"}


def test_a_turn_that_goes_on_is_no_second_session() -> None:
    talk = HermesTranslator("hall", "talk0001", True)
    state = [("state_changed", {"turn": 1, "before": "x", "state": state}) for state in ("listening", "paused") * 3]
    assert len(messages(talk, *state)) == 1


def test_a_late_order_may_name_a_recent_session_and_no_other() -> None:
    talk = HermesTranslator("hall", "talk0001", True)
    for turn in range(1, 101):
        messages(talk, ("state_changed", {"turn": turn, "before": "idle", "state": "listening"}))
    assert talk.is_open("pads-hall-talk0001-100") and talk.is_ours("pads-hall-talk0001-80")
    assert not talk.is_ours(ONE) and not talk.is_open("pads-hall-talk0001-80")  # forgotten; ended


# ---------------------------------------------------------------- hermes/tts/say


class Talking(Orders):
    """Controls that refuse what is longer than 20 characters, as the talk does: with an event of its own."""

    def __init__(self, sessions: HermesTranslator) -> None:
        super().__init__()
        self._sessions = sessions

    def say(self, text: str) -> None:
        if len(text) > 20:
            self._sessions.letters(TraceEvent(1.0, "say_refused", {"reason": "longer than 20 characters"}))
        else:
            super().say(text)


def asked(*texts: str) -> HermesTranslator:
    """A talk that was asked to say ``texts``, with the ids 0, 1, ..."""
    sessions = HermesTranslator("hall", "talk0001", True)
    inbound = Inbound(BusSettings(site="hall", hermes=True), Talking(sessions), sessions)
    for i, text in enumerate(texts):
        payload = {"text": text, "siteId": "hall", "id": str(i), "sessionId": "s"}
        assert inbound.take("hermes/tts/say", json.dumps(payload).encode(), False, 0.0) is None
    return sessions


def ends(talk: HermesTranslator, *events: tuple[str, dict[str, Any]]) -> list[str]:
    found = messages(talk, *events)
    assert {topic for topic, _ in found} <= {"tts/sayFinished"}
    return [payload["id"] for _, payload in found]


def started(text: str) -> tuple[str, dict[str, Any]]:
    return ("say_started", {"turn": 1, "text": text})


FINISHED = ("say_finished", {"turn": 1, "text": "x", "heard": "x"})


def test_what_was_said_is_reported_finished_under_its_id() -> None:
    talk = asked("tea", "cake")
    assert ends(talk, started("tea"), FINISHED) == ["0"]
    assert ends(talk, started("something else"), FINISHED) == []
    assert ends(talk, started("cake"), ("say_withdrawn", {"turn": 1, "reason": "r"})) == ["1"]


def test_a_stop_ends_all_that_waited() -> None:
    talk = asked("tea", "cake", "tea")
    assert ends(talk, ("stop_asked", {})) == ["0", "1", "2"]
    assert ends(talk, started("tea"), FINISHED) == []


def test_what_the_talk_refused_is_never_reported_finished() -> None:
    talk = asked("tea", "a text that is much too long", "cake")
    assert ends(talk, started("cake"), FINISHED) == ["2"]
    assert ends(talk, ("stop_asked", {})) == ["0"]


def test_ids_that_are_no_text_do_no_harm() -> None:
    sessions = HermesTranslator("hall", "talk0001", True)
    sessions.asked_to_say("tea", {"id": {"x": 1}, "sessionId": None}, lambda words: None)
    sessions.asked_to_say("cake", {"id": "y" * 10_000}, lambda words: None)
    (first, second) = messages(sessions, ("stop_asked", {}))
    assert first[1] == {"siteId": "hall", "id": "", "sessionId": ""}
    assert len(second[1]["id"]) == 200
