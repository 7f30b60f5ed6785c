"""The parts between a device and the session, driven with plain numbers."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from pads_runtime.audio.framing import FrameMaker
from pads_runtime.audio.live_source import LiveSource
from pads_runtime.audio.microphone import Microphone
from pads_runtime.audio.player import Player
from pads_runtime.audio.reference import Reference
from pads_runtime.audio.resample import UnitResampler
from pads_runtime.audio.ring import Ring
from pads_runtime.audio.stream_clock import StreamClock
from pads_runtime.audio.timing import CallbackTimes, p99_ms
from pads_runtime.audio.watch import LONGEST_LATENCY_S, Buffer, Line
from pads_runtime.clock import ManualClock
from pads_runtime.errors import DeviceError
from pads_runtime.frames import AudioFrame

RATE = 16_000


def noise(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9000, 9000, count, dtype=np.int16)


# ---------------------------------------------------------------- ring


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=40))
@settings(deadline=None, max_examples=40)
def test_what_is_read_from_a_ring_is_what_was_written_less_what_it_says_was_lost(steps: list) -> None:
    ring, sent, got, lost = Ring(64, 1), [], [], 0
    for count, reads in steps:
        block = np.arange(len(sent), len(sent) + count, dtype=np.int16)
        sent += list(block)
        ring.write(block[:, None])
        if reads:
            data, missed = ring.read()
            got += [None] * missed + list(data[:, 0])
            lost += missed
            assert len(got) == len(sent)
    assert [a for a, b in zip(sent, got, strict=False) if b is not None and a != b] == []
    assert lost == got.count(None)


def test_a_ring_keeps_the_newest_when_the_reader_is_too_slow() -> None:
    ring = Ring(10, 2)
    for first in range(0, 30, 5):
        ring.write(np.repeat(np.arange(first, first + 5, dtype=np.int16)[:, None], 2, axis=1))
    data, lost = ring.read()
    assert lost == 20
    assert data[:, 1].tolist() == list(range(20, 30))


# ---------------------------------------------------------------- times


def test_arrivals_late_by_any_jitter_do_not_move_a_clock_that_trusts_the_earliest() -> None:
    clock, rng = StreamClock(RATE, "earliest"), np.random.default_rng(3)
    late = rng.exponential(0.02, 200)
    late[::10] = 0.0
    for k, delay in enumerate(late):
        clock.observe(160 * (k + 1), 5.0 + 0.01 * (k + 1) + delay)
    assert clock.time_of(160 * 200) == pytest.approx(7.0, abs=1e-9)


def test_a_device_that_runs_slow_is_followed() -> None:
    clock = StreamClock(RATE, "earliest")
    for k in range(6_000):  # a minute, a thousandth slower than said
        clock.observe(160 * k, 0.01 * k * 1.001)
    assert clock.time_of(160 * 5_999) == pytest.approx(59.99 * 1.001, abs=0.002)


@pytest.mark.parametrize(
    "rates", [(48_000, 16_000), (44_100, 16_000), (24_000, 16_000), (22_050, 16_000), (8_000, 16_000)]
)
def test_a_stream_resampled_in_pieces_equals_the_whole_resampled_at_once(rates: tuple[int, int]) -> None:
    rate_in, rate_out = rates
    samples, rng = noise(rate_in), np.random.default_rng(2)
    resampler, pieces, at = UnitResampler(rate_in, rate_out, 0.01), [], 0
    while at < len(samples):
        step = int(rng.integers(1, 700))
        pieces.append(resampler.push(samples[at : at + step]))
        at += step
    streamed = np.concatenate(pieces)
    whole = soxr.resample(samples.astype(np.float32), rate_in, rate_out, quality="HQ")[: len(streamed)]
    assert len(streamed) > rate_out * 0.93
    # What comes before the first sample is nobody's: soxr guesses it, the stream takes silence.
    assert np.abs(streamed - np.clip(whole, -32768, 32767))[100:].max() <= 1.0


def test_equal_rates_pass_samples_through_untouched() -> None:
    samples = noise(123)
    assert UnitResampler(RATE, RATE, 0.01).push(samples) is samples


# ---------------------------------------------------------------- frames


def test_frames_hold_the_samples_in_order_with_times_that_end_them() -> None:
    maker, samples = FrameMaker(), noise(3200)
    made = [f for k in range(20) for f in maker.push(samples[160 * k : 160 * (k + 1)], 1.0 + 0.01 * (k + 1))]
    assert np.array_equal(np.concatenate([f.samples for f in made]), samples)
    assert [f.index for f in made] == list(range(10))
    assert [f.end_s for f in made] == pytest.approx([1.02 + 0.02 * k for k in range(10)])


def test_missing_audio_is_a_gap_in_the_numbers_and_counted() -> None:
    maker = FrameMaker()
    first = maker.push(noise(320), 0.02)
    later = maker.push(noise(320), 1.04)  # one second is missing
    assert later[0].index - first[0].index == 51
    assert later[0].end_s == pytest.approx(1.04)
    assert maker.frames_lost == 50


def test_silence_stands_in_for_a_dead_microphone_and_time_goes_on() -> None:
    maker = FrameMaker()
    maker.push(noise(320), 1.0)
    dead = [f for k in range(100) for f in maker.silence(3.0 + 0.005 * k)]
    assert dead[0].index == 101 - 1  # two seconds are a gap, not a burst of a hundred frames
    assert [b.index - a.index for a, b in pairwise(dead)] == [1] * (len(dead) - 1)
    assert not any(f.samples.any() for f in dead)
    assert dead[-1].end_s == pytest.approx(3.495, abs=0.021)


def test_audio_that_comes_after_silence_stood_in_for_it_is_dropped() -> None:
    maker = FrameMaker()
    maker.push(noise(320), 1.0)
    last = maker.silence(4.0)[-1]
    assert maker.push(noise(3200), 1.2) == []
    again = maker.push(noise(320), 4.03)
    assert again[0].index == last.index + 1
    assert again[0].end_s > last.end_s


def test_a_stream_that_begins_with_a_burst_loses_nothing_and_its_times_settle() -> None:
    maker, samples = FrameMaker(), noise(RATE * 3)
    made = maker.push(samples[:320], 1.0)  # it came a second late, as is seen only later
    for k in range(1, 150):
        made += maker.push(samples[320 * k : 320 * (k + 1)], 0.02 * (k + 1))
    assert np.array_equal(np.concatenate([f.samples for f in made]), samples)
    assert [f.index for f in made] == list(range(150))
    assert made[-1].end_s == pytest.approx(3.0, abs=0.1)


@given(st.lists(st.tuples(st.sampled_from([80, 160, 441, 1600]), st.floats(-0.3, 0.3)), min_size=1, max_size=60))
@settings(deadline=None)
def test_whatever_times_are_observed_a_frames_time_and_number_only_grow(pushes: list) -> None:
    maker, at, made = FrameMaker(), 0, []
    for count, error_s in pushes:
        at += count
        made += maker.push(np.zeros(count, np.int16), at / RATE + error_s)
    assert all(b.index > a.index and b.end_s > a.end_s for a, b in pairwise(made))


# ---------------------------------------------------------------- microphone


def hear(microphone: Microphone, clock: ManualClock, samples: np.ndarray, rate: int, channels: int = 1) -> list:
    """Ten-ms callbacks with the clock moving along, collected after each."""
    maker, made, block = FrameMaker(), [], rate // 100
    for first in range(0, len(samples) - block + 1, block):
        clock.t_s += 0.01
        microphone.hear(np.repeat(samples[first : first + block, None], channels, axis=1), False)
        made += microphone.collect(maker)
    return made


def test_a_microphone_at_16_khz_gives_every_sample_it_heard() -> None:
    clock, samples = ManualClock(3.0), noise(RATE)
    made = hear(Microphone(RATE, 1, clock.now, CallbackTimes()), clock, samples, RATE)
    assert np.array_equal(np.concatenate([f.samples for f in made]), samples)
    assert made[-1].end_s == pytest.approx(4.0)


@pytest.mark.parametrize(("rate", "channels"), [(48_000, 2), (44_100, 1), (22_050, 2)])
def test_a_microphone_at_another_rate_is_resampled_with_right_content_and_times(rate: int, channels: int) -> None:
    clock = ManualClock(3.0)
    times = np.arange(rate * 2) / rate
    tone = (8000 * np.sin(2 * np.pi * 440.0 * times) * (times >= 1.0)).astype(np.int16)
    block = rate // 100
    made = hear(
        Microphone(rate, channels, clock.now, CallbackTimes()),
        clock,
        tone[: len(tone) // block * block],
        rate,
        channels,
    )
    heard = np.concatenate([f.samples for f in made])
    expected = 8000 * np.sin(2 * np.pi * 440.0 * (np.arange(len(heard)) / RATE)) * (np.arange(len(heard)) >= RATE)
    assert np.abs(heard - expected)[RATE + 200 :].max() < 40
    onset_s = next(f.end_s for f in made if np.abs(f.samples).max() > 2000)
    assert onset_s == pytest.approx(3.0 + 1.02 * (rate // 100 * 100) / rate, abs=0.021)


def test_a_microphone_whose_reader_sleeps_counts_the_overrun_and_leaves_a_gap() -> None:
    clock = ManualClock()
    microphone, maker = Microphone(RATE, 1, clock.now, CallbackTimes()), FrameMaker()
    for _ in range(500):  # five seconds, of which the ring holds two
        clock.t_s += 0.01
        microphone.hear(noise(160)[:, None], False)
        if clock.t_s < 0.5:
            microphone.collect(maker)
    made = microphone.collect(maker)
    assert microphone.overruns == 1
    assert len(made) == pytest.approx(100, abs=1)
    assert maker.frames_lost == pytest.approx(125, abs=3)
    assert made[-1].end_s == pytest.approx(5.0, abs=0.03)


# ---------------------------------------------------------------- player and reference


def play(player: Player, clock: ManualClock, blocks: int, size: int = 120, delay_s: float = 0.015) -> np.ndarray:
    out = []
    for _ in range(blocks):
        block = np.full((size, 2), 99, dtype=np.int16)
        player.fill(block, delay_s, False)
        clock.t_s += size / player.rate
        out.append(block)
    return np.concatenate(out)


def test_a_player_plays_every_sample_once_in_order_on_all_channels_and_silence_after() -> None:
    clock, samples = ManualClock(), noise(1000)
    player = Player(24_000, clock.now)
    player.add(samples[:333])
    player.add(samples[333:])
    played = play(player, clock, 10)
    assert np.array_equal(played[:1000, 0], samples)
    assert np.array_equal(played[:, 0], played[:, 1])
    assert not played[1000:].any()


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 6)), max_size=12))
@settings(deadline=None)
def test_what_a_cut_reports_is_what_the_device_was_given_and_nothing_of_it_comes_after(steps: list) -> None:
    clock = ManualClock()
    player = Player(24_000, clock.now)
    given_out = 0
    for count, blocks in steps:
        player.add(np.full(count, 5, np.int16))
        given_out += int((play(player, clock, blocks)[:, 0] == 5).sum()) if blocks else 0
    assert player.cut() == (given_out, False)
    assert not play(player, clock, 4).any()
    assert player.cut() == (0, False)


def test_a_device_that_holds_back_much_is_restarted_and_its_account_is_taken() -> None:
    clock = ManualClock()
    player = Player(24_000, clock.now)
    player.add(noise(24_000))
    play(player, clock, 100, delay_s=0.2)  # half a second given, of which the last 200 ms have not sounded
    heard, restart = player.cut()
    assert restart
    assert heard == pytest.approx(0.3 * 24_000, abs=1)


def test_a_reply_that_has_sounded_whole_needs_no_restart() -> None:
    clock = ManualClock()
    player = Player(24_000, clock.now)
    player.add(noise(2400))
    play(player, clock, 100, delay_s=0.2)
    assert player.cut() == (2400, False)


def test_the_end_is_told_before_and_while_it_plays() -> None:
    clock = ManualClock(10.0)
    player = Player(24_000, clock.now)
    player.add(noise(24_000))
    assert player.ends_s(10.0) == pytest.approx(11.0)  # nothing is known of the device yet
    play(player, clock, 1, delay_s=0.03)
    assert player.ends_s(clock.now()) == pytest.approx(11.03)
    play(player, clock, 150, delay_s=0.03)
    assert player.ends_s(clock.now()) == pytest.approx(11.03)


def test_what_a_lost_speaker_had_not_sounded_does_not_count_as_heard() -> None:
    clock = ManualClock()
    player = Player(24_000, clock.now)
    player.add(noise(24_000))
    play(player, clock, 100, delay_s=0.1)
    player.interrupted()
    player.discard()
    assert player.cut() == (pytest.approx(0.4 * 24_000, abs=1), False)


def test_speech_beyond_all_measure_is_refused_instead_of_kept() -> None:
    player = Player(100, ManualClock().now)
    player.add(np.zeros(29_000, np.int16))
    with pytest.raises(DeviceError, match="300 s of speech waiting"):
        player.add(np.zeros(1_001, np.int16))


@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_the_reference_tells_what_sounded_when(rate: int) -> None:
    clock = ManualClock(5.0)
    player = Player(rate, clock.now)
    reference = Reference(player)
    times = np.arange(rate) / rate
    tone = (8000 * np.sin(2 * np.pi * 300.0 * times)).astype(np.int16)
    player.add(tone)
    for _ in range(300):
        play(player, clock, 1, rate // 200, delay_s=0.02)
        reference.update()
    # It began to sound at 5.02.
    window = reference.window(5.0, 5.3)
    assert not window[:300].any()
    expected = 8000 * np.sin(2 * np.pi * 300.0 * np.arange(len(window) - 320) / RATE)
    assert np.abs(window[320:] - expected)[20:].max() < 60
    joined = np.concatenate([reference.window(5.1, 5.123), reference.window(5.123, 5.2)])
    assert np.array_equal(joined, reference.window(5.1, 5.2))
    assert reference.window(90.0, 90.1).tolist() == [0] * 1600


def test_the_canceller_reads_its_reference_without_a_seam_though_times_wobble() -> None:
    clock, rng = ManualClock(), np.random.default_rng(5)
    player = Player(RATE, clock.now)
    reference = Reference(player)
    samples = noise(RATE * 2)
    player.add(samples)
    taken = []
    for k in range(400):
        play(player, clock, 1, 80, delay_s=0.05 + float(rng.uniform(-0.004, 0.004)))
        reference.update()
        if k % 4 == 3 and k > 40:
            taken.append(reference.take(clock.now() - 0.03 + float(rng.uniform(-0.003, 0.003)), 320))
    heard = np.concatenate(taken)
    assert reference.resyncs == 0
    assert samples.tobytes().find(heard.tobytes()) >= 0


# ---------------------------------------------------------------- source


async def test_a_source_delivers_frames_from_another_thread_until_its_end() -> None:
    loops: list = []
    source = LiveSource(50, loops.append)
    source.feed([AudioFrame(noise(320), 0, 0.02)])  # before anybody listens
    got: list[int] = []

    async def listen() -> None:
        async for frame in source.frames():
            got.append(frame.index)

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)
    for k in range(1, 6):
        await asyncio.to_thread(source.feed, [AudioFrame(noise(320), k, 0.02 * k)])
    await asyncio.to_thread(source.end)
    await asyncio.wait_for(task, 5.0)
    assert got == [1, 2, 3, 4, 5]
    assert loops == [asyncio.get_running_loop()]


async def test_a_slow_consumer_gets_the_newest_frames_and_the_count_of_the_others() -> None:
    source = LiveSource(10, lambda loop: None)
    got: list[int] = []
    frames = source.frames()
    waiting = asyncio.ensure_future(anext(frames))
    await asyncio.sleep(0)
    source.feed(AudioFrame(noise(320), k, 0.02 * k) for k in range(100))
    got.append((await waiting).index)
    source.end()
    got += [frame.index async for frame in frames]
    assert got == list(range(90, 100))
    assert source.frames_lost == 90


async def test_an_audio_thread_that_fails_is_an_error_of_the_source() -> None:
    source = LiveSource(10, lambda loop: None)
    source.end("the audio could not be processed")
    with pytest.raises(DeviceError, match="could not be processed"):
        _ = [frame async for frame in source.frames()]


# ---------------------------------------------------------------- watching


def test_a_device_is_lost_when_nothing_came_for_two_seconds_or_the_system_ended_it() -> None:
    line = Line(2.0)
    line.opened(10.0)
    assert line.verdict(11.9, float("-inf"), True) is None
    assert line.verdict(12.1, float("-inf"), True) == "no sound from the system for 2 s"
    assert line.verdict(14.0, 12.1, True) is None
    assert line.verdict(12.1, 12.1, False) == "the system ended the stream"


def test_a_lost_device_is_tried_at_once_and_then_ever_more_seldom() -> None:
    line, now_s, tries = Line(2.0), 100.0, []
    line.lose(now_s)
    while now_s < 150.0:
        if line.due(now_s):
            tries.append(now_s)
            line.failed(now_s)
        now_s += 0.05
    gaps = np.diff(tries)
    assert tries[0] == 100.0
    assert gaps[:5] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0], abs=0.06)
    assert max(gaps) == pytest.approx(8.0, abs=0.06)
    assert line.opened(151.0) == pytest.approx(51.0)
    assert line.alive


def test_the_99th_percentile_is_over_all_callbacks_kept() -> None:
    a, b = CallbackTimes(), CallbackTimes()
    assert p99_ms(a, b) is None
    for k in range(10_000):
        a.add(0.0001 if k % 50 else 0.004)
    b.add(0.0002)
    assert p99_ms(a, b) == pytest.approx(4.0)


def test_a_speaker_that_stumbles_often_gets_twice_the_buffer_up_to_a_limit() -> None:
    buffer = Buffer(0.01)
    assert [buffer.too_short(count, 100.0 + count) for count in range(6)] == [False] * 5 + [True]
    buffer.deepen()
    assert buffer.latency_s == pytest.approx(0.02)
    assert not buffer.too_short(5, 106.0)
    assert not any(buffer.too_short(6 + k, 200.0 + 11.0 * k) for k in range(20))  # seldom is no reason
    for _ in range(9):
        buffer.deepen()
    assert buffer.latency_s == LONGEST_LATENCY_S
    assert not buffer.too_short(1000, 500.0)
