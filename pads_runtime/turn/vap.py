"""Turn-end prediction in a stream: smart-turn's encoder on 4 s instead of 8, with heads of our own.

The encoder (Whisper-tiny, frozen, position table cut) reads the user's last 4 s; two linear heads read its pooled
state, its last 100 ms, the 100 ms that ended 200 ms earlier, its own answer, how long it has been silent, and how much
the agent spoke of late. One gives p_end; the other the distribution over VAP's 256 classes of the next 2 s (Ekstedt and
Skantze, Interspeech 2022: both speakers' activity in bins of 0.2, 0.4, 0.6 and 0.8 s), from which p_now and p_future
follow. Every window is encoded afresh, so an answer depends on the last 4 s of audio only, however it was cut up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, ModelCorrupt
from ..frames import SAMPLE_RATE, Samples, TurnEndPredicted
from ..logmel import FRAMES_PER_S, N_MELS, FloatArray
from .onnx_model import infer, open_session
from .schedule import PauseSchedule
from .smart_turn import SampleRing, features

VERSION = "pads-vap-1"
"""Written into the model file; another one is refused."""
WINDOW_S = 4
WINDOW_SAMPLES = WINDOW_S * SAMPLE_RATE
AGENT_WINDOWS_S = (0.2, 1.0, 4.0)
SILENCE_CAP_S = 1.0
BINS = 4
CLASSES = 2 ** (2 * BINS)
_AGENT_STEP = SAMPLE_RATE // 100
_AGENT_DB = -45.0
_SLACK_S = 1e-6
_GAP_S = 0.03

_log = logging.getLogger(__name__)


def agent_shares(agent: Samples) -> tuple[float, ...]:
    """Share of 10 ms blocks above -45 dB of full scale in the agent's last 0.2, 1 and 4 s; what is missing is quiet."""
    recent = agent[-WINDOW_SAMPLES:]
    blocks = recent[len(recent) % _AGENT_STEP :].reshape(-1, _AGENT_STEP).astype(np.float64) / 32768.0
    loud = blocks.var(axis=1) > 10.0 ** (_AGENT_DB / 10.0)
    return tuple(float(loud[-round(window * 100) :].sum()) / round(window * 100) for window in AGENT_WINDOWS_S)


def context(agent: Samples, silence_s: float | None) -> FloatArray:
    """The heads' second input, shape (1, 4): silence so far (0 during speech, at most 1 s) and the agent's shares."""
    silent = 0.0 if silence_s is None else min(silence_s, SILENCE_CAP_S)
    return np.array([[silent, *agent_shares(agent)]], dtype=np.float32)


def class_bits() -> NDArray[np.bool_]:
    """Which bins are active in each class, shape (256, 8): the user's four bins, then the agent's; bin 0 is bit 7."""
    bits: NDArray[np.bool_] = (np.arange(CLASSES)[:, None] >> np.arange(2 * BINS - 1, -1, -1)) & 1 == 1
    return bits


_USER_AGENT = class_bits().astype(np.float64)


