"""Speech events from frames: real voices start turns, knocks and fans do not, and gaps of zeros change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import soxr
from hibari import Hibari

from pads_runtime.config import VoiceActivitySettings
from pads_runtime.errors import InputError
from pads_runtime.frames import (
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Samples,
    SpeechEvent,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
)
from pads_runtime.turn.voice_activity import ActivityState, NoiseFloor, WebRtcVoiceActivity, level_db

TEXT = "Could you book a table for two people please?"


def int16(samples: np.ndarray) -> Samples:
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)


@pytest.fixture(scope="module")
def voice() -> Samples:
    spoken = int16(soxr.resample(Hibari()(TEXT, seed=0), 24_000, SAMPLE_RATE))
    # The synthesiser begins and ends with silence: keep what is within 40 dB of the loudest frame.
    levels = [level_db(frame.samples) for frame in frames(spoken)]
    loud = [index for index, level in enumerate(levels) if level > max(levels) - 40]
    return spoken[loud[0] * FRAME_SAMPLES : (loud[-1] + 1) * FRAME_SAMPLES]


def frames(samples: Samples, start_s: float = 0.0) -> Iterator[AudioFrame]:
    for index in range(len(samples) // FRAME_SAMPLES):
        block = samples[index * FRAME_SAMPLES : (index + 1) * FRAME_SAMPLES]
        yield AudioFrame(block, index, start_s + (index + 1) * FRAME_SAMPLES / SAMPLE_RATE)


def listen(samples: Samples, settings: VoiceActivitySettings | None = None) -> list[SpeechEvent]:
    vad = WebRtcVoiceActivity(settings or VoiceActivitySettings())
    return [event for frame in frames(samples) for event in vad.process(frame)]


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), dtype=np.int16)


def room(seconds: float, level: float = 1e-3, seed: int = 0) -> Samples:
    return int16(np.random.default_rng(seed).normal(0, level, round(seconds * SAMPLE_RATE)))


def clap(rt60: float, peak: float, seed: int = 0) -> Samples:
    n = np.arange(SAMPLE_RATE)
    burst = np.random.default_rng(seed).normal(0, 0.4, SAMPLE_RATE) * peak * 10 ** (-3 * n / SAMPLE_RATE / rt60)
    return int16(np.clip(burst, -1, 1)) // 2 + room(1.0, seed=seed + 1) // 2


def test_an_utterance_starts_once_and_pauses_once(voice: Samples) -> None:
    events = listen(np.concatenate([room(1.0), voice, room(1.0, seed=1)]))
    assert [type(event) for event in events] == [SpeechStarted, SpeechPaused]
    started, paused = events
    assert isinstance(started, SpeechStarted)
    assert isinstance(paused, SpeechPaused)
    assert 0.96 <= started.onset_s <= 1.2
    assert started.t_s - started.onset_s <= 0.3
    assert paused.t_s - paused.last_voiced_s == pytest.approx(0.2, abs=0.011)


def test_voice_after_a_pause_resumes_the_turn_and_after_end_turn_starts_a_new_one(voice: Samples) -> None:
    audio = np.concatenate([room(0.5), voice, room(0.6, seed=1), voice, room(0.6, seed=2)])
    assert [type(e) for e in listen(audio)] == [SpeechStarted, SpeechPaused, SpeechResumed, SpeechPaused]
    vad = WebRtcVoiceActivity(VoiceActivitySettings())
    kinds = []
    for frame in frames(audio):
        for event in vad.process(frame):
            kinds.append(type(event))
            if isinstance(event, SpeechPaused):
                vad.end_turn()
                assert vad.state is ActivityState.SILENT
    assert kinds == [SpeechStarted, SpeechPaused, SpeechStarted, SpeechPaused]


def test_the_same_audio_gives_the_same_events(voice: Samples) -> None:
    audio = np.concatenate([room(0.3), voice, room(0.5, 3e-3)])
    assert listen(audio) == listen(audio)


@pytest.mark.parametrize("frames_of_zeros", [25, 26, 50, 500, 5_000])
def test_events_do_not_depend_on_how_long_a_gap_of_digital_silence_is(voice: Samples, frames_of_zeros: int) -> None:
    shortest = listen(np.concatenate([voice, silence(0.5), voice, silence(0.5)]))
    gap = np.zeros(frames_of_zeros * FRAME_SAMPLES, dtype=np.int16)
    events = listen(np.concatenate([voice, gap, voice, silence(0.5)]))
    shift = (frames_of_zeros - 25) * 0.02
    resumed, last = events[-2:]
    assert [type(e) for e in events] == [type(e) for e in shortest]
    assert isinstance(resumed, SpeechResumed)
    assert isinstance(last, SpeechPaused)
    assert resumed.t_s == pytest.approx(shortest[-2].t_s + shift)
    assert resumed.onset_s == pytest.approx(shortest[-2].onset_s + shift)  # type: ignore[union-attr]
    assert last.t_s == pytest.approx(shortest[-1].t_s + shift)


@pytest.mark.parametrize("rt60", [0.05, 0.2, 0.4, 0.8])
@pytest.mark.parametrize("peak", [0.3, 0.9])
def test_a_clap_does_not_start_a_turn(rt60: float, peak: float) -> None:
    for seed in range(5):
        assert listen(np.concatenate([room(1.0), clap(rt60, peak, seed), room(0.5)])) == []


def test_claps_twice_a_second_do_not_start_a_turn() -> None:
    assert listen(np.concatenate([room(1.0)] + [clap(0.3, 0.8, seed)[:8_000] for seed in range(20)])) == []


@pytest.mark.parametrize("width", [1, 20, 160, 320])
def test_a_click_does_not_start_a_turn_or_hold_back_a_pause(voice: Samples, width: int) -> None:
    quiet = room(1.0, seed=1)
    quiet[8_000 : 8_000 + width] = 25_000
    assert listen(np.concatenate([room(0.5), quiet])) == []
    tail = room(1.0, seed=1)
    clicked = tail.copy()
    clicked[2_400 : 2_400 + width] = 25_000
    clean = listen(np.concatenate([room(0.5), voice, tail]))
    assert [type(e) for e in clean] == [SpeechStarted, SpeechPaused]
    noisy = listen(np.concatenate([room(0.5), voice, clicked]))
    assert [type(e) for e in noisy] == [SpeechStarted, SpeechPaused]
    assert noisy[1].t_s - clean[1].t_s <= 0.121


@pytest.mark.parametrize("level", [1e-3, 1e-2, 5e-2, 0.2])
def test_steady_noise_from_the_start_is_no_speech(level: float) -> None:
    assert listen(room(20.0, level)) == []


def test_a_fan_switched_on_does_not_keep_a_turn_open() -> None:
    events = listen(np.concatenate([room(3.0), room(20.0, 5e-2)]))
    assert sum(isinstance(e, SpeechStarted) for e in events) <= 1
    if events:
        assert isinstance(events[-1], SpeechPaused)
        assert events[-1].t_s < 3.0 + 4.0


def test_a_voice_over_steady_noise_is_still_found(voice: Samples) -> None:
    speech = float(np.sqrt(np.mean((voice / 32768.0) ** 2)))
    noise = room(3.0 + len(voice) / SAMPLE_RATE, speech / 10**0.75)
    noise[SAMPLE_RATE : SAMPLE_RATE + len(voice)] += voice
    events = listen(noise)
    assert isinstance(events[0], SpeechStarted)
    assert isinstance(events[-1], SpeechPaused)
    assert 0.96 <= events[0].onset_s <= 1.3


def test_half_an_hour_of_silence_leaves_the_memory_flat() -> None:
    vad = WebRtcVoiceActivity(VoiceActivitySettings())
    frame = AudioFrame(np.zeros(FRAME_SAMPLES, dtype=np.int16), 0, 0.0)
    noisy = AudioFrame(room(0.02), 0, 0.0)
    for _ in range(20_000):
        assert vad.process(frame) == ()
    for _ in range(2_000):
        assert vad.process(noisy) == ()
    assert len(vad._window) <= 10
    assert len(vad._floor._levels) <= 150


def test_a_frame_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(InputError):
        WebRtcVoiceActivity(VoiceActivitySettings()).process(AudioFrame(np.zeros(100, dtype=np.int16), 0, 0.02))


def test_the_level_of_a_full_scale_square_is_0_db_and_of_silence_minus_120() -> None:
    square = np.where(np.arange(320) % 2, 32767, -32768).astype(np.int16)
    assert level_db(square) == pytest.approx(0.0, abs=0.01)
    assert level_db(np.full(320, 1_000, dtype=np.int16)) == -120.0


def test_the_noise_floor_forgets_after_three_seconds() -> None:
    floor = NoiseFloor()
    floor.add(-60.0)
    for _ in range(149):
        floor.add(-20.0)
    assert floor.add(-20.0) == -20.0
