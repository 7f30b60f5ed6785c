"""When something sounds in a recording. Pure: samples in, sample numbers out."""

from __future__ import annotations

import numpy as np
import soxr

from pads_runtime.speech.protocol import Synthesizer

from .rig import ROOM_RATE, Samples

AUDIBLE = 100
"""Samples from here on count as sound: -50 dB of full scale. What is silent on the rig is zero."""


def first_sound(samples: Samples, start: int, stop: int, level: int = AUDIBLE) -> int | None:
    """The first sample in [start, stop) that is at least as loud as ``level``; None if none is."""
    loud = np.flatnonzero(_loud(samples[start:stop], level))
    return start + int(loud[0]) if len(loud) else None


def last_sound(samples: Samples, start: int, stop: int, level: int = AUDIBLE) -> int | None:
    """The last such sample."""
    loud = np.flatnonzero(_loud(samples[start:stop], level))
    return start + int(loud[-1]) if len(loud) else None


def spoken(voice: Synthesizer, text: str) -> Samples:
    """``text`` as a user of the rig says it: int16 at ROOM_RATE."""
    phrase = voice.synthesize(text)
    heard = soxr.resample(phrase.samples.astype(np.float32), phrase.sample_rate, ROOM_RATE)
    said: Samples = np.asarray(heard).clip(-32768, 32767).astype(np.int16)
    return said


def _loud(samples: Samples, level: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.abs(samples.astype(np.int32)) >= level
