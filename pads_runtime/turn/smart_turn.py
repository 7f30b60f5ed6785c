"""Turn-end prediction by smart-turn v3 (pipecat-ai, BSD-2): a Whisper-tiny encoder with a head, through ONNX Runtime.

It reads the user's last 8 s, right-aligned, as Whisper log-mel features (80 x 800) of the waveform scaled to zero mean
and unit variance, and answers P(the speaker has finished). That is *completeness* of the turn; the silence in which it
is asked supplies the rest of p_end. The agent's channel is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, ModelCorrupt
from ..frames import SAMPLE_RATE, Samples, TurnEndPredicted
from ..logmel import N_MELS, FloatArray, log_mel
from .onnx_model import infer, open_session
from .schedule import PauseSchedule

WINDOW_S = 8
WINDOW_SAMPLES = WINDOW_S * SAMPLE_RATE
_FRAMES = 800
_VARIANCE_EPS = 1e-7


class SampleRing:
    """The last ``size`` samples, oldest first, zeros before the first. Fixed memory."""

    def __init__(self, size: int) -> None:
        self._buffer = np.zeros(size, dtype=np.int16)
        self._next = 0

    def append(self, samples: Samples) -> None:
        """Take samples of any count; only the last ``size`` of them stay."""
        size = len(self._buffer)
        kept = samples[-size:]
        where = (self._next + len(samples) - len(kept) + np.arange(len(kept))) % size
        self._buffer[where] = kept
        self._next = (self._next + len(samples)) % size

    def read(self) -> Samples:
        """A copy of shape (size,)."""
        return np.roll(self._buffer, -self._next)

    def clear(self) -> None:
        """Forget everything."""
        self._buffer[:] = 0
        self._next = 0


def features(samples: Samples, window_s: int = WINDOW_S) -> FloatArray:
    """Model input for the last ``window_s`` of ``samples`` (int16), zeros in front if shorter.

    float32 of shape (1, 80, 100 * window_s): the log-mel of the waveform scaled to zero mean and unit variance.
    """
    size = window_s * SAMPLE_RATE
    recent = samples[-size:].astype(np.float32) / np.float32(32768.0)
    padded = np.pad(recent, (size - len(recent), 0))
    scaled = (padded - padded.mean()) / np.sqrt(padded.var() + np.float32(_VARIANCE_EPS))
    return log_mel(scaled.astype(np.float32))[None]


class SmartTurnPredictor:
    """Asked at the moments of ``predict_at_s`` in each pause. One ONNX Runtime thread; 8 s of audio in memory."""

    def __init__(self, model: Path, predict_at_s: Sequence[float], enough: float | None = None) -> None:
        """Load ``model``; an answer of ``enough`` or more ends the questions of its pause.

        Raises ModelMissing, or ModelCorrupt if it is not a smart-turn v3 network.
        """
        self._session = _load(model)
        self._model = model
        self._ring = SampleRing(WINDOW_SAMPLES)
        self._schedule = PauseSchedule(predict_at_s, enough)

    def wants(self, silence_s: float | None) -> bool:
        """True once per scheduled length of each pause."""
        return self._schedule.due(silence_s)

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        """Take the user's samples since the last call and predict. Raises ModelError if the network fails."""
        if user.ndim != 1 or user.dtype != np.int16:
            raise InputError(f"the turn predictor takes int16 mono samples, not {user.dtype} of shape {user.shape}")
        self._ring.append(user)
        p_end = self.completeness(self._ring.read())
        if silence_s is not None:
            self._schedule.answered(p_end)
        return TurnEndPredicted(audio_end_s, p_end, audio_end_s)

    def completeness(self, samples: Samples) -> float:
        """P(the speaker has finished) at the end of ``samples`` (int16), in [0, 1]; keeps no state."""
        (answer,) = infer(self._session, self._model, None, {"input_features": features(samples)})
        p_end = float(answer.reshape(-1)[0])
        return min(1.0, max(0.0, p_end))

    def reset(self) -> None:
        """Forget all audio and the pause."""
        self._ring.clear()
        self._schedule.due(None)


def _load(model: Path) -> Any:
    session = open_session(model, "fetch it: pads models pull smart-turn-v3.2")
    inputs = [(node.name, node.shape[1:]) for node in session.get_inputs()]
    if inputs != [("input_features", [N_MELS, _FRAMES])] or len(session.get_outputs()) != 1:
        raise ModelCorrupt(f"turn model '{model}' is no smart-turn v3 network: its inputs are {inputs}")
    return session
