"""A whole LiveAudio over fake devices: refusing ones, dead ones, slow models beside it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from pads_runtime.audio.fake import PAIR, FakeBackend, default, fact
from pads_runtime.audio.live import LiveAudio
from pads_runtime.audio.protocol import LateSink
from pads_runtime.clock import LoopClock
from pads_runtime.config import AudioSettings
from pads_runtime.errors import DeviceError
from pads_runtime.frames import AudioFrame

RATE, VOICE_RATE = 16_000, 24_000
CALM = AudioSettings(echo="off", dead_after_s=30.0)
"""No device is lost in a test of something else, however busy the machine."""
QUICK = AudioSettings(echo="off", dead_after_s=0.3)


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(4).integers(-9000, 9000, count, dtype=np.int16)


class Talk:
    """A LiveAudio whose frames and events are collected while the test drives the fake devices."""

    def __init__(self, backend: FakeBackend, settings: AudioSettings = CALM) -> None:
        self.backend = backend
        self.frames: list[AudioFrame] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.clock = LoopClock()
        self.live = LiveAudio(
            settings, VOICE_RATE, self.clock, backend=backend, on_event=lambda kind, **f: self.events.append((kind, f))
        )
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self.live.source.frames():
            self.frames.append(frame)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_s = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < give_up_s, f"never happened: {what}"
            self.keep_speaker_alive()
            await asyncio.sleep(0.01)

    def keep_speaker_alive(self) -> None:
        stream = self.backend.open_now("output")
        if not stream.closed:
            stream.play(1)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def back(self, direction: str) -> bool:
        """Whether a device of that direction was lost and has returned."""
        return any(kind == "device_reopened" and f["direction"] == direction for kind, f in self.events)


@pytest.fixture
async def talk() -> AsyncIterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def make(*args: Any, **kwargs: Any) -> Talk:
        made.append(Talk(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        await asyncio.to_thread(one.live.close)
        await asyncio.wait_for(one.task, 5.0)


async def test_what_the_microphone_hears_arrives_and_what_is_written_sounds(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    await asyncio.sleep(0.05)
    said = noise(1600)
    t.backend.open_now("input").hear(said)
    await t.until(lambda: len(t.frames) >= 5, "five frames")
    assert np.array_equal(np.concatenate([f.samples for f in t.frames]), said)
    spoken = noise(2400)
    t.live.sink.write(spoken, t.clock.now())
    played = t.backend.open_now("output").play(30)[:, 0]
    assert played.tobytes().find(spoken.tobytes()) >= 0
    assert t.live.sink.flush(t.clock.now()) == 2400
    assert isinstance(t.live.sink, LateSink)
    json.dumps(asdict(t.live.status()))


async def test_devices_that_refuse_our_formats_are_opened_at_their_own_and_resampled(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend(takes={(48_000, 2)}))
    await asyncio.sleep(0.05)
    times = np.arange(48_000) / 48_000
    t.backend.open_now("input").hear((8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16))
    await t.until(lambda: len(t.frames) >= 45, "45 frames")
    heard = np.concatenate([f.samples for f in t.frames])
    assert np.abs(heard - 8000 * np.sin(2 * np.pi * 440 * np.arange(len(heard)) / RATE))[300:].max() < 40
    t.live.sink.write(np.ones(2400, np.int16) * 1000, t.clock.now())
    played = t.backend.open_now("output").play(12)
    assert np.count_nonzero(np.abs(played[:, 1]) > 500) == 2 * 12 * 240 // 2
    assert t.live.sink.flush(t.clock.now()) == 12 * 240 // 2
    status = t.live.status()
    assert (status.input_rate, status.output_rate) == (48_000, 48_000)


async def test_a_flush_leaves_no_sample_for_the_next_callback_and_counts_what_was_given(
    talk: Callable[..., Talk],
) -> None:
    t = talk(FakeBackend())
    stream = t.backend.open_now("output")
    t.live.sink.write(np.full(24_000, 7, np.int16), t.clock.now())
    before = int((stream.play(33, delay_s=0.015) == 7).sum())
    assert t.live.sink.flush(t.clock.now()) == before
    # A block is 5 ms, and what the device holds back at most 20: silence before the 20 ms are over.
    assert not stream.play(10).any()
    assert stream.restarts == 0


async def test_a_speaker_with_a_deep_buffer_is_restarted_by_a_flush(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    stream = t.backend.open_now("output")
    t.live.sink.write(noise(24_000), t.clock.now())
    stream.play(60, delay_s=0.4)
    assert t.live.sink.flush(t.clock.now()) < 60 * 120
    await t.until(lambda: stream.restarts == 1, "the restart")


async def test_a_silent_microphone_is_told_reopened_and_the_source_goes_on_meanwhile(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend(), QUICK)
    first = t.backend.open_now("input")
    await asyncio.sleep(0.05)
    first.hear(noise(320))
    t.backend.refuses["Built-in Microphone"] = "gone"
    await t.until(lambda: "device_lost" in t.kinds(), "the loss")
    assert t.events[0][1] == {
        "direction": "input",
        "device": "Built-in Microphone",
        "reason": "no sound from the system for 0.3 s",
    }
    assert not t.live.status().input_alive
    count = len(t.frames)
    await t.until(lambda: len(t.frames) > count + 10, "silence in place of the microphone")
    assert not t.frames[-1].samples.any()
    assert t.clock.now() - t.frames[-1].end_s < 0.5
    t.backend.refuses.clear()
    await t.until(lambda: "device_reopened" in t.kinds(), "the return")
    again = t.backend.open_now("input")
    assert again is not first
    assert first.closed
    for _ in range(10):
        again.hear(noise(160))
        await asyncio.sleep(0.01)
    await t.until(lambda: bool(t.frames[-1].samples.any()), "sound again")
    assert t.live.status().reopened == 1
    assert all(b.index > a.index and b.end_s > a.end_s for a, b in zip(t.frames, t.frames[1:], strict=False))


async def test_a_device_that_stays_away_is_looked_for_in_a_fresh_list(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend(), QUICK)
    speaker = t.backend.open_now("output")
    t.backend.listed = (default(fact(0, "Built-in Speaker", outputs=2)),)
    t.backend.open_now("input").running = False
    await t.until(lambda: t.backend.rescans > 0, "the rescan")
    assert speaker.closed  # PortAudio cannot look anew while a stream is open
    t.backend.listed = (*t.backend.listed, default(fact(1, "USB Headset", inputs=1)))
    await t.until(lambda: t.back("input"), "another microphone")
    assert t.live.status().input_device == "USB Headset"
    assert t.live.status().output_alive


async def test_a_speaker_lost_in_a_reply_counts_what_was_heard_and_the_talk_goes_on(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend(), QUICK)
    t.live.sink.write(noise(24_000), t.clock.now())
    stream = t.backend.open_now("output")
    stream.play(100, delay_s=0.0)
    t.backend.refuses["Built-in Speaker"] = "gone"
    stream.running = False
    await t.until(lambda: not t.live.sink.pending_s(t.clock.now()), "the end of the unheard reply")
    # Nothing of it is waiting any more, and a new phrase takes its time without being heard.
    now_s = t.clock.now()
    assert t.live.sink.write(noise(2400), now_s) == pytest.approx(now_s + 0.1)
    assert t.live.sink.flush(now_s) <= 100 * 120
    t.backend.refuses.clear()
    await t.until(lambda: t.back("output"), "the return")
    t.live.sink.write(np.full(240, 5, np.int16), t.clock.now())
    assert (t.backend.open_now("output").play(4)[:, 0] == 5).sum() == 240


async def test_a_speaker_that_returns_at_another_rate_plays_on(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    t.backend.takes = {(48_000, 1), (RATE, 1)}
    t.backend.open_now("output").running = False
    await t.until(lambda: t.back("output"), "the return")
    assert t.live.status().output_rate == 48_000
    t.live.sink.write(np.full(2400, 1000, np.int16), t.clock.now())
    assert np.count_nonzero(np.abs(t.backend.open_now("output").play(30)) > 100) == pytest.approx(4800, abs=8)


class SlowModel:
    """Stands in for the canceller and computes until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.reduction_db = None

    def disturbed(self) -> None:
        pass

    def process(self, heard: np.ndarray, played: np.ndarray) -> np.ndarray:
        self.entered.set()
        self.let_go.wait(10.0)
        return heard


