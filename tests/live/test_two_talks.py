"""Two talks at once on one microphone and one loudspeaker: a sound server lets both, a device of one's own does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.live.rig import Rig
from pads_runtime.audio.fake import FakeBackend
from pads_runtime.audio.live import LiveAudio
from pads_runtime.clock import LoopClock
from pads_runtime.config import AudioSettings
from pads_runtime.errors import DeviceError
from pads_runtime.frames import Samples

SETTINGS = AudioSettings(
    input_device="pads_mic", output_device="pads_speaker", echo="off", output_latency_s=0.06, queue_frames=500
)
VOICE_RATE = 24_000


class Listening:
    """One talk's devices, and what it hears."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.live = LiveAudio(SETTINGS, VOICE_RATE, self.clock)
        self._frames: list[Samples] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self.live.source.frames():
            self._frames.append(frame.samples)

    def heard(self, part: Samples) -> bool:
        return bool(self._frames) and part.tobytes() in np.concatenate(self._frames).tobytes()

    async def close(self) -> None:
        await asyncio.to_thread(self.live.close)
        await asyncio.wait_for(self._task, 5.0)


async def soon(condition: Callable[[], Any], do: Callable[[], Any], what: str) -> None:
    """Do it until it shows; a busy machine may put a gap into what sounds."""
    for _ in range(4):
        do()
        give_up_s = time.monotonic() + 5.0
        while time.monotonic() < give_up_s:
            if condition():
                return
            await asyncio.sleep(0.05)
    raise AssertionError(f"never happened: {what}")


def noise(seed: int) -> Samples:
    return np.random.default_rng(seed).integers(-8000, 8000, 3200).astype(np.int16)


@pytest.mark.slow
async def test_both_hear_and_speak_and_the_end_of_one_leaves_the_other_alone(rig_here: Rig) -> None:
    first, second = Listening(), Listening()
    try:
        with rig_here.record("speaker") as recording:

            async def speaks(one: Listening, seed: int) -> None:
                def say() -> None:
                    one.live.sink.write(noise(seed), one.clock.now())

                await soon(lambda: recording.heard_from(noise(seed)) is not None, say, f"{seed} is heard to speak")

            for one in (first, second):
                await soon(lambda one=one: one.heard(noise(1)), lambda: rig_here.play(noise(1)), "the user is heard")
            await speaks(first, 2)
            await speaks(second, 3)
            await first.close()
            await speaks(second, 4)
        await soon(lambda: second.heard(noise(5)), lambda: rig_here.play(noise(5)), "the other one still hears")
    finally:
        await asyncio.gather(first.close(), second.close())


async def test_a_device_that_another_talk_has_to_itself_is_one_line() -> None:
    backend = FakeBackend()
    first = LiveAudio(AudioSettings(echo="off"), VOICE_RATE, LoopClock(), backend=backend)
    backend.refuses["Built-in Speaker"] = (
        "loudspeaker 'Built-in Speaker' is busy: another program uses it; close that program or choose another device"
    )
    try:
        with pytest.raises(DeviceError, match="is busy: another program uses it") as told:
            LiveAudio(AudioSettings(echo="off"), VOICE_RATE, LoopClock(), backend=backend)
        assert "\n" not in str(told.value)
        assert backend.streams[-1].closed, "the second microphone is given back"
        assert not backend.streams[0].closed, "the first talk goes on"
    finally:
        first.close()
