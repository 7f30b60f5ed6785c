"""Every figure of a talk, on traces written by hand and on sessions of fakes."""

from __future__ import annotations

from typing import Any

import pytest

from pads_runtime.config import PadsSettings, load
from pads_runtime.frames import TraceEvent
from pads_runtime.summary import FALSE_CUTOFF_S, summarise
from pads_runtime.testing import Script, converse

START = TraceEvent(0.0, "session_started", {"settings": "x"})
END = TraceEvent(20.0, "session_ended", {"frames_dropped": 0})


def at(t_s: float, kind: str, **fields: Any) -> TraceEvent:
    return TraceEvent(t_s, kind, fields)


def spoken(turn: int, start_s: float, end_s: float) -> list[TraceEvent]:
    """The user speaks from start to end; the pause is declared 0.2 s later."""
    return [
        at(start_s + 0.1, "speech_started", onset_s=start_s),
        at(end_s + 0.2, "speech_paused", last_voiced_s=end_s),
    ]


def answered_plainly(turn: int, end_s: float, confirm_s: float) -> list[TraceEvent]:
    """Confirmed, answered without speculation: first token after 40 ms, sound after 100 ms, over after 2 s."""
    return [
        at(confirm_s, "turn_confirmed", turn=turn, last_voiced_s=end_s),
        at(confirm_s, "reply_opened", turn=turn, text="Hello"),
        at(confirm_s + 0.04, "first_token", turn=turn),
        at(confirm_s + 0.1, "playback_started", turn=turn),
        *finished(turn, confirm_s + 2.0),
    ]


def prepared(turn: int, t_s: float) -> list[TraceEvent]:
    """A branch opened at t; its first token comes 50 ms later."""
    return [at(t_s, "branch_opened", turn=turn, text="Hello"), at(t_s + 0.05, "first_token", turn=turn)]


def discarded(turn: int, t_s: float, reason: str = "the user went on") -> TraceEvent:
    return at(t_s, "branch_discarded", turn=turn, reason=reason, tokens=7, cpu_ms=80.5, discard_ms=0.5)


def committed(turn: int, end_s: float, confirm_s: float) -> list[TraceEvent]:
    return [
        at(confirm_s, "turn_confirmed", turn=turn, last_voiced_s=end_s),
        at(confirm_s, "reply_committed", turn=turn, tokens=5, generated=False),
        at(confirm_s, "playback_started", turn=turn),
        *finished(turn, confirm_s + 2.0),
    ]


def finished(turn: int, t_s: float) -> list[TraceEvent]:
    return [
        at(t_s, "playback_finished", turn=turn, text="Hi there.", tokens=12),
        at(t_s, "reply_served", turn=turn, user="Hello", agent="Hi there."),
    ]


def plain_turn() -> list[TraceEvent]:
    return [START, *spoken(1, 1.0, 2.0), *answered_plainly(1, 2.0, 2.7), END]


def test_nothing_happened_is_no_turns_and_no_figures() -> None:
    for events in ([], [START, END]):
        figures = summarise(events)
        assert figures["turns"] == figures["prepared"] == figures["committed"] == figures["discarded"] == 0
        assert figures["post_confirm_ttft_ms"] is figures["dead_air_ms"] is figures["discard_ms"] is None
        assert figures["spec_hit_rate"] is figures["false_cutoff_rate"] is figures["loop_lag_p99_ms"] is None
        assert figures["per_turn"] == []


def test_a_plain_reply_waits_from_the_confirm_to_its_first_token() -> None:
    figures = summarise(plain_turn())
    (row,) = figures["per_turn"]
    assert row["post_confirm_ttft_ms"] == pytest.approx(40.0)
    assert (row["confirm_s"], row["pause_s"], row["prepare_s"]) == (2.7, 2.2, None)
    assert (row["user"], row["agent"], row["served_tokens"]) == ("Hello", "Hi there.", 12)
    assert (figures["turns"], figures["prepared"], figures["committed"]) == (1, 0, 0)


