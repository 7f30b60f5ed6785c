"""A rehearsal takes the decisions that a session takes on the same words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pads_runtime.config import PadsSettings
from pads_runtime.frames import TraceEvent, Word
from pads_runtime.meetings.figures import row_of, totals
from pads_runtime.meetings.party import Party, Stretch
from pads_runtime.meetings.rehearsal import Rehearsal, ReplyShape
from pads_runtime.testing import COSTS, KeywordActs, Script, converse, settings_with, swap
from pads_runtime.turn.silence import SilencePredictor

SETTINGS = settings_with(
    turn={"predictor": "silence", "predict_at_s": (0.2, 0.5)},
    vad={"start_s": 0.02, "pause_s": 0.2},
    asr={"partial_every_s": 0.5},
)
SHAPE = ReplyShape(tokens=8, first_phrase_tokens=4, chars_per_token=5.0, chars_per_s=25.0)


def party(script: Script) -> Party:
    """The script's user as an annotated participant; every silence is taken for the end of a turn."""
    stretches: list[Stretch] = []
    for word in script.words:
        if stretches and word.start_s - stretches[-1].end_s < 0.2:
            stretches[-1] = replace(stretches[-1], end_s=word.end_s)
        else:
            stretches.append(Stretch(word.start_s, word.end_s, True))
    return Party("T1", "A", script.words, tuple(stretches))


def rehearsed(script: Script, settings: PadsSettings = SETTINGS) -> list[TraceEvent]:
    return Rehearsal(party(script), settings, COSTS, KeywordActs().p_deep, SHAPE).events()


def held(script: Script) -> list[TraceEvent]:
    """The same in a session, at the declared costs."""
    predictor = SilencePredictor(SETTINGS.turn.predict_at_s)
    return converse(script, SETTINGS, swap(predictor=predictor), costs=COSTS).events


DECIDED = (
    "branch_opened",
    "branch_discarded",
    "turn_confirmed",
    "reply_opened",
    "reply_committed",
    "turn_reopened",
    "turn_closed",
    "reply_served",
)


def decisions(events: list[TraceEvent]) -> list[tuple[str, int]]:
    return [(event.kind, event.fields["turn"]) for event in events if event.kind in DECIDED]


@pytest.mark.parametrize(
    "script",
    [
        Script.of((1.0, "what is the weather like in rome"), tail_s=6.0),
        Script.of((1.0, "i was in rome last year"), (9.0, "can you tell me more"), tail_s=6.0),
        Script.of((1.0, "what is the weather"), (2.6, "like in rome"), tail_s=6.0),
        Script.of((1.0, "what is the weather"), (3.15, "like in rome"), tail_s=6.0),
        Script.of((1.0, "what is the weather"), (3.3, "like in rome and in the hills around it"), tail_s=8.0),
        Script.of((1.0, "tell me a story"), (3.5, "no wait"), (9.0, "yes a short one"), tail_s=8.0),
        Script.of((1.0, "mhm"), (6.0, "how are you"), tail_s=6.0),
    ],
)
def test_it_decides_what_a_session_decides(script: Script) -> None:
    ours, theirs = rehearsed(script), held(script)
    assert decisions(ours) == decisions(theirs)
    for kind in ("branch_opened", "turn_confirmed", "first_token"):
        pairs = zip((e.t_s for e in ours if e.kind == kind), (e.t_s for e in theirs if e.kind == kind), strict=True)
        assert all(abs(a - b) < 0.06 for a, b in pairs), kind


def test_the_same_participant_gives_the_same_trace() -> None:
    script = Script.of((1.0, "what is the weather"), (3.3, "like in rome"), tail_s=8.0)
    assert rehearsed(script) == rehearsed(script)


def test_without_speculation_nothing_is_prepared() -> None:
    script = Script.of((1.0, "what is the weather"), (6.0, "like in rome"), tail_s=8.0)
    never = settings_with(turn={"predictor": "silence"}, vad={"start_s": 0.02}, gate={"mode": "never"})
    kinds = {event.kind for event in rehearsed(script, never)}
    assert "branch_opened" not in kinds
    assert "reply_served" in kinds


def test_a_row_counts_what_was_prepared_kept_and_thrown_away() -> None:
    script = Script.of((1.0, "what is the weather"), (2.6, "like in rome"), tail_s=6.0)
    user = party(script)
    hold, end = user.stretches
    row = row_of(replace(user, stretches=(replace(hold, turn_ends=False), end)), rehearsed(script))
    assert (row["prepared"], row["committed"], row["discarded"]) == (2, 1, 1)
    assert row["prepared_at_turn_ends"] == 1
    assert row["cut_offs"] == 0
    assert row["spec_wasted_tokens"] > 0
    assert row["hidden_ms"] > 0.0


def test_a_confirmed_hold_is_a_cut_off() -> None:
    script = Script.of((1.0, "i was in rome"), (5.0, "last year"), tail_s=6.0)
    user = party(script)
    first, second = user.stretches
    row = row_of(replace(user, stretches=(replace(first, turn_ends=False), second)), rehearsed(script))
    assert (row["confirmed"], row["confirmed_at_turn_ends"], row["cut_offs"]) == (2, 1, 1)


def test_totals_do_not_depend_on_the_order_of_rows() -> None:
    rows = [
        row_of(replace(party(script), speaker=letter), rehearsed(script))
        for letter, script in zip(
            "BA", (Script.of((1.0, "how are you")), Script.of((1.0, "what is it"), (8.0, "fine"))), strict=True
        )
    ]
    both = totals(rows)
    assert both == totals(rows[::-1])
    assert (both["participants"], both["turns"]) == (2, 3)


def test_voice_that_never_pauses_is_closed_by_force_and_goes_on_as_a_new_turn() -> None:
    words = tuple(Word("word", 1.0 + 0.25 * i, 1.25 + 0.25 * i) for i in range(60))
    short = settings_with(turn={"predictor": "silence", "max_turn_s": 5.0}, vad={"start_s": 0.1})
    user = Party("T1", "A", words, (Stretch(1.0, 16.0, True),))
    events = Rehearsal(user, short, COSTS, lambda text: 0.1, SHAPE).events()
    confirmed = [event.t_s for event in events if event.kind == "turn_confirmed"]
    assert confirmed[0] == pytest.approx(6.0, abs=0.2)
    assert len(confirmed) > 1
