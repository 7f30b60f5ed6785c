"""What a live talk keeps of its sound."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples
from pads_runtime.recording import LEVEL_S, Recording
from pads_runtime.testing import MemorySink


class Counting:
    """Frames whose samples are the number of the second they are in; ``gap`` leaves seconds out."""

    def __init__(self, seconds: float, gap: tuple[float, float] = (0.0, 0.0)) -> None:
        self._seconds, self._gap = seconds, gap

    async def frames(self) -> AsyncIterator[AudioFrame]:
        for index in range(round(self._seconds / FRAME_S)):
            start_s = index * FRAME_S
            if not self._gap[0] <= start_s < self._gap[1]:
                yield AudioFrame(np.full(FRAME_SAMPLES, int(start_s) + 1, np.int16), index, start_s + FRAME_S)


class Agent(MemorySink):
    """Played minus the number of the second."""

    def window(self, start_s: float, end_s: float) -> Samples:
        times = start_s + np.arange(round((end_s - start_s) * SAMPLE_RATE)) / SAMPLE_RATE
        return (-np.floor(times + 1e-6) - 1).astype(np.int16)


async def heard(recording: Recording) -> int:
    return len([frame async for frame in recording.frames()])


async def test_every_frame_is_passed_on_and_both_sides_are_kept_to_the_sample() -> None:
    recording = Recording(Counting(2.5), Agent(), 60.0, 60.0)
    assert await heard(recording) == 125
    sound = recording.sound(2.5)
    assert sound is not None
    assert (sound.start_s, len(sound.user), len(sound.agent)) == (0.0, 40_000, 40_000)
    assert [sound.user[0], sound.user[16_000], sound.user[-1]] == [1, 2, 3]
    assert [sound.agent[0], sound.agent[16_000], sound.agent[-1]] == [-1, -2, -3]


async def test_only_the_last_seconds_are_kept() -> None:
    recording = Recording(Counting(20.0), Agent(), 5.0, 3.0)
    await heard(recording)
    assert len(recording._blocks) <= 7
    sound = recording.sound(20.0)
    assert sound is not None
    assert sound.start_s >= 17.0
    assert sound.user[-1] == 20


async def test_without_being_asked_no_sound_is_kept_but_how_loud_it_was() -> None:
    recording = Recording(Counting(3.0), Agent(), 60.0, 0.0)
    await heard(recording)
    assert recording.sound(3.0) is None
    assert all(block.user is None and block.agent is None for block in recording._blocks)
    levels = recording.levels(1.0, 3.0)
    assert len(levels["user"]) == len(levels["agent"]) == round(2.0 / LEVEL_S)
    assert levels["user"][0] == levels["agent"][0] == round(2 / 32768, 4)


async def test_a_gap_in_the_microphone_is_silence_at_its_place() -> None:
    recording = Recording(Counting(5.0, gap=(1.0, 3.0)), Agent(), 60.0, 60.0)
    await heard(recording)
    sound = recording.sound(5.0)
    assert sound is not None
    assert len(sound.user) == 5 * SAMPLE_RATE
    assert not sound.user[SAMPLE_RATE : 3 * SAMPLE_RATE].any()
    assert sound.user[3 * SAMPLE_RATE] == 4


async def test_of_a_talk_without_a_frame_nothing_is_kept() -> None:
    recording = Recording(Counting(0.0), Agent(), 60.0, 60.0)
    await heard(recording)
    assert recording.sound(0.0) is None
    assert recording.levels(0.0, 0.0) == {"user": [], "agent": []}