def test_a_reply_that_was_ready_before_the_confirm_makes_nobody_wait() -> None:
    figures = summarise([START, *spoken(1, 1.0, 2.0), *prepared(1, 2.25), *committed(1, 2.0, 2.7), END])
    (row,) = figures["per_turn"]
    assert row["post_confirm_ttft_ms"] == 0.0
    assert (row["prepare_s"], row["first_token_s"]) == (2.25, 2.3)
    assert (figures["prepared"], figures["committed"], figures["discarded"], figures["spec_hit_rate"]) == (1, 1, 0, 1.0)


def test_a_committed_reply_whose_first_token_came_late_counts_what_was_left_to_wait() -> None:
    events = [*spoken(1, 1.0, 2.0), at(2.65, "branch_opened", turn=1, text="Hello"), *committed(1, 2.0, 2.7)]
    events.insert(-3, at(2.75, "first_token", turn=1))
    (row,) = summarise(events)["per_turn"]
    assert row["post_confirm_ttft_ms"] == pytest.approx(50.0)


def test_dead_air_begins_at_the_last_voiced_frame_without_a_label() -> None:
    (row,) = summarise(plain_turn())["per_turn"]
    assert (row["speech_end_s"], row["dead_air_ms"]) == (2.0, pytest.approx(800.0))


def test_dead_air_begins_at_the_labelled_end_of_speech_where_there_is_one() -> None:
    (row,) = summarise(plain_turn(), speech_ends_s=[0.5, 2.06, 9.0])["per_turn"]
    assert (row["speech_end_s"], row["dead_air_ms"]) == (2.06, pytest.approx(740.0))


@pytest.mark.parametrize("label", [0.9, 2.8])
def test_a_label_that_is_not_this_turns_end_is_left_alone(label: float) -> None:
    """0.9 s is more than a second before the last voiced frame, 2.8 s is after the confirm: the user had gone on."""
    (row,) = summarise(plain_turn(), speech_ends_s=[label])["per_turn"]
    assert row["speech_end_s"] == 2.0


def test_a_discarded_branch_is_counted_with_its_reason_and_its_waste() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        *prepared(1, 2.25),
        at(2.4, "speech_resumed", onset_s=2.35),
        discarded(1, 2.4),
        at(3.2, "speech_paused", last_voiced_s=3.0),
        *answered_plainly(1, 3.0, 3.7),
    ]
    figures = summarise(events)
    (row,) = figures["per_turn"]
    assert (row["prepared"], row["committed"], row["discarded"]) == (1, 0, 1)
    assert row["discard_reasons"] == ["the user went on"]
    assert (figures["spec_wasted_tokens"], figures["spec_wasted_cpu_ms"], figures["spec_hit_rate"]) == (7, 80.5, 0.0)
    assert figures["discard_ms"] == {"p50": 0.5, "p95": 0.5, "n": 1}
    assert row["post_confirm_ttft_ms"] == pytest.approx(40.0), "the first token of the branch is not the reply's"
    assert row["prepare_s"] is None


def test_a_branch_discarded_and_one_committed_in_one_turn_make_half_a_hit() -> None:
    events = [*spoken(1, 1.0, 2.0), *prepared(1, 2.25), discarded(1, 2.4), *prepared(1, 3.25), *committed(1, 3.0, 3.7)]
    figures = summarise(events)
    assert (figures["prepared"], figures["committed"], figures["discarded"], figures["spec_hit_rate"]) == (2, 1, 1, 0.5)
    assert figures["per_turn"][0]["prepare_s"] == 3.25


