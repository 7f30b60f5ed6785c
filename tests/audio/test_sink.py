"""The sink's timeline: what was written, when it sounded, what a flush cut."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pads_runtime.audio.sink import WavSink, write_conversation
from pads_runtime.errors import InputError

RATE = 24_000


def block(value: int, seconds: float, rate: int = RATE) -> np.ndarray:
    return np.full(round(seconds * rate), value, dtype=np.int16)


def sine(rate: int, seconds: float) -> np.ndarray:
    return (8_000 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate)) / rate)).astype(np.int16)


def test_writes_queue_behind_each_other_and_silence_fills_the_rest() -> None:
    sink = WavSink(RATE)
    assert sink.write(block(1, 0.5), 1.0) == pytest.approx(1.5)
    assert sink.write(block(2, 0.5), 1.1) == pytest.approx(2.0)
    assert sink.write(block(3, 0.1), 3.0) == pytest.approx(3.1)
    played = sink.render(3.2)
    assert len(played) == round(3.2 * RATE)
    for value, start, end in ((0, 0, 1.0), (1, 1.0, 1.5), (2, 1.5, 2.0), (0, 2.0, 3.0), (3, 3.0, 3.1), (0, 3.1, 3.2)):
        assert set(played[round(start * RATE) : round(end * RATE)]) == {value}


def test_a_flush_cuts_what_has_not_sounded_and_counts_what_has() -> None:
    sink = WavSink(RATE)
    sink.write(block(1, 1.0), 0.0)
    sink.write(block(2, 1.0), 0.0)
    assert sink.flush(1.4) == round(1.4 * RATE)
    assert set(sink.render(2.0)[round(1.4 * RATE) :]) == {0}
    assert sink.write(block(3, 0.2), 1.5) == pytest.approx(1.7)
    assert sink.flush(5.0) == round(0.2 * RATE)
    assert sink.flush(6.0) == 0


def test_a_flush_before_the_first_sample_plays_nothing() -> None:
    sink = WavSink(RATE)
    sink.write(block(1, 1.0), 2.0)
    assert sink.flush(2.0) == 0
    assert not sink.render(3.0).any()
    assert sink.write(block(1, 1.0), 2.0) == pytest.approx(3.0)


def test_a_flush_at_the_returned_end_has_played_every_sample() -> None:
    sink = WavSink(22_050)
    now = 0.1234567
    end = sink.write(np.ones(12_345, dtype=np.int16), now)
    assert sink.flush(end) == 12_345


def test_writing_in_chunks_equals_writing_the_whole() -> None:
    voice = sine(RATE, 1.0)
    whole, chunked = WavSink(RATE), WavSink(RATE)
    whole.write(voice, 0.3)
    for first in range(0, len(voice), 777):
        chunked.write(voice[first : first + 777], 0.3)
    np.testing.assert_array_equal(whole.render(2.0), chunked.render(2.0))
    np.testing.assert_array_equal(whole.window(0.2, 1.5), chunked.window(0.2, 1.5))


@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000, 48_000])
def test_the_window_is_the_played_voice_at_16_khz(rate: int) -> None:
    sink = WavSink(rate)
    sink.write(sine(rate, 2.0), 1.0)
    heard = sink.window(1.5, 2.5).astype(int)
    assert np.abs(heard - sine(16_000, 2.0)[8_000:24_000].astype(int)).max() <= 3
    assert not sink.window(0.0, 0.9).any()


def test_windows_that_touch_join_without_a_seam() -> None:
    sink = WavSink(RATE)
    sink.write(sine(RATE, 2.0), 0.5)
    edges = np.round(np.arange(0.4, 2.6, 0.137), 6)
    pieces = [sink.window(a, b) for a, b in itertools.pairwise(edges)]
    whole = sink.window(edges[0], edges[-1])
    joined = np.concatenate(pieces)
    assert len(joined) == len(whole)
    assert np.abs(joined.astype(int) - whole.astype(int)).max() <= 1


def test_memory_is_bounded_when_only_the_recent_past_is_kept() -> None:
    sink = WavSink(RATE, keep_s=10.0)
    for minute in range(60):
        sink.write(block(1, 5.0), 60.0 * minute)
    assert len(sink._pieces) <= 2
    assert sink.flush(60.0 * 60) == 60 * 5 * RATE


def test_a_rate_that_does_not_divide_into_frames_is_refused() -> None:
    with pytest.raises(InputError):
        WavSink(11_025 + 1)


@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000])
def test_the_conversation_has_the_user_left_and_the_agent_right_at_equal_length(tmp_path: Path, rate: int) -> None:
    user, agent = sine(16_000, 23.0), block(5_000, 11.0, rate)
    write_conversation(tmp_path / "conversation.wav", user, agent, rate)
    heard, heard_rate = soundfile.read(tmp_path / "conversation.wav", dtype="int16")
    assert heard_rate == rate
    assert heard.shape == (23 * rate, 2)
    np.testing.assert_array_equal(heard[: len(agent), 1], agent)
    assert not heard[len(agent) :, 1].any()
    middle = slice(rate, 22 * rate)
    assert np.abs(heard[middle, 0].astype(int) - sine(rate, 23.0)[middle].astype(int)).max() <= 8
    assert [p.name for p in tmp_path.iterdir()] == ["conversation.wav"]


def test_an_agent_that_talks_longer_than_the_user_is_not_cut(tmp_path: Path) -> None:
    write_conversation(tmp_path / "c.wav", sine(16_000, 1.0), block(7, 3.0), RATE)
    heard, _ = soundfile.read(tmp_path / "c.wav", dtype="int16")
    assert heard.shape == (3 * RATE, 2)
    assert set(heard[:, 1]) == {7}


def test_a_folder_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_conversation(tmp_path / "none" / "c.wav", sine(16_000, 0.1), block(0, 0.1), RATE)
    assert "\n" not in str(caught.value)
