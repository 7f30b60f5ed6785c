"""What is to be seen of a talk, from traces of whole talks of fakes and from single events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pads_runtime.frames import TraceEvent, TurnState
from pads_runtime.summary import summarise
from pads_runtime.testing import Script, converse
from pads_runtime.view.plain import line_of
from pads_runtime.view.state import KEEP_LINES, Counts, Line, Seen, reduce


def events(*rows: tuple[str, dict[str, object]]) -> list[TraceEvent]:
    return [TraceEvent(float(i), kind, dict(fields)) for i, (kind, fields) in enumerate(rows)]


def see(trace: Sequence[TraceEvent], seen: Seen | None = None) -> Seen:
    seen = seen or Seen()
    for event in trace:
        seen = reduce(seen, event)
    return seen


def steps(trace: Sequence[TraceEvent]) -> list[tuple[TraceEvent, Seen]]:
    seen, rows = Seen(), []
    for event in trace:
        seen = reduce(seen, event)
        rows.append((event, seen))
    return rows


PREPARED = events(
    ("branch_opened", {"turn": 1, "text": "what now"}),
    ("first_token", {"turn": 1}),
    ("phrase_ready", {"turn": 1, "text": "One two.", "s": 2.0}),
    ("reply_generated", {"turn": 1, "text": "One two. Three four.", "tokens": 4}),
)


def test_a_prepared_reply_is_not_committed_and_no_line_of_the_talk() -> None:
    seen = see(PREPARED)
    assert seen.reply is not None
    assert not seen.reply.committed
    assert seen.reply.waiting_text(100.0) == "One two. Three four."
    assert seen.said == ()


def test_a_discarded_reply_leaves_nothing_but_its_cost() -> None:
    seen = see([*PREPARED, *events(("branch_discarded", {"turn": 1, "reason": "the user went on", "tokens": 4}))])
    assert seen.reply is None
    assert seen.said == ()
    assert seen.counts == Counts(prepared=1, discarded=1, wasted_tokens=4)


def test_phrases_begin_to_sound_one_after_the_other_and_late_ones_when_they_are_ready() -> None:
    rows = [
        *PREPARED,
        TraceEvent(10.0, "reply_committed", {"turn": 1, "tokens": 4}),
        TraceEvent(10.0, "playback_started", {"turn": 1}),
        TraceEvent(11.0, "phrase_ready", {"turn": 1, "text": "Three", "s": 1.0}),
        TraceEvent(15.0, "phrase_ready", {"turn": 1, "text": "four.", "s": 1.0}),
    ]
    reply = see(rows).reply
    assert reply is not None
    assert [phrase.starts_s for phrase in reply.phrases] == [10.0, 12.0, 15.0]
    assert reply.waiting_text(9.9) == "One two. Three four."
    assert reply.waiting_text(10.0) == "Three four."
    assert reply.waiting_text(12.0) == "four."
    assert reply.waiting_text(15.0) == ""


def test_an_interrupted_reply_is_told_as_far_as_it_was_heard() -> None:
    rows = [
        *PREPARED,
        *events(
            ("reply_committed", {"turn": 1}),
            ("playback_started", {"turn": 1}),
            ("reply_interrupted", {"turn": 1, "reason": "the user spoke", "heard": "One", "played_s": 0.5}),
            ("reply_served", {"turn": 1, "user": "what now", "agent": "One"}),
        ),
    ]
    assert see(rows).said == (
        Line(1, "user", "what now"),
        Line(1, "agent", "One", "prepared in the pause, interrupted"),
    )


def test_in_a_whole_talk_only_what_was_served_becomes_a_line_and_the_counts_are_those_of_the_summary() -> None:
    script = Script.of((0.5, "what is the time"), (2.1, "in london"), (8.0, "tell me why"))
    talk = converse(script)
    assert talk.of("branch_discarded"), "the script is one in which a reply is thrown away"
    seen = see(talk.events)
    assert [(line.turn, line.text) for line in seen.said if line.who == "agent"] == [
        (turn, agent) for turn, _, agent in talk.replies
    ]
    figures = summarise(talk.events)
    counts = Counts(
        answered=figures["turns"],
        prepared=figures["prepared"],
        committed=figures["committed"],
        discarded=figures["discarded"],
        wasted_tokens=figures["spec_wasted_tokens"],
    )
    assert seen.counts == counts
    last = figures["per_turn"][-1]
    assert seen.last is not None
    assert seen.last.post_confirm_ttft_ms == pytest.approx(last["post_confirm_ttft_ms"])
    assert seen.last.dead_air_ms == pytest.approx(last["dead_air_ms"])
    assert seen.ended
    assert seen.reply is None


def test_nothing_of_a_reply_is_seen_as_committed_before_the_gate_has_said_so() -> None:
    talk = converse(Script.of((0.5, "what is the time"), (2.1, "in london")))
    allowed: set[int] = set()
    for event, seen in steps(talk.events):
        if event.kind in ("reply_committed", "reply_opened"):
            allowed.add(event.fields["turn"])
        if event.kind == "branch_opened":
            allowed.discard(event.fields["turn"])
        if seen.reply is not None and seen.reply.committed:
            assert seen.reply.turn in allowed


def test_the_states_and_the_probabilities_follow_the_turn() -> None:
    talk = converse(Script.of((0.5, "what is the time")))
    states = [seen.state for event, seen in steps(talk.events) if event.kind == "state_changed"]
    assert states == [TurnState.LISTENING, TurnState.PAUSED, TurnState.RESPONDING, TurnState.IDLE]
    at_confirm = next(seen for event, seen in steps(talk.events) if event.kind == "turn_confirmed")
    assert (at_confirm.p_end, at_confirm.p_deep) == (0.9, 0.9)
    last = steps(talk.events)[-1][1]
    assert (last.p_end, last.p_deep, last.stable) == (None, None, "")


def test_the_memory_of_a_long_talk_is_bounded() -> None:
    seen = Seen()
    for turn in range(1, 2000):
        seen = reduce(seen, TraceEvent(float(turn), "reply_served", {"turn": turn, "user": "a", "agent": "b"}))
        seen = reduce(seen, TraceEvent(float(turn), "bus_failed", {"error": "x"}))
    assert len(seen.said) == KEEP_LINES
    assert len(seen.notices) < 10
    assert seen.counts.answered == 1999


def test_what_is_unknown_or_malformed_changes_nothing_but_the_time() -> None:
    seen = see(PREPARED)
    for kind in ("something_new", "turn_end_predicted", "state_changed", "phrase_ready", "muted"):
        for value in (None, [], {}, "x", float("nan"), True):
            fields = dict.fromkeys(("p_end", "state", "turn", "text", "s", "muted"), value)
            reduce(seen, TraceEvent(9.0, kind, fields))
    assert reduce(seen, TraceEvent(9.0, "something_new", {})) == replace(seen, t_s=9.0)


def test_an_error_becomes_a_notice_of_one_line() -> None:
    seen = reduce(Seen(), TraceEvent(1.0, "reply_failed", {"turn": 1, "error": "out of\n context"}))
    assert [notice.text for notice in seen.notices] == ["reply failed: out of context"]


def test_lines_for_a_log_never_hold_what_a_prepared_reply_says() -> None:
    talk = converse(Script.of((0.5, "what is the time"), (2.1, "in london"), (8.0, "tell me why")))
    discarded = {e.fields["text"] for e in talk.of("phrase_ready")} - {a for _, _, a in talk.replies}
    served = " ".join(agent for _, _, agent in talk.replies)
    lines = [line for event, seen in steps(talk.events) if (line := line_of(event, seen)) is not None]
    assert all("\n" not in line for line in lines)
    unsaid = {text for text in discarded if text not in served}
    assert unsaid, "something was thrown away"
    assert not [line for line in lines for text in unsaid if text in line]
    assert [line for line in lines if f"PADS said: {talk.replies[-1][2]}" in line]
