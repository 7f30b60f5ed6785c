"""Cuts of a long turn: at quiet places, and never moved by what comes later."""

from __future__ import annotations

import numpy as np
import pytest

from pads_runtime.asr.windows import Chunk, chunks


def noise(seconds: float, level: float = 3_000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, level, round(seconds * 16_000)).astype(np.int16)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 7.9, 8.0])
def test_a_turn_within_the_window_is_one_open_stretch(seconds: float) -> None:
    samples = noise(seconds)
    assert chunks(samples, 8.0) == [Chunk(0, len(samples))]


def test_the_cut_falls_into_the_pause() -> None:
    samples = np.concatenate([noise(5.5), noise(0.4, 30, 1), noise(6.0, seed=2)])
    (first, second) = chunks(samples, 8.0)
    assert 5.5 < first.end / 16_000 < 5.9
    assert (second.start, second.end) == (first.end, len(samples))


def test_stretches_cover_the_turn_without_gap_or_overlap_and_fit_the_window() -> None:
    samples = noise(60.3)
    parts = chunks(samples, 8.0)
    assert parts[0].start == 0
    assert parts[-1].end == len(samples)
    assert all(a.end == b.start for a, b in zip(parts[:-1], parts[1:], strict=True))  # noqa: RUF007
    assert all(0 < part.end - part.start <= 8 * 16_000 for part in parts)
    assert all(part.end - part.start >= 4 * 16_000 for part in parts[:-1])


def test_later_audio_never_moves_a_cut() -> None:
    samples = noise(40.0)
    whole = chunks(samples, 8.0)
    for end in range(0, len(samples), 7_777):
        closed = chunks(samples[:end], 8.0)[:-1]
        assert closed == whole[: len(closed)]


def test_all_zero_audio_can_be_cut_too() -> None:
    parts = chunks(np.zeros(20 * 16_000, dtype=np.int16), 8.0)
    assert parts[-1].end == 20 * 16_000


def test_a_tiny_window_still_moves_on() -> None:
    parts = chunks(noise(3.0), 0.6)
    assert all(part.end > part.start for part in parts)
