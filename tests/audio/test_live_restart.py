"""A loudspeaker that is restarted to cut what it holds back has not gone away."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from pads_runtime.audio.fake import FakeBackend
from pads_runtime.audio.live import LiveAudio
from pads_runtime.clock import LoopClock
from pads_runtime.config import AudioSettings


async def test_a_restarted_speaker_is_not_taken_for_lost() -> None:
    backend, told = FakeBackend(), list[tuple[str, dict[str, Any]]]()
    clock = LoopClock()
    settings = AudioSettings(echo="off", dead_after_s=1.0)
    live = LiveAudio(settings, 24_000, clock, backend=backend, on_event=lambda kind, **f: told.append((kind, f)))
    reader = asyncio.create_task(anext(live.source.frames()))
    try:
        stream = backend.open_now("output")
        while clock.now() < 1.2:  # longer than a device may be silent
            stream.play(1)
            await asyncio.sleep(0.02)
        live.sink.write(np.ones(24_000, np.int16), clock.now())
        stream.play(60, delay_s=0.4)
        live.sink.flush(clock.now())
        give_up_s = time.monotonic() + 10.0
        while not stream.restarts:
            assert time.monotonic() < give_up_s
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)  # it is looked after every 50 ms
        assert [fields for kind, fields in told if kind == "device_lost" and fields["direction"] == "output"] == []
        assert stream.restarts == 1
        assert not stream.closed
    finally:
        live.close()
        reader.cancel()
        await asyncio.wait({reader})
