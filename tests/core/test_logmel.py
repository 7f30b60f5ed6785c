"""Log-mel features against the definition, worked out independently and in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from pads_runtime.logmel import HOP_SAMPLES, N_MELS, hz_to_mel, log_mel, mel_filters, mel_to_hz


def slow_log_mel(samples: np.ndarray) -> np.ndarray:
    """By the discrete Fourier transform's own formula, a few frames at a time."""
    n = np.arange(400)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / 400)
    matrix = np.exp(-2j * np.pi * np.outer(np.arange(201), n) / 400)
    mirrored = np.concatenate([samples[200:0:-1], samples, samples[-2:-202:-1]])
    columns = []
    for frame in range(len(samples) // 160):
        power = np.abs(matrix @ (window * mirrored[frame * 160 : frame * 160 + 400])) ** 2
        columns.append(mel_filters().astype(float) @ power)
    log_power = np.log10(np.maximum(np.array(columns).T, 1e-10))
    return (np.maximum(log_power, log_power.max() - 8) + 4) / 4


def test_features_equal_the_definition() -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 8_000)
    np.testing.assert_allclose(log_mel(samples.astype(np.float32)), slow_log_mel(samples), atol=2e-5)


@pytest.mark.parametrize(("hz", "mel"), [(0, 0), (200, 3), (1_000, 15), (6_400, 42), (1_000 * 6.4**0.5, 28.5)])
def test_the_scale_has_slaneys_fixed_points(hz: float, mel: float) -> None:
    assert hz_to_mel(hz) == pytest.approx(mel)
    assert mel_to_hz(np.array([mel]))[0] == pytest.approx(hz)


def test_filters_have_the_published_values_of_whispers_table() -> None:
    filters = mel_filters()
    assert filters.shape == (N_MELS, 201)
    # First and last weights of the 80-band table that Whisper was trained with.
    assert filters[0, 1] == pytest.approx(0.02486259490251541, rel=1e-5)
    assert filters[1, 1] == pytest.approx(0.001990821911022067, rel=1e-4)
    assert filters[1, 2] == pytest.approx(0.022871770322322845, rel=1e-5)


def test_each_filter_has_unit_area_in_hertz() -> None:
    # Wide bands only: the bins sample a narrow triangle too coarsely.
    np.testing.assert_allclose(mel_filters()[50:].sum(axis=1) * 40.0, 1.0, atol=0.03)


def test_a_tone_is_loudest_in_the_band_around_it() -> None:
    tone = np.sin(2 * np.pi * 2_000 * np.arange(16_000) / 16_000).astype(np.float32)
    features = log_mel(tone)
    assert features.shape == (N_MELS, 16_000 // HOP_SAMPLES)
    loudest = int(features[:, 50].argmax())
    edges = mel_to_hz(np.linspace(0, hz_to_mel(8_000), N_MELS + 2))
    assert edges[loudest] < 2_000 < edges[loudest + 2]


def test_silence_is_flat() -> None:
    np.testing.assert_allclose(log_mel(np.zeros(1_600, dtype=np.float32)), -1.5, atol=1e-6)
