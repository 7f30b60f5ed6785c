"""Recordings of every kind come in as the same samples, and rubbish is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pads_runtime.audio.files import read_audio
from pads_runtime.errors import InputError


def tone(rate: int, seconds: float = 1.0, hz: float = 440.0, level: float = 0.5) -> np.ndarray:
    t = np.arange(round(rate * seconds)) / rate
    return level * np.sin(2 * np.pi * hz * t)


def refusal(path: Path, channel: str = "mix") -> str:
    with pytest.raises(InputError) as caught:
        read_audio(path, channel)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_a_16_khz_int16_file_comes_back_sample_for_sample(tmp_path: Path) -> None:
    source = np.random.default_rng(1).integers(-32768, 32768, 50_001).astype(np.int16)
    for name in ("a.wav", "a.flac"):
        soundfile.write(tmp_path / name, source, 16_000, subtype="PCM_16")
        np.testing.assert_array_equal(read_audio(tmp_path / name), source)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 48_000])
@pytest.mark.parametrize("kind", [("wav", "PCM_16"), ("wav", "FLOAT"), ("flac", "PCM_24"), ("ogg", "VORBIS")])
def test_any_rate_and_format_becomes_the_same_tone_at_16_khz(tmp_path: Path, rate: int, kind: tuple[str, str]) -> None:
    path = tmp_path / f"a.{kind[0]}"
    soundfile.write(path, tone(rate), rate, subtype=kind[1])
    heard = read_audio(path).astype(float) / 32768
    assert abs(len(heard) - 16_000) <= 1
    middle = slice(2_000, 14_000)
    assert np.abs(heard[middle] - tone(16_000)[: len(heard)][middle]).max() < (0.05 if kind[0] == "ogg" else 0.002)


def test_block_wise_resampling_equals_resampling_at_once(tmp_path: Path) -> None:
    soxr = pytest.importorskip("soxr")
    noise = np.random.default_rng(2).normal(0, 0.1, 700_000).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", noise, 44_100, subtype="FLOAT")
    whole = soxr.resample(noise, 44_100, 16_000, quality="HQ")
    heard = read_audio(tmp_path / "a.wav")
    assert len(heard) == len(whole)
    assert np.abs(heard / 32768 - whole).max() < 2 / 32768


def test_a_channel_can_be_picked_or_all_can_be_mixed(tmp_path: Path) -> None:
    left = np.full(4_000, 1_000, dtype=np.int16)
    right = np.full(4_000, 3_000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right], axis=1), 16_000)
    assert set(read_audio(tmp_path / "a.wav", "left")) == {1_000}
    assert set(read_audio(tmp_path / "a.wav", "right")) == {3_000}
    assert set(read_audio(tmp_path / "a.wav", "mix")) == {2_000}


def test_a_mono_file_has_no_right_channel(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(16_000), 16_000)
    assert "one channel" in refusal(tmp_path / "a.wav", "right")


def test_loud_float_samples_are_clipped_not_wrapped(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([1.5, -1.5, 0.0, 1.0]), 16_000, subtype="FLOAT")
    assert read_audio(tmp_path / "a.wav").tolist() == [32767, -32768, 0, 32767]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "not found" in refusal(tmp_path / "none.wav")


def test_a_folder_is_not_a_recording(tmp_path: Path) -> None:
    assert "not a file" in refusal(tmp_path)


def test_text_named_wav_is_not_audio(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("this is no audio, " * 50)
    assert "not audio" in refusal(tmp_path / "a.wav")


def test_zero_bytes_and_zero_samples_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    assert "empty" in refusal(tmp_path / "a.wav")
    soundfile.write(tmp_path / "b.wav", np.zeros(0), 16_000)
    assert "no samples" in refusal(tmp_path / "b.wav")


def test_digital_silence_is_refused_and_named(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 16_000)
    assert "digital silence" in refusal(tmp_path / "a.wav")


def test_silence_in_the_picked_channel_only_is_refused_too(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([tone(16_000), np.zeros(16_000)], axis=1), 16_000)
    assert "right channel" in refusal(tmp_path / "a.wav", "right")
    assert read_audio(tmp_path / "a.wav", "left").any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    samples = tone(16_000)
    samples[777] = bad
    soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="FLOAT")
    assert "not numbers" in refusal(tmp_path / "a.wav")


@pytest.mark.parametrize(("name", "subtype"), [("a.flac", "PCM_16"), ("a.wav", "PCM_16"), ("a.wav", "FLOAT")])
def test_a_recording_cut_in_half_says_how_much_of_it_is_readable(tmp_path: Path, name: str, subtype: str) -> None:
    noise = np.random.default_rng(3).normal(0, 0.1, 20 * 16_000)
    soundfile.write(tmp_path / name, noise, 16_000, subtype=subtype)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    message = refusal(tmp_path / name)
    assert "of 20.00 s" in message
    readable = float(message.split("cut short: ")[1].split(" s of")[0])
    assert 9.0 < readable <= 10.0


def test_a_file_of_a_few_samples_at_a_high_rate_is_refused_when_nothing_is_left(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([0.5]), 96_000)
    assert "too short" in refusal(tmp_path / "a.wav")