async def test_callbacks_return_while_a_model_computes_and_nothing_is_lost(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    t.live._canceller = model = SlowModel()  # type: ignore[assignment]
    await asyncio.sleep(0.05)
    said = noise(16_000)
    t.backend.open_now("input").hear(said[:640])
    await t.until(model.entered.is_set, "the model at work")
    t.backend.open_now("input").hear(said[640:])  # returns though the model has not
    assert (t.backend.open_now("output").play(10) == 0).all()
    assert not model.let_go.is_set()
    model.let_go.set()
    await t.until(lambda: len(t.frames) == 50, "a second of frames")
    assert np.array_equal(np.concatenate([f.samples for f in t.frames]), said)
    assert t.live.status().input_overruns == 0


async def test_the_age_of_a_frame_is_bounded_when_the_event_loop_stands_still(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend(), CALM.model_copy(update={"queue_frames": 10}))
    await asyncio.sleep(0.05)
    for _ in range(40):
        t.backend.open_now("input").hear(noise(320))
        time.sleep(0.02)  # noqa: ASYNC251  the loop stands still while the microphone goes on
    await asyncio.sleep(0.2)
    assert len(t.frames) <= 13
    assert t.frames[-1].index - t.frames[0].index < 13 or t.frames[0].index == 0
    assert t.live.status().frames_lost >= 27
    assert t.clock.now() - t.frames[-10].end_s < 1.0


async def test_overruns_and_underruns_are_counted_and_told(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    await asyncio.sleep(0.05)
    t.backend.open_now("input").hear(noise(160), overflowed=True)
    t.backend.open_now("output").play(1, underflowed=True)
    await t.until(lambda: {"audio_overrun", "audio_underrun"} <= set(t.kinds()), "both events")
    assert (t.live.status().input_overruns, t.live.status().output_underruns) == (1, 1)


async def test_a_stumbling_speaker_is_opened_deeper_but_not_while_it_speaks(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    await asyncio.sleep(0.05)
    first = t.backend.open_now("output")
    t.live.sink.write(noise(24_000), t.clock.now())
    first.play(8, underflowed=True)
    await t.until(lambda: "audio_underrun" in t.kinds(), "the count")
    await asyncio.sleep(0.15)
    assert t.backend.open_now("output") is first
    t.live.sink.flush(t.clock.now())
    await t.until(lambda: "speaker_buffer_deepened" in t.kinds(), "the deeper buffer")
    again = t.backend.open_now("output")
    assert first.closed
    assert again.form.latency_s == pytest.approx(2 * first.form.latency_s)
    t.live.sink.write(np.full(240, 5, np.int16), t.clock.now())
    assert (again.play(4)[:, 0] == 5).sum() == 240


async def test_stop_ends_the_source_in_order_and_close_may_come_twice(talk: Callable[..., Talk]) -> None:
    t = talk(FakeBackend())
    await asyncio.sleep(0.05)
    t.live.stop()
    t.live.stop()
    await asyncio.wait_for(t.task, 5.0)
    await asyncio.to_thread(t.live.close)
    await asyncio.to_thread(t.live.close)
    assert all(stream.closed for stream in t.backend.streams)


async def test_where_the_speaker_cannot_be_opened_the_microphone_is_closed_again() -> None:
    backend = FakeBackend(refuses={"Built-in Speaker": "speaker 'Built-in Speaker' is busy: another program uses it"})
    with pytest.raises(DeviceError, match="is busy"):
        LiveAudio(QUICK, VOICE_RATE, LoopClock(), backend=backend)
    assert all(stream.closed for stream in backend.streams)


@pytest.mark.parametrize(
    ("setting", "speaker", "mode"),
    [
        ("auto", "Built-in Speaker", "webrtc"),
        ("auto", "USB Headset", "headset"),
        ("auto", "Sony bluez headphones", "headset"),
        ("off", "Built-in Speaker", "off"),
        ("webrtc", "USB Headset", "webrtc"),
    ],
)
async def test_the_echo_mode_is_what_is_set_or_what_the_devices_suggest(
    talk: Callable[..., Talk], setting: Any, speaker: str, mode: str
) -> None:
    listed = (PAIR[0], default(fact(1, speaker, outputs=2)))
    status = talk(FakeBackend(listed), AudioSettings(echo=setting)).live.status()
    assert status.echo == mode
    assert status.echo_why
