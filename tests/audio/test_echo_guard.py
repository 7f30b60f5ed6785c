"""What passes while the canceller has lost the echo, and the reference of a loudspeaker that stumbles."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from pads_runtime.audio.echo import EchoCanceller, EchoGuard
from pads_runtime.audio.fake import FakeBackend
from pads_runtime.audio.live import LiveAudio
from pads_runtime.audio.player import Player
from pads_runtime.audio.reference import Reference
from pads_runtime.clock import LoopClock, ManualClock
from pads_runtime.config import AudioSettings
from pads_runtime.frames import FRAME_SAMPLES, Samples

RATE = 16_000
SILENCE = np.zeros(FRAME_SAMPLES, np.int16)


def at(db: float) -> Samples:
    """A frame of noise so loud, in dB of full scale."""
    noise = np.random.default_rng(3).standard_normal(FRAME_SAMPLES)
    return (noise * 10 ** ((db + 90.31) / 20)).clip(-32768, 32767).astype(np.int16)


def experienced() -> EchoGuard:
    """One that has learnt that the echo comes back 20 dB softer than the agent, which speaks at -26 dB."""
    guard = EchoGuard()
    for _ in range(60):
        assert guard.passes(at(-46), at(-26), at(-90))
    return guard


def test_as_long_as_nothing_stumbles_all_passes() -> None:
    guard = experienced()
    assert guard.passes(at(-46), at(-26), at(-46))


@pytest.mark.parametrize(("heard_db", "passes"), [(-46.0, False), (-43.0, False), (-36.0, True), (-20.0, True)])
def test_after_a_stumble_only_what_is_louder_than_the_echo_passes(heard_db: float, passes: bool) -> None:
    guard = experienced()
    guard.disturbed()
    assert guard.passes(at(heard_db), at(-26), at(heard_db)) is passes


def test_what_it_lets_pass_after_two_seconds_of_the_agents_voice_is_everything_again() -> None:
    guard = experienced()
    guard.disturbed()
    passed = [guard.passes(at(-46), at(-26), at(-46)) for _ in range(101)]
    assert passed == [False] * 100 + [True]


def test_an_echo_that_outlasts_the_voice_is_held_back_too_and_a_user_in_silence_is_not() -> None:
    guard = experienced()
    guard.disturbed()
    after = [guard.passes(at(-46), SILENCE, at(-46)) for _ in range(30)]
    assert after == [False] * 11 + [True] * 19


def test_before_it_has_learnt_anything_only_what_is_louder_than_the_agent_passes() -> None:
    guard = EchoGuard()
    guard.disturbed()
    assert not guard.passes(at(-22), at(-26), at(-22))
    assert guard.passes(at(-18), at(-26), at(-18))


def test_a_user_alone_teaches_it_nothing_and_one_who_interrupts_does_not_raise_the_bar() -> None:
    guard = experienced()
    for _ in range(200):
        guard.passes(at(-20), at(-26), at(-21))  # hardly reduced: not echo alone
    guard.disturbed()
    assert guard.passes(at(-36), at(-26), at(-36))


def test_the_canceller_gives_silence_for_what_may_not_pass() -> None:
    class Through:
        def process(self, heard: Samples, played: Samples) -> Samples:
            return heard

    canceller = EchoCanceller(Through)
    assert canceller.process(at(-40), at(-26)).any()
    canceller.disturbed()
    assert not canceller.process(at(-40), at(-26)).any()
    assert canceller.process(at(-10), at(-26)).any()


def test_a_loudspeaker_that_stalls_never_leaves_a_hole_in_the_reference() -> None:
    """What it was not given cannot have sounded: the reading place waits, instead of reading silence ahead of it."""
    clock = ManualClock()
    player = Player(RATE, clock.now)
    reference = Reference(player)
    said = np.arange(1, RATE + 1, dtype=np.int16)
    player.add(said)
    taken: list[Samples] = []
    given = 0
    for frame in range(1, 40):
        clock.t_s = frame * 0.02
        if not 15 <= frame < 20:  # stalled for 0.1 s
            for _ in range(4):
                player.fill(np.zeros((80, 1), np.int16), 0.01, underflowed=frame == 20)
                given += 80
        reference.update()
        taken.append(reference.take(clock.t_s, FRAME_SAMPLES))
    heard = np.concatenate(taken)
    first = int(np.flatnonzero(heard)[0])
    assert np.all(heard[first:] > 0), "a hole"
    assert heard[-1] <= given


async def test_an_underrun_of_the_speaker_is_told_to_the_canceller(monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed: list[float] = []
    monkeypatch.setattr(EchoCanceller, "disturbed", lambda self: disturbed.append(time.monotonic()))
    backend = FakeBackend()
    live = LiveAudio(AudioSettings(echo="webrtc", dead_after_s=30.0), 24_000, LoopClock(), backend=backend)
    frames: Any = live.source.frames()
    try:
        reader = asyncio.create_task(anext(frames))
        speaker, microphone = backend.open_now("output"), backend.open_now("input")
        await asyncio.sleep(0.05)
        speaker.play(2)
        microphone.hear(np.ones(640, np.int16))
        await asyncio.wait_for(reader, 10.0)
        assert disturbed == []
        speaker.play(1, underflowed=True)
        give_up_s = time.monotonic() + 10.0
        while not disturbed:
            assert time.monotonic() < give_up_s
            microphone.hear(np.ones(640, np.int16))
            await asyncio.sleep(0.02)
    finally:
        live.close()
        await frames.aclose()
