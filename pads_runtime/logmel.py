"""Log-mel features as Whisper defines them (arXiv 2212.04356, section 2.2): 80 bands, 25 ms windows, 10 ms hop.

Shared by the recogniser and the turn-end predictor, whose models were both trained on them. The bands are Slaney's
(Auditory Toolbox, 1998): linear below 1 kHz, logarithmic above, triangles of unit area.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .frames import SAMPLE_RATE

FFT_SAMPLES = 400
HOP_SAMPLES = 160
N_MELS = 80
FRAMES_PER_S = SAMPLE_RATE // HOP_SAMPLES

_LINEAR_HZ_PER_MEL = 200.0 / 3.0
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR_HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0
_FLOOR = 1e-10
_RANGE_DECADES = 8.0

FloatArray = NDArray[np.float32]


def mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney's scale: 3 mel per 200 Hz up to 1 kHz, then 27 mel per factor 6.4."""
    above = np.maximum(mel - _BREAK_MEL, 0.0)
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ_PER_MEL, _BREAK_HZ * np.exp(_LOG_STEP * above))


def hz_to_mel(hz: float) -> float:
    """Inverse of ``mel_to_hz`` for one frequency."""
    return hz / _LINEAR_HZ_PER_MEL if hz < _BREAK_HZ else float(_BREAK_MEL + np.log(hz / _BREAK_HZ) / _LOG_STEP)


def mel_filters() -> FloatArray:
    """Triangular bands from 0 to 8 kHz, shape (N_MELS, FFT_SAMPLES // 2 + 1), each of unit area over frequency."""
    edges = mel_to_hz(np.linspace(0.0, hz_to_mel(SAMPLE_RATE / 2), N_MELS + 2))
    bins = np.fft.rfftfreq(FFT_SAMPLES, 1.0 / SAMPLE_RATE)
    low, mid, high = (edges[i : i + N_MELS, None] for i in range(3))
    rising = (bins - low) / (mid - low)
    falling = (high - bins) / (high - mid)
    area = (high - low) / 2.0
    return (np.clip(np.minimum(rising, falling), 0.0, None) / area).astype(np.float32)


_FILTERS = mel_filters()
_WINDOW = np.hanning(FFT_SAMPLES + 1)[:-1].astype(np.float32)


def log_mel(samples: FloatArray) -> FloatArray:
    """Features of ``samples`` (float32, 16 kHz, a multiple of HOP_SAMPLES and at least one window long).

    Returns float32 of shape (N_MELS, len(samples) // HOP_SAMPLES): log10 power, floored 8 decades below the loudest
    cell, scaled by (x + 4) / 4. The edges are mirrored, and the frame centred on the very end is left out.
    """
    padded = np.pad(samples, FFT_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES][:-1]
    spectrum = np.fft.rfft(frames * _WINDOW, axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    log_power: FloatArray = np.log10(np.maximum(_FILTERS @ power.T, _FLOOR))
    floored = np.maximum(log_power, log_power.max() - _RANGE_DECADES)
    return np.ascontiguousarray((floored + 4.0) / 4.0, dtype=np.float32)
