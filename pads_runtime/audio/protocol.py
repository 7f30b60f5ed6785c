"""What the session asks of an audio source and sink."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from ..frames import AudioFrame, Samples


class AudioSource(Protocol):
    """Yields 20 ms frames in order, each not before its ``end_s`` on the session's clock."""

    def frames(self) -> AsyncIterator[AudioFrame]:
        """The frames until the source ends. Raises InputError or DeviceError."""
        ...


class AudioSink(Protocol):
    """Plays the agent's voice. Passive: time comes in as an argument, so a virtual clock can drive it."""

    sample_rate: int

    def write(self, samples: Samples, now_s: float) -> float:
        """Queue mono int16 samples at ``sample_rate`` behind what is queued; returns when their last sample ends."""
        ...

    def flush(self, now_s: float) -> int:
        """Drop everything not yet played; returns how many samples written since the last flush were played."""
        ...

    def window(self, start_s: float, end_s: float) -> Samples:
        """What was played in [start_s, end_s), as SAMPLE_RATE mono; shape (round((end_s - start_s) * SAMPLE_RATE),)."""
        ...

    def close(self, now_s: float) -> None:
        """Finish the output. Idempotent."""
        ...


@runtime_checkable
class LateSink(Protocol):
    """What a sink adds when it may play later than it said: a device that started late or ran dry."""

    def pending_s(self, now_s: float) -> float:
        """Seconds until the last queued sample will have been played; 0 when all of it has."""
        ...
