"""The agent does not hear itself, and still hears the user over its own voice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench import echo as echo_bench
from bench.echo import USER_AT_S, Voices, in_a_room, make_voices, over
from pads_runtime.audio.echo import EchoCanceller, EchoMeter, choose_echo, level_db
from pads_runtime.config import PadsSettings
from pads_runtime.errors import SetupError
from pads_runtime.frames import FRAME_SAMPLES, SAMPLE_RATE, SpeechPaused, SpeechStarted

Signal = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def voices() -> Voices:
    """The agent's speech and the user's over it."""
    return make_voices(PadsSettings())


def through(voices: Voices, microphone: Signal, canceller: EchoCanceller | None) -> tuple[list[Any], Signal]:
    return echo_bench.through(voices.agent, microphone, canceller, PadsSettings())


@pytest.mark.slow
def test_without_a_canceller_its_own_voice_at_minus_20_db_is_taken_for_the_users(voices: Voices) -> None:
    events, _ = through(voices, in_a_room(voices.agent, -20.0, 60), None)
    assert any(isinstance(event, SpeechStarted) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize(("gain_db", "delay_ms"), [(-20.0, 5), (-20.0, 60), (-20.0, 200), (-6.0, 60)])
def test_with_it_no_speech_is_declared_from_the_first_word_on(voices: Voices, gain_db: float, delay_ms: int) -> None:
    canceller = EchoCanceller()
    events, _ = through(voices, in_a_room(voices.agent, gain_db, delay_ms), canceller)
    assert events == []
    assert canceller.reduction_db is not None
    assert canceller.reduction_db > 10.0


@pytest.mark.slow
@pytest.mark.parametrize("user_over_echo_db", [6.0, 10.0])
def test_a_user_who_talks_over_the_agent_is_heard(voices: Voices, user_over_echo_db: float) -> None:
    echo = in_a_room(voices.agent, -20.0, 60)
    events, _ = through(voices, echo + over(voices.user, echo, user_over_echo_db), EchoCanceller())
    starts = [event for event in events if isinstance(event, SpeechStarted)]
    assert len(starts) == 1
    assert USER_AT_S - 0.1 < starts[0].onset_s < USER_AT_S + 0.8
    assert not any(isinstance(event, SpeechPaused) and event.t_s < USER_AT_S for event in events)


@pytest.mark.slow
def test_the_user_alone_passes_unharmed(voices: Voices) -> None:
    user = 0.1 * voices.user / voices.user.std()
    _, out = through(Voices(np.zeros(len(user)), user), user, EchoCanceller())
    spoken = slice(round((USER_AT_S + 0.3) * SAMPLE_RATE), round((USER_AT_S + 2.0) * SAMPLE_RATE))
    assert abs(20 * np.log10(out[spoken].std() / user[spoken].std())) < 1.5


def constant(amplitude: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.tile(np.array([amplitude, -amplitude], np.int16), FRAME_SAMPLES // 2)


def test_the_meter_tells_the_reduction_while_the_agent_sounds_and_ignores_the_rest() -> None:
    meter = EchoMeter()
    for _ in range(49):
        meter.add(constant(1000), constant(9000), constant(100))
    assert meter.reduction_db is None
    for _ in range(200):
        meter.add(constant(1000), constant(9000), constant(100))
    for _ in range(1000):  # the user speaks, the agent does not
        meter.add(constant(8000), constant(0), constant(8000))
    assert meter.reduction_db == pytest.approx(20.0, abs=0.1)


def test_a_user_who_talks_over_the_agent_for_a_while_hardly_moves_the_meter() -> None:
    meter = EchoMeter()
    for k in range(400):
        over: Callable[[int], Any] = constant if k % 4 == 0 else lambda a: constant(a // 10)
        meter.add(constant(1000), constant(9000), over(1000))
    assert meter.reduction_db == pytest.approx(20.0, abs=0.1)


def test_where_the_microphone_hears_nothing_there_is_no_figure() -> None:
    meter = EchoMeter()
    for _ in range(200):
        meter.add(constant(0), constant(9000), constant(3))
    assert meter.reduction_db is None


def test_levels_are_in_db_of_full_scale() -> None:
    assert level_db(constant(32767)) == pytest.approx(0.0, abs=0.01)
    assert level_db(constant(3277)) == pytest.approx(-20.0, abs=0.01)
    assert level_db(np.zeros(FRAME_SAMPLES, np.int16)) == pytest.approx(-110.3, abs=0.1)


def test_the_choice_says_why() -> None:
    assert choose_echo("auto", "Webcam", "Speakers").mode == "webrtc"
    assert "worn on the head" in choose_echo("auto", "USB Headset Mono", "Speakers").why
    assert choose_echo("off", "Webcam", "Speakers").why == "as set"


def test_a_canceller_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pywebrtc_audio", None)
    with pytest.raises(SetupError, match=r"audio\.echo=headset"):
        EchoCanceller()
