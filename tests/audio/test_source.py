"""Sources deliver every sample once, on time, and never drift."""

from __future__ import annotations

import numpy as np
import pytest

from pads_runtime.audio.source import FileSource, SamplesSource
from pads_runtime.clock import ManualClock
from pads_runtime.errors import InputError
from pads_runtime.frames import FRAME_SAMPLES, AudioFrame


class LaggingConsumerClock(ManualClock):
    """Remembers what was waited for."""

    def __init__(self) -> None:
        super().__init__(5.0)
        self.waits: list[float] = []

    async def sleep_until(self, t_s: float) -> None:
        self.waits.append(t_s)
        await super().sleep_until(t_s)


def ramp(count: int) -> np.ndarray:
    return (np.arange(count) % 30_000).astype(np.int16)


async def collect(source: SamplesSource) -> list[AudioFrame]:
    return [frame async for frame in source.frames()]


@pytest.mark.parametrize("count", [1, 320, 321, 16_000, 16_123])
async def test_the_samples_fed_equal_the_source_and_the_last_frame_is_padded(count: int) -> None:
    samples = ramp(count) + 1
    frames = await collect(SamplesSource(samples, ManualClock()))
    fed = np.concatenate([frame.samples for frame in frames])
    np.testing.assert_array_equal(fed[:count], samples)
    assert not fed[count:].any()
    assert len(fed) % FRAME_SAMPLES == 0
    assert [frame.index for frame in frames] == list(range(len(frames)))


async def test_frame_k_is_due_k_plus_one_frames_after_the_start() -> None:
    clock = LaggingConsumerClock()
    frames = await collect(SamplesSource(ramp(320 * 100), clock))
    assert [frame.end_s for frame in frames] == pytest.approx([5.0 + (k + 1) * 0.02 for k in range(100)], abs=1e-12)
    assert clock.waits == [frame.end_s for frame in frames]


async def test_a_consumer_that_lags_does_not_make_the_source_drift() -> None:
    clock = LaggingConsumerClock()
    seen = []
    async for frame in SamplesSource(ramp(320 * 50), clock).frames():
        if frame.index == 10:
            clock.t_s += 0.3
        seen.append((frame.end_s, clock.now()))
    assert seen[-1][0] == pytest.approx(5.0 + 1.0)
    assert seen[-1][1] == pytest.approx(5.0 + 1.0)
    assert all(now >= end for end, now in seen)


async def test_a_minute_of_frames_ends_exactly_on_the_minute() -> None:
    source = SamplesSource(np.zeros(60 * 320 * 50, dtype=np.int16), ManualClock())
    frames = await collect(source)
    assert frames[-1].end_s == 60.0
    assert source.duration_s == 60.0


def test_samples_of_another_kind_are_refused() -> None:
    with pytest.raises(InputError):
        SamplesSource(np.zeros(10), ManualClock())


def test_a_missing_file_is_refused_before_the_first_frame() -> None:
    with pytest.raises(InputError):
        FileSource("/nowhere/none.wav", ManualClock())
