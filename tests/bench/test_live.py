"""The arithmetic of ``bench live``: when something sounded, and which turns are compared with each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.live import run as live
from bench.live.questions import QUESTIONS
from bench.live.run import OFF, ON, LiveBlock, LiveTurn, between_ms, detail, heard_between, paired, rows
from bench.live.sound import first_sound, last_sound
from pads_runtime.frames import TraceEvent

AUDIO = {"callback_ms_p99": 0.1, "input_overruns": 0, "output_underruns": 2, "frames_lost": 1}
SUMMARY = {"audio": AUDIO, "loop_lag_p99_ms": 4.0, "frames_dropped": 3}


def sound(*parts: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """(length, level) after each other."""
    return np.concatenate([np.full(length, level, np.int16) for length, level in parts])


def turn(mode: str, number: int, dead_air_ms: float | None, **more: Any) -> LiveTurn:
    fields = {"dead_air_ms": dead_air_ms, "post_confirm_ttft_ms": 50.0, "confirm_to_sound_ms": 200.0}
    known = {} if dead_air_ms is None else fields | {"trace_dead_air_ms": dead_air_ms - 10.0}
    return LiveTurn(mode, 0, number, QUESTIONS[number], **(known | more))


def test_sound_is_what_is_louder_than_a_whisper_and_no_sample_is_too_loud_to_count() -> None:
    heard = sound((10, 0), (5, 99), (5, -32768), (10, 50))
    assert (first_sound(heard, 0, 30), last_sound(heard, 0, 30)) == (15, 19)
    assert (first_sound(heard, 0, 30, level=1), last_sound(heard, 0, 30, level=1)) == (10, 29)


def test_only_what_lies_between_the_bounds_is_looked_at() -> None:
    heard = sound((10, 500), (10, 0), (10, 500))
    assert first_sound(heard, 10, 20) is None
    assert first_sound(heard, 12, 40) == 20
    assert last_sound(heard, 0, 15) == 9


def test_times_of_sound_are_those_of_the_clock_on_which_the_recording_began() -> None:
    heard = sound((1000, 0), (500, 900), (1500, 0))
    assert heard_between(heard, 1000, 20.0, 20.5, 23.0) == (21.0, 21.499)
    assert heard_between(heard, 1000, 20.0, 22.0, 23.0) == (None, None)


def test_a_question_ends_where_its_reply_begins_at_the_latest() -> None:
    question, next_one = (1000, 900), (1000, 900)
    room = sound(question, (2000, 0), next_one)
    assert heard_between(room, 1000, 0.0, 0.0, 2.5)[1] == pytest.approx(0.999)


class Recorded:
    """A partner whose talk began at 100 s of the machine's clock, with both recordings begun at 99 s."""

    def __init__(self, room: Any, speaker: Any, *events: tuple[float, str, dict[str, Any]]) -> None:
        self.room, self.speaker = (SimpleNamespace(samples=x, rate=1000, started_s=99.0) for x in (room, speaker))
        self.events = [TraceEvent(t_s, kind, fields) for t_s, kind, fields in events]

    def monotonic_s(self, event_s: float) -> float:
        return 100.0 + event_s


def test_a_turn_is_measured_from_the_last_sound_of_the_question_to_the_first_of_the_reply() -> None:
    room = sound((1500, 0), (1000, 800), (6000, 0), (500, 800))  # 0.5 to 1.5 s of the talk, and the next question
    speaker = sound((4300, 0), (2000, 800), (3000, 0))  # from 3.3 s of the talk on
    partner = Recorded(
        room,
        speaker,
        (0.1, "state_changed", {"turn": 1, "before": "idle", "state": "listening"}),
        (2.2, "turn_confirmed", {"turn": 1, "last_voiced_s": 1.48}),
        (2.2, "reply_opened", {"turn": 1, "text": "what is it"}),
        (2.5, "first_token", {"turn": 1}),
        (3.25, "playback_started", {"turn": 1}),
        (5.3, "reply_served", {"turn": 1, "user": "what is it", "agent": "It is late."}),
    )
    empty = LiveTurn(OFF, 0, 0, QUESTIONS[0])
    measured = live._turn(partner, empty, slice(0, None), (100.2, 106.0))  # type: ignore[arg-type]
    assert (measured.heard, measured.answer, measured.false_cutoffs) == ("what is it", "It is late.", 0)
    assert measured.dead_air_ms == pytest.approx(1801.0)
    assert measured.confirm_to_sound_ms == pytest.approx(1100.0)
    assert measured.post_confirm_ttft_ms == pytest.approx(300.0)
    assert measured.trace_dead_air_ms == pytest.approx(1770.0)
    silent = Recorded(room, speaker, (9.0, "turn_closed", {"turn": 1, "reason": "no words"}))
    assert live._turn(silent, empty, slice(0, None), (100.2, 106.0)) == empty  # type: ignore[arg-type]