def comparisons(classes: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """VAP's p_now (bins 1 and 2) and p_future (bins 3 and 4): the user's part of the expected activity of both."""
    active = np.asarray(classes, dtype=np.float64).reshape(-1) @ _USER_AGENT
    user, agent = active[:BINS], active[BINS:]
    near = float(user[:2].sum() / max(1e-9, user[:2].sum() + agent[:2].sum()))
    far = float(user[2:].sum() / max(1e-9, user[2:].sum() + agent[2:].sum()))
    return near, far


class VapPredictor:
    """Asked every ``speech_every_s`` of speech (0: never) and at the moments of ``predict_at_s`` in each pause.

    Keeps 4 s of either channel. ONNX Runtime on one thread.
    """

    def __init__(
        self, model: Path, predict_at_s: Sequence[float], speech_every_s: float = 0.1, enough: float | None = None
    ) -> None:
        """Load ``model``; an answer of ``enough`` or more in a pause ends the questions of that pause.

        Raises ModelMissing, or ModelCorrupt if it is not of this version.
        """
        self._session, self._model = _load(model), model
        self._user, self._agent = SampleRing(WINDOW_SAMPLES), SampleRing(WINDOW_SAMPLES)
        self._schedule = PauseSchedule(predict_at_s, enough)
        self._speech_every_s = speech_every_s
        self._frames_of_speech = 0
        self._heard_to_s: float | None = None
        self._told_mono = False

    def wants(self, silence_s: float | None) -> bool:
        """True once per moment of a pause, and once per ``speech_every_s`` of 20 ms frames of speech."""
        in_pause = self._schedule.due(silence_s)
        if silence_s is not None:
            self._frames_of_speech = 0
            return in_pause
        self._frames_of_speech += 1
        if self._speech_every_s <= 0.0 or self._frames_of_speech * 0.02 < self._speech_every_s - _SLACK_S:
            return False
        self._frames_of_speech = 0
        return True

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        """Take both channels' samples since the last call and predict.

        An agent channel of no samples counts as silence, which is said once. A gap before these samples empties the
        memory, which is said. Raises InputError for other shapes, ModelError if the network fails.
        """
        self._take(user, agent, audio_end_s)
        p_end, classes, _ = self.answer(self._user.read(), self._agent.read(), silence_s)
        if silence_s is not None:
            self._schedule.answered(p_end)
        p_now, p_future = comparisons(classes)
        return TurnEndPredicted(audio_end_s, p_end, audio_end_s, p_now, p_future)

    def answer(
        self, user: Samples, agent: Samples, silence_s: float | None
    ) -> tuple[float, NDArray[np.float32], NDArray[np.float32]]:
        """p_end, the 256 classes and what the heads read (1, 1157), at the end of these samples; keeps no state."""
        inputs = {"input_features": features(user, WINDOW_S), "context": context(agent, silence_s)}
        outputs = ["p_end", "classes", "features"]
        p_end, classes, read = infer(self._session, self._model, outputs, inputs)
        return min(1.0, max(0.0, float(p_end.reshape(-1)[0]))), classes[0], read

    def reset(self) -> None:
        """Forget all audio, the pause and the count of speech."""
        self._user.clear()
        self._agent.clear()
        self._schedule.due(None)
        self._frames_of_speech = 0
        self._heard_to_s = None

    def _take(self, user: Samples, agent: Samples, audio_end_s: float) -> None:
        for name, samples in (("user", user), ("agent", agent)):
            if samples.ndim != 1 or samples.dtype != np.int16:
                raise InputError(f"the turn predictor takes int16 mono {name} samples, not {samples.dtype}")
        if not len(agent) and len(user):
            if not self._told_mono:
                _log.warning("the turn predictor has no agent channel; it counts as silence")
            self._told_mono = True
            agent = np.zeros_like(user)
        if len(agent) != len(user):
            raise InputError(f"the turn predictor was given {len(user)} user samples but {len(agent)} of the agent")
        start_s = audio_end_s - len(user) / SAMPLE_RATE
        if self._heard_to_s is not None and start_s > self._heard_to_s + _GAP_S:
            _log.info("the turn predictor missed %.2f s of audio and begins anew", start_s - self._heard_to_s)
            self._user.clear()
            self._agent.clear()
        self._heard_to_s = audio_end_s
        self._user.append(user)
        self._agent.append(agent)


def _load(model: Path) -> Any:
    session = open_session(model, "train it: ./scripts/train vap --data DIR, or choose turn.predictor=smart_turn")
    version = session.get_modelmeta().custom_metadata_map.get("pads_version")
    inputs = {node.name: node.shape[1:] for node in session.get_inputs()}
    expected = {"input_features": [N_MELS, WINDOW_S * FRAMES_PER_S], "context": [1 + len(AGENT_WINDOWS_S)]}
    if version != VERSION or inputs != expected:
        raise ModelCorrupt(
            f"turn model '{model}' is of version {version or 'unknown'}, not {VERSION}; "
            "train it again: ./scripts/train vap --data DIR"
        )
    return session
