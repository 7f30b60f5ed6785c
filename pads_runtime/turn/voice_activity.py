"""Voice activity: webrtcvad, two acoustic guards, and hysteresis that makes speech events of them.

webrtcvad alone takes a clap for 200 ms of speech and a fan for speech without end, so a frame counts as voiced only
when it also stands out from the room (``NoiseFloor``), and speech begins only when voiced frames hold their level
(``_holds``), which the decay of a knock does not.

::

              start_s of held voice               pause_s without voice
    SILENT ──────────────────────────> SPEAKING ───────────────────────> PAUSED
       ^          SpeechStarted            ^  └──── SpeechResumed <────────┤
       └────────────────── end_turn() ─────┴───────────────────────────────┘
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np
import webrtcvad

from ..config import VoiceActivitySettings
from ..errors import InputError
from ..frames import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Samples,
    SpeechEvent,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
)

_SILENCE_DB = -120.0
_FLOOR_FRAMES = 150
_ABOVE_FLOOR_DB = 6.0
_HOLD_FRAMES = 2
_HOLD_DROP_DB = 1.5
_STEADY_FRAMES = 2


class ActivityState(Enum):
    """Where the user's turn stands."""

    SILENT = "silent"
    SPEAKING = "speaking"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class _Heard:
    """One frame's verdicts."""

    end_s: float
    voiced: bool
    held: bool


class NoiseFloor:
    """Level of the room: the lowest tenth of the last 3 s of frames, digital silence not counted."""

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=_FLOOR_FRAMES)

    def add(self, level_db: float) -> float:
        """Take one frame's level; returns the floor in dB."""
        self._levels.append(level_db)
        return sorted(self._levels)[len(self._levels) // 10]


def level_db(samples: Samples) -> float:
    """Root mean square in dB of full scale, without the mean; -120 for silence."""
    power = float(np.var(samples.astype(np.float64))) / 32768.0**2
    return max(_SILENCE_DB, 10.0 * float(np.log10(power))) if power > 0.0 else _SILENCE_DB


class WebRtcVoiceActivity:
    """Frames in, speech events out. Remembers the window, 3 s of levels and nothing else.

    All-zero frames are unvoiced and are kept from webrtcvad and the floor, so what follows does not depend on how
    long a gap of digital silence was.
    """

    def __init__(self, settings: VoiceActivitySettings) -> None:
        self._vad = webrtcvad.Vad(settings.aggressiveness)
        self._floor = NoiseFloor()
        self._start_frames = max(1, round(settings.start_s / FRAME_S))
        self._pause_s = settings.pause_s
        self._window: deque[_Heard] = deque(maxlen=max(self._start_frames, round(settings.window_s / FRAME_S)))
        self._recent_db: deque[float] = deque(maxlen=_HOLD_FRAMES)
        self._state = ActivityState.SILENT
        self._last_voiced_s = 0.0
        self._voiced_run = 0

    @property
    def state(self) -> ActivityState:
        """Where the user's turn stands after the last frame."""
        return self._state

    @property
    def last_voiced_s(self) -> float:
        """End of the last voice in the open speech (two voiced frames in a row)."""
        return self._last_voiced_s

    def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
        """Events that this frame of shape (FRAME_SAMPLES,) brought about. Raises InputError for another shape."""
        if frame.samples.shape != (FRAME_SAMPLES,):
            raise InputError(f"voice activity takes frames of {FRAME_SAMPLES} samples, not {frame.samples.shape}")
        heard = self._hear(frame)
        self._window.append(heard)
        self._voiced_run = self._voiced_run + 1 if heard.voiced else 0
        match self._state:
            case ActivityState.SILENT:
                if (onset_s := self._onset()) is not None:
                    self._speak(heard)
                    return (SpeechStarted(frame.end_s, onset_s),)
            case ActivityState.PAUSED:
                if (onset_s := self._onset()) is not None:
                    self._speak(heard)
                    return (SpeechResumed(frame.end_s, onset_s),)
            case ActivityState.SPEAKING:
                # A click inside a beginning pause must not restart it: two voiced frames in a row do.
                if self._voiced_run >= _STEADY_FRAMES:
                    self._last_voiced_s = frame.end_s
                elif frame.end_s - self._last_voiced_s >= self._pause_s - FRAME_S / 2:
                    self._state = ActivityState.PAUSED
                    self._window.clear()
                    return (SpeechPaused(frame.end_s, self._last_voiced_s),)
        return ()

    def end_turn(self) -> None:
        """The turn is over: the next speech is SpeechStarted. Voice already in the window counts towards it."""
        self._state = ActivityState.SILENT

    def _hear(self, frame: AudioFrame) -> _Heard:
        if not frame.samples.any():
            self._recent_db.append(_SILENCE_DB)
            return _Heard(frame.end_s, voiced=False, held=False)
        level = level_db(frame.samples)
        loud = level >= self._floor.add(level) + _ABOVE_FLOOR_DB
        voiced = self._vad.is_speech(frame.samples.tobytes(), SAMPLE_RATE) and loud
        held = voiced and self._holds(level)
        self._recent_db.append(level)
        return _Heard(frame.end_s, voiced, held)

    def _holds(self, level: float) -> bool:
        """Whether the level is kept against 40 ms ago; a knock in a room of RT60 <= 0.8 s falls 3 dB in that time."""
        return len(self._recent_db) < _HOLD_FRAMES or level >= self._recent_db[0] - _HOLD_DROP_DB

    def _onset(self) -> float | None:
        """Where the voice in the window began, if there is enough of it."""
        if sum(heard.held for heard in self._window) < self._start_frames:
            return None
        return next(heard.end_s - FRAME_S for heard in self._window if heard.voiced)

    def _speak(self, heard: _Heard) -> None:
        self._state = ActivityState.SPEAKING
        self._last_voiced_s = heard.end_s
