"""Which trace event becomes which message, event by event and over whole talks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pads_runtime.bus
from pads_runtime.bus.messages import MAX_TEXT, NAMES, TABLE, Translator, encode
from pads_runtime.bus.outbox import Grade, Letter
from pads_runtime.frames import TraceEvent
from pads_runtime.testing import Conversation, Script, WordEngine, converse, settings_with, swap
from pads_runtime.trace import Trace, to_line

LIVE, KEPT, PROMISED = Grade
README = (Path(pads_runtime.bus.__file__).parent / "README.md").read_text(encoding="utf-8")


def told(*events: tuple[str, dict[str, Any]], announce: bool = False) -> list[tuple[str, dict[str, Any], Grade]]:
    """What a talk of these events tells: topic without ``pads/hall/``, payload without the common fields, grade."""
    translator = Translator("hall", "talk0001", announce)
    letters = [x for i, (kind, fields) in enumerate(events) for x in translator.letters(TraceEvent(i, kind, fields))]
    return [opened(letter) for letter in letters]


def opened(letter: Letter) -> tuple[str, dict[str, Any], Grade]:
    payload = json.loads(letter.data)
    assert payload.pop("talk") == "talk0001"
    assert ("seq" in payload) is (letter.grade is PROMISED)
    return (
        letter.topic.removeprefix("pads/hall/"),
        {k: v for k, v in payload.items() if k not in ("seq", "t_s")},
        letter.grade,
    )


@pytest.mark.parametrize(
    ("kind", "fields", "topic", "payload", "grade"),
    [
        ("speech_started", {"onset_s": 1.0}, "turn", {"onset_s": 1.0}, PROMISED),
        ("speech_paused", {"last_voiced_s": 2.0}, "turn", {"turn": 0, "last_voiced_s": 2.0}, PROMISED),
        ("speech_resumed", {"onset_s": 2.5}, "turn", {"turn": 0, "onset_s": 2.5}, PROMISED),
        ("speech_ignored", {"turn": 3, "reason": "r"}, "turn", {"turn": 3, "reason": "r"}, PROMISED),
        ("turn_confirmed", {"turn": 3, "last_voiced_s": 2.0}, "turn", {"turn": 3, "last_voiced_s": 2.0}, PROMISED),
        ("turn_reopened", {"turn": 3}, "turn", {"turn": 3}, PROMISED),
        ("turn_closed", {"turn": 3, "reason": "r"}, "turn", {"turn": 3, "reason": "r"}, PROMISED),
        (
            "state_changed",
            {"turn": 3, "before": "idle", "state": "listening"},
            "turn",
            {"turn": 3, "before": "idle", "state": "listening"},
            PROMISED,
        ),
        ("muted", {}, "turn", {}, PROMISED),
        ("unmuted", {}, "turn", {}, PROMISED),
        ("session_failed", {"error": "e"}, "turn", {"event": "talk_failed", "error": "e"}, PROMISED),
        (
            "transcript_updated",
            {"stable": "what", "unstable": "is", "final": False, "audio_end_s": 1.0},
            "transcript",
            {"turn": 0, "stable": "what", "unstable": "is", "final": False},
            LIVE,
        ),
        (
            "transcript_updated",
            {"stable": "what is", "unstable": "", "final": True, "audio_end_s": 1.0},
            "transcript",
            {"turn": 0, "stable": "what is", "unstable": "", "final": True},
            PROMISED,
        ),
        (
            "turn_end_predicted",
            {"p_end": 0.5, "audio_end_s": 1.0},
            "gate",
            {"turn": 0, "p_end": 0.5, "audio_end_s": 1.0},
            LIVE,
        ),
        ("act_classified", {"p_deep": 0.7, "text": "what"}, "gate", {"turn": 0, "p_deep": 0.7}, LIVE),
        (
            "reply_opened",
            {"turn": 3, "text": "the user's words"},
            "reply",
            {"event": "committed", "turn": 3, "prepared": False},
            PROMISED,
        ),
        (
            "reply_committed",
            {"turn": 3, "tokens": 4, "generated": True},
            "reply",
            {"event": "committed", "turn": 3, "prepared": True},
            PROMISED,
        ),
        ("playback_started", {"turn": 3}, "reply", {"turn": 3}, PROMISED),
        (
            "reply_held",
            {"turn": 3, "reason": "r", "heard": "h", "played_s": 0.5},
            "reply",
            {"turn": 3, "reason": "r", "heard": "h", "played_s": 0.5},
            PROMISED,
        ),
        ("reply_resumed", {"turn": 3, "reason": "r", "rest": "x"}, "reply", {"turn": 3, "reason": "r"}, PROMISED),
        (
            "reply_interrupted",
            {"turn": 3, "reason": "r", "heard": "h", "played_s": 0.5},
            "reply",
            {"turn": 3, "reason": "r", "heard": "h", "played_s": 0.5},
            PROMISED,
        ),
        (
            "reply_withdrawn",
            {"turn": 3, "reason": "r", "prepared": True, "tokens": 4, "cpu_ms": 5.0},
            "reply",
            {"event": "withdrawn", "turn": 3, "reason": "r"},
            PROMISED,
        ),
        ("say_started", {"turn": 3, "text": "x"}, "reply", {"turn": 3, "text": "x"}, PROMISED),
        (
            "say_finished",
            {"turn": 3, "text": "x y", "heard": "x"},
            "reply",
            {"turn": 3, "text": "x y", "heard": "x"},
            PROMISED,
        ),
        ("say_withdrawn", {"turn": 3, "reason": "r"}, "reply", {"turn": 3, "reason": "r"}, PROMISED),
        ("say_refused", {"reason": "r"}, "reply", {"reason": "r"}, PROMISED),
        ("session_ended", {"frames_dropped": 2}, "metrics", {"event": "talk_ended", "frames_dropped": 2}, KEPT),
    ],
)
def test_one_event_becomes_one_message(
    kind: str, fields: dict[str, Any], topic: str, payload: dict[str, Any], grade: Grade
) -> None:
    assert told((kind, fields)) == [(topic, {"event": kind, **payload}, grade)]


@pytest.mark.parametrize(
    "kind", ["session_started", "phrase_ready", "depth_chosen", "first_token", "bus_lost", "something_new", "say_asked"]
)
def test_what_is_nobody_elses_business_stays_inside(kind: str) -> None:
    assert told((kind, {"turn": 1, "text": "x"}), announce=True) == []


def test_promised_messages_are_numbered_without_gaps() -> None:
    translator = Translator("hall", "talk0001")
    kinds = ["speech_started", "turn_end_predicted", "turn_closed", "session_ended", "turn_reopened"]
    letters = [letter for kind in kinds for letter in translator.letters(TraceEvent(0.0, kind, {}))]
    assert [json.loads(x.data)["seq"] for x in letters if x.grade is PROMISED] == [1, 2, 3]


def test_a_prepared_reply_is_told_of_only_where_that_was_asked_for_and_never_with_its_text() -> None:
    events = [
        ("branch_opened", {"turn": 1, "text": "user words"}),
        ("first_token", {"turn": 1}),
        ("phrase_ready", {"turn": 1, "text": "secret words", "s": 1.0}),
        ("reply_generated", {"turn": 1, "text": "secret words", "tokens": 2}),
        ("branch_discarded", {"turn": 1, "reason": "the user went on", "tokens": 2, "cpu_ms": 1.0}),
    ]
    assert told(*events) == []
    assert told(*events, announce=True) == [
        ("reply", {"event": "prepared", "turn": 1}, PROMISED),
        ("reply", {"event": "withdrawn", "turn": 1, "reason": "the user went on"}, PROMISED),
    ]


def test_a_prepared_reply_that_failed_is_told_of_only_where_that_was_asked_for() -> None:
    opening = ("branch_opened", {"turn": 1, "text": ""})
    failure = ("reply_failed", {"turn": 1, "error": "e", "prepared": True})
    assert told(opening, failure) == []
    assert [payload["event"] for _, payload, _ in told(opening, failure, announce=True)] == ["prepared", "reply_failed"]
    committed = ("reply_committed", {"turn": 1})
    assert [payload["event"] for _, payload, _ in told(opening, committed, failure)] == ["committed", "reply_failed"]


GENERATED = ("reply_generated", {"turn": 1, "text": "the answer", "tokens": 2})
SOUNDS = ("playback_started", {"turn": 1})
TEXT = {"event": "reply_text", "turn": 1, "text": "the answer"}


def test_the_text_of_a_reply_is_told_once_with_its_first_sound_or_once_it_is_whole() -> None:
    opening, commit = ("branch_opened", {"turn": 1, "text": ""}), ("reply_committed", {"turn": 1})
    before = told(opening, GENERATED, commit, SOUNDS, GENERATED)
    assert [payload for _, payload, _ in before][1:] == [{"event": "playback_started", "turn": 1}, TEXT]
    after = told(opening, commit, SOUNDS, GENERATED)
    assert [payload for _, payload, _ in after][1:] == [{"event": "playback_started", "turn": 1}, TEXT]


def test_a_committed_reply_that_is_withdrawn_before_it_sounds_is_never_told() -> None:
    events = told(("reply_opened", {"turn": 1}), GENERATED, ("reply_withdrawn", {"turn": 1, "reason": "r"}))
    assert [payload["event"] for _, payload, _ in events] == ["committed", "withdrawn"]
    assert "the answer" not in str(events)


def test_the_figures_of_a_turn_are_those_of_its_trace() -> None:
    translator = Translator("hall", "talk0001")
    events = [
        TraceEvent(1.0, "branch_opened", {"turn": 1}),
        TraceEvent(1.1, "branch_discarded", {"turn": 1, "reason": "r", "tokens": 7, "cpu_ms": 3.5}),
        TraceEvent(2.0, "branch_opened", {"turn": 1}),
        TraceEvent(2.4, "turn_confirmed", {"turn": 1, "last_voiced_s": 1.7}),
        TraceEvent(2.4, "reply_committed", {"turn": 1}),
        TraceEvent(2.45, "first_token", {"turn": 1}),
        TraceEvent(2.6, "playback_started", {"turn": 1}),
        TraceEvent(4.0, "reply_served", {"turn": 1, "user": "u", "agent": "a", "approximate": False}),
    ]
    letters = [letter for event in events for letter in translator.letters(event)]
    assert opened(letters[-1]) == (
        "metrics",
        {
            "event": "turn_metrics",
            "turn": 1,
            "prepared": True,
            "post_confirm_ttft_ms": 50.0,
            "dead_air_ms": 900.0,
            "wasted_tokens": 7,
            "wasted_cpu_ms": 3.5,
        },
        KEPT,
    )


def test_a_figure_that_is_not_known_is_left_out() -> None:
    _, (topic, payload, _) = told(("reply_served", {"turn": 1, "user": "u", "agent": "a", "approximate": False}))
    assert topic == "metrics" and "dead_air_ms" not in payload and "post_confirm_ttft_ms" not in payload


def test_long_texts_are_cut_and_half_characters_are_no_obstacle() -> None:
    payload = json.loads(encode({"text": "x" * 100_000, "more": "\ud83d"}))
    assert len(payload["text"]) == MAX_TEXT and payload["text"].endswith("x…")
    assert payload["more"] == "?"


# ---------------------------------------------------------------- whole talks

TALK = Script.of((0.5, "what is"), (1.5, "the capital of france"), (8.0, "tell me why"), (10.0, "it is so big"))


def overheard(script: Script, announce: bool, **settings: object) -> tuple[Conversation, list[tuple[float, Letter]]]:
    """A whole talk, and what it told, with the time of each."""
    translator = Translator("hall", "talk0001", announce)
    letters: list[tuple[float, Letter]] = []
    trace = Trace()
    trace.listen(lambda event: letters.extend((event.t_s, letter) for letter in translator.letters(event)))
    talk = converse(script, settings_with(**settings), swap(engine=WordEngine(12)), trace=trace)
    return talk, letters


def words(text: str) -> set[str]:
    """The words of the fake engine's replies: no other text holds such ones."""
    return set(re.findall(r"\bw[0-9a-f]{3}\b", text))


