"""Taking the agent's own voice out of the microphone: WebRTC's canceller (AEC3), and how much it takes.

AEC3 models the way from loudspeaker to microphone, whose length it finds by itself within a few hundred ms, as long
as the reference comes first. It does: a microphone's samples are timed by their arrival, at least one block late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import SetupError
from ..frames import FRAME_SAMPLES, SAMPLE_RATE, Samples

EchoSetting = Literal["auto", "webrtc", "headset", "off"]
EchoMode = Literal["webrtc", "headset", "off"]

_HEADSETS = ("headset", "headphone", "earphone", "earbud", "airpods", "hands-free", "handsfree", "bluez")
_AGENT_DB = -50.0
_NOTHING_DB = -75.0
"""Below this there is nothing in the microphone to take out, and its level says nothing."""
_TAIL_FRAMES = 12
"""The echo of a room outlasts the voice by about this many frames."""
_MEASURED = 500
_ENOUGH = 50
_LEARNT_DB = 10.0
"""A frame that comes out so much softer was echo and nothing else."""
_RELEARNS_FRAMES = 100
"""After the loudspeaker has stumbled, its echo comes at another time; AEC3 finds it again within about so long."""
_LOUDER_DB = 6.0
_GAIN_UNKNOWN_DB = 0.0


@dataclass(frozen=True, slots=True)
class EchoChoice:
    """Which mode holds, and why."""

    mode: EchoMode
    why: str


def choose_echo(setting: EchoSetting, input_name: str, output_name: str) -> EchoChoice:
    """What ``audio.echo`` means for these two devices."""
    if setting != "auto":
        return EchoChoice(setting, "as set")
    for name in (output_name, input_name):
        if any(word in name.casefold() for word in _HEADSETS):
            return EchoChoice("headset", f"'{name}' is worn on the head: nothing of the agent reaches the microphone")
    return EchoChoice("webrtc", "the microphone may hear the loudspeaker")


class EchoCanceller:
    """20 ms of microphone and 20 ms of what sounded in, the microphone without it out. Not for several threads."""

    def __init__(self, make: Callable[[], Any] | None = None) -> None:
        self._native = (make or _webrtc)()
        self._meter = EchoMeter()
        self._guard = EchoGuard()

    def process(self, heard: Samples, played: Samples) -> Samples:
        """``heard`` and ``played``: int16, FRAME_SAMPLES each, 16 kHz; returns the same shape."""
        out: Samples = self._native.process(heard, played)
        self._meter.add(heard, played, out)
        return out if self._guard.passes(heard, played, out) else np.zeros_like(out)

    def disturbed(self) -> None:
        """The loudspeaker stumbled, or the reference jumped: for a while the canceller cannot be trusted."""
        self._guard.disturbed()

    @property
    def reduction_db(self) -> float | None:
        """By how much the echo comes out softer than it went in; None until it has been measured for a second."""
        return self._meter.reduction_db


class EchoMeter:
    """Echo return loss enhancement: microphone over output level, in frames where the agent sounds.

    The median of the last ten seconds of such frames, so that a user who talks over the agent counts little.
    """

    def __init__(self) -> None:
        self._frames: deque[float] = deque(maxlen=_MEASURED)
        self._active = 0

    def add(self, heard: Samples, played: Samples, out: Samples) -> None:
        """One frame, each int16 of the same shape."""
        self._active = _TAIL_FRAMES if level_db(played) > _AGENT_DB else max(0, self._active - 1)
        if self._active and level_db(heard) > _NOTHING_DB:
            self._frames.append(level_db(heard) - level_db(out))

    @property
    def reduction_db(self) -> float | None:
        """In dB; None while there is too little to tell."""
        return float(np.median(self._frames)) if len(self._frames) >= _ENOUGH else None


class EchoGuard:
    """What passes while the canceller has lost the echo: only what is louder than the echo can be.

    How loud that is, it learns from frames that were echo alone. While it knows nothing yet, only what is louder than
    the agent itself passes.
    """

    def __init__(self) -> None:
        self._played_db: deque[float] = deque(maxlen=_TAIL_FRAMES)
        self._gains_db: deque[float] = deque(maxlen=_MEASURED)
        self._left = 0

    def disturbed(self) -> None:
        """For the next frames in which the agent sounds."""
        self._left = _RELEARNS_FRAMES

    def passes(self, heard: Samples, played: Samples, out: Samples) -> bool:
        """Whether one frame, each int16 of the same shape, may be heard."""
        self._played_db.append(level_db(played))
        loudest_db = max(self._played_db)
        if loudest_db <= _AGENT_DB:
            return True
        heard_db = level_db(heard)
        if self._left == 0:
            if heard_db > _NOTHING_DB and heard_db - level_db(out) > _LEARNT_DB:
                self._gains_db.append(heard_db - loudest_db)
            return True
        self._left -= 1
        known = len(self._gains_db) >= _ENOUGH
        gain_db = float(np.percentile(self._gains_db, 95)) if known else _GAIN_UNKNOWN_DB
        return heard_db > loudest_db + gain_db + _LOUDER_DB


def level_db(samples: Samples) -> float:
    """Root mean square in dB of full scale, of digital silence the level of a tenth of one step."""
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return 10.0 * float(np.log10(max(power, 0.01))) - 90.31


def _webrtc() -> Any:
    try:
        from pywebrtc_audio import EchoCanceller as Native
    except ImportError:
        raise SetupError("the echo canceller is missing; run ./scripts/setup, or set audio.echo=headset") from None
    native = Native(SAMPLE_RATE, 1)
    native.process(np.zeros(FRAME_SAMPLES, np.int16), np.zeros(FRAME_SAMPLES, np.int16))
    return native
