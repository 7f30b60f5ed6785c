"""p_end from the length of the silence, and the schedule of questions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pads_runtime.turn.schedule import PauseSchedule
from pads_runtime.turn.silence import SilenceLaw, SilencePredictor

NOTHING = np.zeros(0, dtype=np.int16)


def test_at_the_shortest_silence_p_end_is_the_share_of_turn_ends() -> None:
    assert SilenceLaw(0.7, 0.5, 0.2).p_end(0.2) == pytest.approx(0.7)


def test_every_hold_time_of_silence_adds_one_to_the_log_odds() -> None:
    law = SilenceLaw(0.4, 0.5, 0.2)
    odds = [p / (1 - p) for p in (law.p_end(0.3), law.p_end(0.8), law.p_end(1.3))]
    assert odds[1] / odds[0] == pytest.approx(math.e)
    assert odds[2] / odds[1] == pytest.approx(math.e)


def test_p_end_rises_with_silence_and_stays_a_probability() -> None:
    law = SilenceLaw()
    values = [law.p_end(s) for s in np.arange(0.0, 10.0, 0.1)]
    assert values == sorted(values)
    assert all(0.0 < value < 1.0 for value in values)


def test_the_law_is_bayes_with_an_exponential_hold() -> None:
    law = SilenceLaw(0.6, 0.4, 0.1)
    rng = np.random.default_rng(5)
    ends = rng.random(400_000) < 0.6
    lasts = np.where(ends, np.inf, 0.1 + rng.exponential(0.4, len(ends)))
    for s in (0.1, 0.5, 0.9):
        assert ends[lasts >= s].mean() == pytest.approx(law.p_end(s), abs=0.005)


def test_while_there_is_speech_the_turn_has_not_ended() -> None:
    predicted = SilencePredictor((0.2,)).update(NOTHING, NOTHING, 3.0, None)
    assert predicted.p_end == 0.0
    assert predicted.t_s == predicted.audio_end_s == 3.0


def test_each_moment_of_a_pause_is_asked_once_and_a_new_pause_begins_anew() -> None:
    predictor = SilencePredictor((0.2, 0.6))
    pause = [round(0.02 * k, 2) for k in range(1, 51)]
    asked = [s for s in pause if predictor.wants(s)]
    assert asked == [0.2, 0.6]
    assert predictor.wants(None) is False
    assert [s for s in pause if predictor.wants(s)] == [0.2, 0.6]


def test_moments_skipped_by_a_late_call_are_answered_once() -> None:
    schedule = PauseSchedule((0.2, 0.4, 0.6))
    assert schedule.due(0.5)
    assert not schedule.due(0.52)
    assert schedule.due(0.9)
    assert not schedule.due(5.0)


def test_a_pause_that_follows_another_without_a_call_in_between_is_noticed() -> None:
    schedule = PauseSchedule((0.2,))
    assert schedule.due(0.4)
    assert not schedule.due(0.1)
    assert schedule.due(0.2)


def test_reset_forgets_the_pause() -> None:
    predictor = SilencePredictor((0.2,))
    assert predictor.wants(0.3)
    predictor.reset()
    assert predictor.wants(0.3)


def test_a_sure_answer_ends_the_questions_of_its_pause_and_of_no_other() -> None:
    schedule = PauseSchedule((0.2, 0.5, 0.8), enough=0.8)
    assert schedule.due(0.2)
    schedule.answered(0.79)
    assert schedule.due(0.5)
    schedule.answered(0.8)
    assert not schedule.due(0.8)
    assert not schedule.due(None)
    assert schedule.due(0.2)
    schedule.answered(0.9)
    assert not schedule.due(0.5)
    assert schedule.due(0.22)  # a shorter silence than the last one: the speech in between was not told of
    schedule = PauseSchedule((0.2, 0.5))
    assert schedule.due(0.2)
    schedule.answered(1.0)
    assert schedule.due(0.5)