def test_a_time_that_is_not_known_gives_no_wait() -> None:
    assert between_ms(1.0, 1.25) == 250.0
    assert between_ms(None, 1.0) is between_ms(1.0, None) is None


def test_only_questions_that_both_answered_are_compared() -> None:
    turns = [turn(ON, 0, 700.0), turn(OFF, 0, 900.0), turn(ON, 1, 800.0), turn(OFF, 1, None), turn(OFF, 2, 950.0)]
    assert paired(turns, "dead_air_ms") == [(900.0, 700.0)]


def test_the_rows_hold_both_modes_their_ratio_and_the_counts_of_all_talks() -> None:
    held = [
        LiveBlock((turn(ON, 0, 600.0, prepared=1, committed=1), turn(ON, 1, 700.0)), SUMMARY),
        LiveBlock((turn(OFF, 0, 900.0), turn(OFF, 1, None, false_cutoffs=1)), SUMMARY),
    ]
    by_name = {row.name: row for row in rows(held)}
    assert (by_name["dead_air_on"].n, by_name["dead_air_on"].p50) == (2, 650.0)
    assert (by_name["dead_air_off"].n, by_name["dead_air_off"].p50) == (1, 900.0)
    assert by_name["dead_air_saved"].p50 == 300.0
    assert by_name["dead_air_on_over_off"].p50 == pytest.approx(2 / 3)
    assert by_name["dead_air_beyond_the_trace"].p50 == 10.0
    assert by_name["overruns"].within and by_name["callback_p99"].within
    assert (by_name["underruns"].p50, by_name["frames_lost"].p50) == (4, 8)
    assert (by_name["unanswered"].p50, by_name["false_cutoffs"].p50, by_name["committed_on"].p50) == (1, 1, 1)


def test_where_nothing_was_answered_there_is_no_figure_and_no_fault() -> None:
    held = [LiveBlock((turn(ON, 0, None),), SUMMARY), LiveBlock((turn(OFF, 0, None),), SUMMARY)]
    by_name = {row.name: row for row in rows(held)}
    assert by_name["dead_air_on"].n == 0
    assert "dead_air_saved" not in by_name
    assert detail(held)["intervals"]["dead_air_ms_on"] is None


def test_replies_that_differ_with_and_without_speculation_are_listed() -> None:
    on = LiveBlock((turn(ON, 0, 1.0, answer="Yes."), turn(ON, 1, 1.0, answer="Tea.")), SUMMARY)
    off = LiveBlock((turn(OFF, 0, 1.0, answer="Yes."), turn(OFF, 1, 1.0, answer="Soup.")), SUMMARY)
    assert detail([on, off])["replies_that_differ"] == [{"on": ("", "Tea."), "off": ("", "Soup.")}]


def test_without_pulseaudio_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from bench.__main__ import app
    from pads_runtime.errors import SetupError

    monkeypatch.setattr(live, "missing", lambda: "pulseaudio not installed: apt-get install pulseaudio")
    done = CliRunner().invoke(app, ["live", "--set", f"run.dir={tmp_path}"])
    assert isinstance(done.exception, SetupError)
    assert done.exception.exit_code == 1
    assert "apt-get install pulseaudio" in str(done.exception)
