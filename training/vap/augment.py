"""Copies of a talk as another room, line or speaker's pace would have made it. Seeded; the timing stays exact.

Each copy changes all of: pace (0.9 to 1.1, pitch with it), background noise (10 to 30 dB below the speech), a room (an
exponentially decaying echo, RT60 0.1 to 0.4 s) and, half the time, a telephone band (300 to 3,400 Hz).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import signal  # type: ignore[import-untyped]

from bench.turn_end.activity import Activity, Span
from bench.turn_end.completeness import Labels, label_of
from bench.turn_end.corpora import Talk
from pads_runtime.audio.files import to_int16
from pads_runtime.frames import SAMPLE_RATE, Samples

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Change:
    pace: float
    below_db: float
    rt60_s: float
    telephone: bool


def augmented(talk: Talk, labels: Labels, seed: int) -> tuple[Talk, Labels]:
    """A changed copy, named ``<talk>+<seed>``, with the original's silences at their new times, and their labels."""
    rng = np.random.default_rng([seed, *talk.name.encode()])
    change = _Change(
        float(rng.uniform(0.9, 1.1)),
        float(rng.uniform(10.0, 30.0)),
        float(rng.uniform(0.1, 0.4)),
        bool(rng.random() < 0.5),
    )
    length = round(talk.active.shape[1] / change.pace)
    changed: dict[int, Samples] = {}
    for samples in talk.samples.values():  # parties of a mixed talk share one array
        if id(samples) not in changed:
            changed[id(samples)] = _changed(samples, change, rng, length * SAMPLE_RATE // 100)
    name = f"{talk.name}+{seed}"
    moved = tuple(_moved(span, name, change.pace) for span in talk.spans)
    told = {
        (new.talk, new.channel, new.start_s): label
        for old, new in zip(talk.spans, moved, strict=True)
        if (label := label_of(labels, old)) is not None
    }
    copies = {channel: changed[id(samples)] for channel, samples in talk.samples.items()}
    return replace(talk, name=name, samples=copies, active=_paced(talk.active, length), spans=moved), told


def _moved(span: Span, name: str, pace: float) -> Span:
    start_s, end_s, resume_s = (round(t / pace, 2) for t in (span.start_s, span.end_s, span.resume_s))
    return replace(span, talk=name, start_s=start_s, end_s=end_s, resume_s=resume_s)


def _changed(samples: Samples, change: _Change, rng: np.random.Generator, size: int) -> Samples:
    x = samples.astype(np.float32) / 32768.0
    x = np.interp(np.arange(size) * change.pace, np.arange(len(x)), x).astype(np.float32)
    x = _room(x, change.rt60_s, rng)
    loud = np.abs(x) > np.abs(x).max() * 0.05
    level = float(np.sqrt(np.mean(x[loud] ** 2))) if loud.any() else 0.0
    x = x + rng.standard_normal(size).astype(np.float32) * level * np.float32(10.0 ** (-change.below_db / 20.0))
    if change.telephone:
        band = signal.butter(4, [300.0, 3400.0], "bandpass", fs=SAMPLE_RATE, output="sos")
        x = signal.sosfilt(band, x).astype(np.float32)
    return to_int16(x)


def _room(x: _Floats, rt60_s: float, rng: np.random.Generator) -> _Floats:
    taps = round(rt60_s * SAMPLE_RATE)
    decay = 10.0 ** (-3.0 * np.arange(taps) / taps)
    echo = rng.standard_normal(taps) * decay
    echo *= 0.3 / max(1e-9, float(np.sqrt((echo**2).sum())))
    echo[0] = 1.0
    wet: _Floats = signal.oaconvolve(x, echo)[: len(x)].astype(np.float32)
    return wet


def _paced(active: Activity, length: int) -> Activity:
    picked = np.minimum((np.arange(length) * active.shape[1] / length).astype(int), active.shape[1] - 1)
    return active[:, picked]