def test_a_committed_reply_that_was_withdrawn_unheard_is_a_guess_that_failed() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        *prepared(1, 2.25),
        at(2.7, "turn_confirmed", turn=1, last_voiced_s=2.0),
        at(2.7, "reply_committed", turn=1, tokens=5, generated=False),
        at(2.75, "reply_withdrawn", turn=1, reason="the turn was not over", prepared=True, tokens=9, cpu_ms=90.0),
        at(2.75, "turn_reopened", turn=1),
        at(3.2, "speech_paused", last_voiced_s=3.0),
        *answered_plainly(1, 3.0, 3.7),
    ]
    figures = summarise(events)
    (row,) = figures["per_turn"]
    assert (row["prepared"], row["committed"], row["discarded"]) == (1, 0, 1)
    assert (row["wasted_tokens"], row["wasted_cpu_ms"], row["prepare_s"]) == (9, 90.0, None)
    assert (row["confirms"], row["false_cutoffs"]) == (2, 1)
    assert figures["false_cutoff_rate"] == 0.5
    assert (row["confirm_s"], row["pause_s"]) == (3.7, 3.2), "the confirm that held is the one that counts"
    assert row["dead_air_ms"] == pytest.approx(800.0)


def test_a_plain_reply_that_was_withdrawn_is_no_waste_of_speculation() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        *answered_plainly(1, 2.0, 2.7)[:3],
        at(2.75, "reply_withdrawn", turn=1, reason="the turn was not over", prepared=False, tokens=2, cpu_ms=30.0),
    ]
    figures = summarise(events)
    assert (figures["discarded"], figures["spec_wasted_tokens"], figures["turns"]) == (0, 0, 0)
    assert figures["post_confirm_ttft_ms"] is None, "nobody heard that reply"


@pytest.mark.parametrize(("after_s", "cutoffs"), [(FALSE_CUTOFF_S - 0.01, 1), (FALSE_CUTOFF_S + 0.01, 0)])
def test_speech_over_a_reply_is_a_false_cutoff_only_if_it_begins_soon(after_s: float, cutoffs: int) -> None:
    onset_s = 2.7 + after_s
    events = [
        *spoken(1, 1.0, 2.0),
        *answered_plainly(1, 2.0, 2.7)[:4],
        at(onset_s + 0.1, "speech_started", onset_s=onset_s),
        at(onset_s + 0.5, "reply_interrupted", turn=1, reason="the user spoke", heard="Hi", played_s=1.0),
        at(onset_s + 0.5, "reply_served", turn=1, user="Hello", agent="Hi"),
    ]
    figures = summarise(events)
    (row,) = figures["per_turn"]
    assert row["interrupted"] is True
    assert (row["false_cutoffs"], row["agent"], figures["turns"]) == (cutoffs, "Hi", 1)


def test_a_reply_that_someone_stopped_is_interrupted_and_no_false_cutoff() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        *answered_plainly(1, 2.0, 2.7)[:4],
        at(3.0, "reply_held", turn=1, reason="sound", heard="Hi", played_s=0.2),
        at(3.4, "reply_resumed", turn=1, reason="no words came", rest="there."),
        at(3.6, "reply_interrupted", turn=1, reason="stop was asked for", heard="Hi", played_s=0.4),
    ]
    figures = summarise(events)
    assert (figures["interruptions"], figures["false_interruptions"], figures["false_cutoffs"]) == (1, 1, 0)


def test_a_failed_reply_leaves_its_error_and_no_figures() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        *answered_plainly(1, 2.0, 2.7)[:2],
        at(2.8, "reply_failed", turn=1, error="the context is full"),
    ]
    figures = summarise(events)
    (row,) = figures["per_turn"]
    assert row["error"] == "the context is full"
    assert (figures["turns"], figures["post_confirm_ttft_ms"], figures["dead_air_ms"]) == (0, None, None)


def test_the_tokens_of_a_branch_that_failed_are_waste_and_those_of_a_reply_that_failed_are_not() -> None:
    cost = {"error": "broken", "tokens": 3, "cpu_ms": 30.0}
    events = [
        *spoken(1, 1.0, 2.0),
        *prepared(1, 2.3),
        at(2.4, "reply_failed", turn=1, prepared=True, **cost),
        *answered_plainly(1, 2.0, 2.7),
        *spoken(2, 8.0, 9.0),
        *prepared(2, 9.3),
        *committed(2, 9.0, 9.7)[:3],
        at(9.9, "reply_failed", turn=2, prepared=True, **cost),
    ]
    figures = summarise(events)
    assert (figures["spec_wasted_tokens"], figures["spec_wasted_cpu_ms"]) == (3, 30.0)
    assert (figures["prepared"], figures["committed"], figures["discarded"]) == (2, 1, 1)
    assert figures["per_turn"][0]["discard_reasons"] == ["it failed"]


