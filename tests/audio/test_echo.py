"""The agent does not hear itself, and still hears the user over its own voice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soxr

from pads_runtime.audio.echo import EchoCanceller, EchoMeter, choose_echo, level_db
from pads_runtime.config import SpeechSettings, VoiceActivitySettings
from pads_runtime.errors import SetupError
from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, SpeechPaused, SpeechStarted
from pads_runtime.turn.voice_activity import WebRtcVoiceActivity

AGENT_SAYS = (
    "Well, I think that is a good question.",
    "The train leaves at nine in the morning and arrives in the evening.",
    "You could ask at the desk, they will know more about it.",
)
USER_SAYS = "No, wait a moment please, I wanted to ask about something else."
USER_AT_S = 4.0
Signal = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def voices() -> tuple[Signal, Signal]:
    """The agent's speech and the user's on one line of time, floats at 16 kHz; the user is a slower, deeper voice."""
    hibari = pytest.importorskip("pads_runtime.speech.hibari_voice")

    def say(voice: Any, text: str, as_if_rate: int) -> Signal:
        samples = voice.synthesize(text).samples.astype(np.float64) / 32768.0
        return soxr.resample(samples, as_if_rate, SAMPLE_RATE)

    voice = hibari.HibariVoice(SpeechSettings())
    gap = np.zeros(SAMPLE_RATE // 3)
    parts = [np.zeros(SAMPLE_RATE)]
    for text in AGENT_SAYS:
        parts += [say(voice, text, voice.sample_rate), gap]
    agent = np.concatenate([*parts, gap])
    user = np.zeros(len(agent))
    said = say(voice, USER_SAYS, round(voice.sample_rate * 0.85))
    start = round(USER_AT_S * SAMPLE_RATE)
    said = said[: len(user) - start]
    user[start : start + len(said)] = said
    return 0.7 * agent / np.abs(agent).max(), user


def in_a_room(agent: Signal, gain_db: float, delay_ms: int) -> Signal:
    """What the microphone gets of the agent: later, with a tail of 50 ms decay, ``gain_db`` louder."""
    rng = np.random.default_rng(3)
    tail = rng.standard_normal(4000) * np.exp(-np.arange(4000) / 800.0)
    tail[0] = 3.0
    wet = np.convolve(agent, tail)[: len(agent)]
    late = np.concatenate([np.zeros(delay_ms * SAMPLE_RATE // 1000), wet])[: len(agent)]
    return late * 10 ** (gain_db / 20) * agent.std() / late.std()


def through(agent: Signal, microphone: Signal, canceller: EchoCanceller | None) -> tuple[list[Any], Signal]:
    """Speech events and output of the microphone with a little noise of its own, in order of the frames."""
    noise = 3e-4 * np.random.default_rng(9).standard_normal(len(microphone))
    heard = np.clip((microphone + noise) * 32768, -32768, 32767).astype(np.int16)
    played = np.clip(agent * 32768, -32768, 32767).astype(np.int16)
    activity, events, out = WebRtcVoiceActivity(VoiceActivitySettings()), [], []
    for index in range(len(heard) // FRAME_SAMPLES):
        part = slice(index * FRAME_SAMPLES, (index + 1) * FRAME_SAMPLES)
        samples = canceller.process(heard[part], played[part]) if canceller else heard[part]
        out.append(samples)
        events += activity.process(AudioFrame(samples, index, (index + 1) * FRAME_S))
    return events, np.concatenate(out) / 32768.0


@pytest.mark.slow
def test_without_a_canceller_its_own_voice_at_minus_20_db_is_taken_for_the_users(voices: tuple[Signal, Signal]) -> None:
    events, _ = through(voices[0], in_a_room(voices[0], -20.0, 60), None)
    assert any(isinstance(event, SpeechStarted) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize(("gain_db", "delay_ms"), [(-20.0, 5), (-20.0, 60), (-20.0, 200), (-6.0, 60)])
def test_with_it_no_speech_is_declared_from_the_first_word_on(
    voices: tuple[Signal, Signal], gain_db: float, delay_ms: int
) -> None:
    canceller = EchoCanceller()
    events, _ = through(voices[0], in_a_room(voices[0], gain_db, delay_ms), canceller)
    assert events == []
    assert canceller.reduction_db is not None
    assert canceller.reduction_db > 10.0


@pytest.mark.slow
@pytest.mark.parametrize("user_over_echo_db", [6.0, 10.0])
def test_a_user_who_talks_over_the_agent_is_heard(voices: tuple[Signal, Signal], user_over_echo_db: float) -> None:
    agent, user = voices
    echo = in_a_room(agent, -20.0, 60)
    user = user * 10 ** (user_over_echo_db / 20) * echo.std() / user[user != 0].std()
    events, _ = through(agent, echo + user, EchoCanceller())
    starts = [event for event in events if isinstance(event, SpeechStarted)]
    assert len(starts) == 1
    assert USER_AT_S - 0.1 < starts[0].onset_s < USER_AT_S + 0.8
    assert not any(isinstance(event, SpeechPaused) and event.t_s < USER_AT_S for event in events)


@pytest.mark.slow
def test_the_user_alone_passes_unharmed(voices: tuple[Signal, Signal]) -> None:
    user = 0.1 * voices[1] / voices[1].std()
    _, out = through(np.zeros(len(user)), user, EchoCanceller())
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