def thrown_away(talk: Conversation) -> set[str]:
    """The words of replies that were prepared and discarded."""
    secret: set[str] = set()
    branch: set[str] = set()
    for event in talk.events:
        if event.kind == "branch_opened":
            branch = set()
        elif event.kind in ("phrase_ready", "reply_generated"):
            branch |= words(event.fields["text"])
        elif event.kind == "branch_discarded":
            secret |= branch
    return secret


@pytest.mark.parametrize("announce", [False, True])
def test_no_word_of_a_reply_is_told_before_it_sounds_and_none_of_one_that_never_did(announce: bool) -> None:
    talk, letters = overheard(TALK, announce)
    told_words = [(t_s, words(letter.data.decode())) for t_s, letter in letters]
    assert thrown_away(talk)
    assert not thrown_away(talk) & set().union(*(told_ for _, told_ in told_words))
    sounded = {event.fields["turn"]: event.t_s for event in talk.of("playback_started")}
    for row in talk.of("reply_served"):
        heard = words(row.fields["agent"])
        assert heard
        assert min(t_s for t_s, told_ in told_words if told_ & heard) >= sounded[row.fields["turn"]]


def test_every_announced_reply_is_committed_or_withdrawn() -> None:
    talk, letters = overheard(TALK, announce=True)
    told_ = [json.loads(letter.data) for _, letter in letters if letter.topic == "pads/hall/reply"]
    names = [payload["event"] for payload in told_ if payload.get("prepared", True)]
    fates = [name for name in names if name in ("prepared", "committed", "withdrawn")]
    assert fates.count("prepared") == len(talk.of("branch_opened")) > 1
    assert fates.count("withdrawn") == len(talk.of("branch_discarded")) > 0
    assert fates[0::2] == ["prepared"] * len(fates[0::2]) and "prepared" not in fates[1::2]