def test_spreads_are_over_answered_turns() -> None:
    events = [START]
    for turn, start_s in enumerate((0.0, 10.0, 20.0), 1):
        events += spoken(turn, start_s + 1, start_s + 2)
        events += answered_plainly(turn, start_s + 2, start_s + 2.7 + 0.1 * turn)
    figures = summarise(events)
    assert figures["dead_air_ms"] == {"p50": 1000.0, "p95": 1090.0, "n": 3}
    assert figures["post_confirm_ttft_ms"] == {"p50": 40.0, "p95": 40.0, "n": 3}


def test_dropped_frames_and_the_loops_delays_are_told() -> None:
    figures = summarise([START, at(1.0, "session_ended", frames_dropped=3)], loop_lags_s=[0.001] * 99 + [0.5])
    assert figures["frames_dropped"] == 3
    assert 1.0 < figures["loop_lag_p99_ms"] < 500.0


def test_a_turn_that_was_closed_without_words_is_not_answered() -> None:
    events = [
        *spoken(1, 1.0, 2.0),
        at(2.7, "turn_confirmed", turn=1, last_voiced_s=2.0),
        at(2.7, "turn_closed", turn=1, reason="no words in it"),
    ]
    figures = summarise(events)
    assert (figures["turns"], figures["false_cutoff_rate"], len(figures["per_turn"])) == (0, 0.0, 1)


# ---------------------------------------------------------------- on sessions of fakes


def test_a_fake_talk_and_its_figures_agree() -> None:
    script = Script.of((0.5, "what is the time"), (2.0, "right now"), (9.0, "thank you"))
    talk = converse(script)
    figures = summarise(talk.events, speech_ends_s=[2.5, 9.5])
    opened, dropped = talk.of("branch_opened"), talk.of("branch_discarded")
    assert figures["turns"] == len(talk.replies) == len(talk.of("reply_served"))
    assert figures["prepared"] == len(opened) > 0
    assert figures["discarded"] == len(dropped) > 0
    assert figures["committed"] + figures["discarded"] == figures["prepared"]
    assert figures["spec_wasted_tokens"] == sum(event.fields["tokens"] for event in dropped)
    for row, (turn, user, agent) in zip(figures["per_turn"], talk.replies, strict=True):
        assert (row["turn"], row["user"], row["agent"]) == (turn, user, agent)
        sound = next(e.t_s for e in talk.of("playback_started") if e.fields["turn"] == turn)
        assert row["dead_air_ms"] == pytest.approx((sound - row["speech_end_s"]) * 1000)


def test_without_speculation_the_same_fake_talk_waits_longer_and_says_the_same() -> None:
    script = Script.of((0.5, "what is the time"), (9.0, "how are you"))
    with_, without = (converse(script, settings) for settings in (PadsSettings(), load(None, ["gate.mode=never"])))
    a, b = summarise(with_.events), summarise(without.events)
    assert with_.replies == without.replies
    assert a["committed"] == 2
    assert b["prepared"] == b["committed"] == 0
    assert a["post_confirm_ttft_ms"]["p50"] < b["post_confirm_ttft_ms"]["p50"]


def test_an_interrupted_fake_talk_says_so() -> None:
    talk = converse(Script.of((0.5, "tell me a story"), (3.0, "no stop that now please"), tail_s=8.0))
    figures = summarise(talk.events)
    assert [row["interrupted"] for row in figures["per_turn"]] == [True, False]
    assert figures["per_turn"][0]["agent"] == talk.agent_rows[0]
