"""How the devices of a talk are doing."""

from __future__ import annotations

from dataclasses import dataclass

from .echo import EchoMode


@dataclass(frozen=True)
class AudioStatus:
    """How the devices are doing; counts are since the beginning."""

    input_device: str
    input_rate: int
    input_alive: bool
    output_device: str
    output_rate: int
    output_alive: bool
    output_delay_ms: float
    """How long the speaker holds back what it has been given."""
    input_overruns: int
    """Times that microphone audio was lost because a callback, or the thread after it, came too late."""
    output_underruns: int
    """Times that the speaker had to wait for sound, which is heard as a click."""
    frames_lost: int
    """Frames missing from the source: lost in an overrun or an outage, or because nobody took them in time."""
    reopened: int
    callback_ms_p99: float | None
    echo: EchoMode
    echo_why: str
    echo_reduction_db: float | None