def test_the_same_talk_tells_the_same() -> None:
    assert [x.data for _, x in overheard(TALK, True)[1]] == [x.data for _, x in overheard(TALK, True)[1]]


def test_listening_changes_nothing_in_the_talk() -> None:
    def lines(talk: Conversation) -> list[str]:
        return [to_line(event) for event in talk.events]

    alone = converse(TALK, settings_with(), swap(engine=WordEngine(12)))
    assert lines(alone) == lines(overheard(TALK, True)[0])


# ---------------------------------------------------------------- the README


def examples() -> list[tuple[str, dict[str, Any]]]:
    """Each ``topic {json}`` line of the README."""
    found = re.findall(r"^((?:pads|hermes)/\S+) (\{.*\})$", README, re.MULTILINE)
    return [(topic, json.loads(payload)) for topic, payload in found]


def by_event(name: str) -> Callable[[tuple[str, dict[str, Any]]], bool]:
    return lambda example: example[1].get("event") == name


def test_every_event_that_is_told_has_an_example_in_the_readme_with_its_very_fields() -> None:
    special = {"transcript_updated", "reply_text", "reply_failed", "turn_metrics"}
    names = {NAMES.get(kind, kind): kind for kind in TABLE}
    for name in {*names, *special}:
        shown = list(filter(by_event(name), examples()))
        assert shown, name
        if name in names and names[name] not in ("reply_opened", "reply_committed"):
            row = TABLE[names[name]]
            common = {"event", "t_s", "talk"} | ({"seq"} if row.grade is PROMISED else set())
            extra = {"turn"} if row.of_turn else set()
            assert all(payload.keys() == common | extra | set(row.fields) for _, payload in shown), name
            assert all(topic == f"pads/hall/{row.topic}" for topic, _ in shown), name
