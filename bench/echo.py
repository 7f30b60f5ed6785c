"""How much of the agent's own voice the echo canceller takes out, and whether a user is heard over it.

Everything is synthesised: the agent's sentences, the user's (the same voice, slower and deeper), and the way from the
loudspeaker to the microphone: a delay, a decaying tail, a gain. The figures are of the signal, not of wall time, except
the cost of a frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from pads_runtime.audio.echo import EchoCanceller
from pads_runtime.config import PadsSettings
from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, SpeechEvent, SpeechStarted
from pads_runtime.speech.hibari_voice import HibariVoice
from pads_runtime.turn.voice_activity import WebRtcVoiceActivity

from .report import Measurement, measurement, missing

Signal = NDArray[np.float64]

AGENT_SAYS = (
    "Well, I think that is a good question.",
    "The train leaves at nine in the morning and arrives in the evening.",
    "You could ask at the desk, they will know more about it.",
)
USER_SAYS = "No, wait a moment please, I wanted to ask about something else."
USER_AT_S = 4.0
_USER_SLOWER = 0.85
_AGENT_PEAK = 0.7
_MICROPHONE_NOISE = 3e-4
GAINS_DB = (-30.0, -20.0, -10.0, 0.0)
DELAYS_MS = (5, 60, 200)
USER_OVER_ECHO_DB = (0.0, 3.0, 6.0, 10.0, 15.0)


@dataclass(frozen=True)
class Voices:
    """Both sides on one line of time, shape (n,), 16 kHz, floats in [-1, 1]; the user begins at USER_AT_S."""

    agent: Signal
    user: Signal


def make_voices(settings: PadsSettings) -> Voices:
    """The agent talks for the whole time, the user interrupts it."""
    voice = HibariVoice(settings.speech)

    def say(text: str, as_if_rate: int) -> Signal:
        samples = voice.synthesize(text).samples.astype(np.float64) / 32768.0
        said: Signal = soxr.resample(samples, as_if_rate, SAMPLE_RATE)
        return said

    parts = [np.zeros(SAMPLE_RATE)]
    for text in AGENT_SAYS:
        parts += [say(text, voice.sample_rate), np.zeros(SAMPLE_RATE // 3)]
    agent = np.concatenate(parts)
    user = np.zeros(len(agent))
    start = round(USER_AT_S * SAMPLE_RATE)
    said = say(USER_SAYS, round(voice.sample_rate * _USER_SLOWER))[: len(user) - start]
    user[start : start + len(said)] = said
    return Voices(_AGENT_PEAK * agent / np.abs(agent).max(), user)


def in_a_room(agent: Signal, gain_db: float, delay_ms: int) -> Signal:
    """What the microphone gets of the agent: ``delay_ms`` later, with a tail, ``gain_db`` louder than it was played."""
    rng = np.random.default_rng(3)
    tail = rng.standard_normal(SAMPLE_RATE // 4) * np.exp(-np.arange(SAMPLE_RATE // 4) / (0.05 * SAMPLE_RATE))
    tail[0] = 3.0
    wet = np.convolve(agent, tail)[: len(agent)]
    late = np.concatenate([np.zeros(delay_ms * SAMPLE_RATE // 1000), wet])[: len(agent)]
    echo: Signal = late * (10 ** (gain_db / 20) * agent.std() / late.std())
    return echo


def over(user: Signal, echo: Signal, db: float) -> Signal:
    """The user, scaled so that while they speak they are ``db`` louder than the echo."""
    louder: Signal = user * (10 ** (db / 20) * echo.std() / user[user != 0].std())
    return louder


def through(
    played: Signal, microphone: Signal, canceller: EchoCanceller | None, settings: PadsSettings
) -> tuple[list[SpeechEvent], Signal]:
    """What voice activity makes of the microphone behind the canceller (None: none), and the signal it heard."""
    noise = _MICROPHONE_NOISE * np.random.default_rng(9).standard_normal(len(microphone))
    heard = np.clip((microphone + noise) * 32768, -32768, 32767).astype(np.int16)
    reference = np.clip(played * 32768, -32768, 32767).astype(np.int16)
    activity = WebRtcVoiceActivity(settings.vad)
    events: list[SpeechEvent] = []
    out = np.zeros(len(heard) // FRAME_SAMPLES * FRAME_SAMPLES)
    for index in range(len(heard) // FRAME_SAMPLES):
        part = slice(index * FRAME_SAMPLES, (index + 1) * FRAME_SAMPLES)
        samples = heard[part] if canceller is None else canceller.process(heard[part], reference[part])
        out[part] = samples / 32768.0
        events += activity.process(AudioFrame(samples, index, (index + 1) * FRAME_S))
    return events, out


def measure(settings: PadsSettings, say: Callable[[str], None]) -> list[Measurement]:
    """All rows."""
    voices = make_voices(settings)
    rows: list[Measurement] = []
    for gain_db in GAINS_DB:
        say(f"echo at {gain_db:g} dB")
        rows += _alone(voices, gain_db, settings)
    for db in USER_OVER_ECHO_DB:
        say(f"a user {db:g} dB over the echo")
        rows.append(_interrupting(voices, db, settings))
    rows.append(_cost(voices))
    return rows


def _alone(voices: Voices, gain_db: float, settings: PadsSettings) -> list[Measurement]:
    without, _ = through(voices.agent, in_a_room(voices.agent, gain_db, DELAYS_MS[1]), None, settings)
    reductions, false_starts = [], 0.0
    for delay_ms in DELAYS_MS:
        canceller = EchoCanceller()
        events, _ = through(voices.agent, in_a_room(voices.agent, gain_db, delay_ms), canceller, settings)
        false_starts += len(events)
        reductions.append(canceller.reduction_db or 0.0)
    name = f"{abs(gain_db):g}db_below"
    note = f"delays {', '.join(map(str, DELAYS_MS))} ms"
    return [
        measurement(f"reduction_{name}", reductions, "dB", note=note),
        measurement(f"false_speech_events_{name}", [false_starts], "events", note=note),
        measurement(f"false_speech_events_{name}_without", [float(len(without))], "events", note="one delay"),
    ]


def _interrupting(voices: Voices, db: float, settings: PadsSettings) -> Measurement:
    echo = in_a_room(voices.agent, -20.0, DELAYS_MS[1])
    events, _ = through(voices.agent, echo + over(voices.user, echo, db), EchoCanceller(), settings)
    starts = [event.t_s for event in events if isinstance(event, SpeechStarted)]
    name = f"user_{db:g}db_over_echo_declared_after"
    if not starts:
        return missing(name, "the user was not heard over the agent", "ms")
    return measurement(name, [(starts[0] - USER_AT_S) * 1000.0], "ms", note="echo at -20 dB")


def _cost(voices: Voices) -> Measurement:
    canceller, took = EchoCanceller(), []
    echo = np.clip(in_a_room(voices.agent, -20.0, 60) * 32768, -32768, 32767).astype(np.int16)
    played = (voices.agent * 32768).astype(np.int16)
    for first in range(0, len(echo) - FRAME_SAMPLES + 1, FRAME_SAMPLES):
        began_s = time.perf_counter()
        canceller.process(echo[first : first + FRAME_SAMPLES], played[first : first + FRAME_SAMPLES])
        took.append((time.perf_counter() - began_s) * 1000.0)
    return measurement("canceller_per_20_ms_frame", took, note="meter included")
