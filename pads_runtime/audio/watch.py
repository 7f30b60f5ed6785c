"""When a device counts as lost, and when to try it again. Pure: time comes in as an argument."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 8.0
RESCAN_AFTER = 2
"""Failed tries after which the list of devices is read anew; that closes the other device for a moment."""
STUMBLES, WITHIN_S = 5, 10.0
"""So many underruns within so many seconds mean that the speaker's buffer is too short for this machine."""
LONGEST_LATENCY_S = 0.16


class Buffer:
    """How deep the speaker's buffer is: as short as asked for, longer where that makes it stumble."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self._count = 0
        self._stumbles: deque[float] = deque(maxlen=STUMBLES)

    def too_short(self, underruns: int, now_s: float) -> bool:
        """Whether it should be deepened, ``underruns`` having been counted in all."""
        new = underruns - self._count
        self._count = underruns
        self._stumbles.extend([now_s] * min(new, STUMBLES))
        full = len(self._stumbles) == STUMBLES and now_s - self._stumbles[0] <= WITHIN_S
        return full and self.latency_s < LONGEST_LATENCY_S

    def deepen(self) -> None:
        """Twice as deep from the next opening on."""
        self.latency_s = min(LONGEST_LATENCY_S, 2.0 * self.latency_s)
        self._stumbles.clear()


@dataclass
class Line:
    """The state of one direction: open and heard from, or lost and waiting for the next try."""

    dead_after_s: float
    opened_s: float = 0.0
    lost_s: float | None = None
    failures: int = 0
    _retry_s: float = field(default=0.0, repr=False)

    @property
    def alive(self) -> bool:
        """Whether the device is open and was heard from lately."""
        return self.lost_s is None

    def verdict(self, now_s: float, called_s: float, active: bool) -> str | None:
        """Why an open device counts as lost at ``now_s``; None if it does not. ``called_s``: its last callback."""
        if not active:
            return "the system ended the stream"
        if now_s - max(called_s, self.opened_s) > self.dead_after_s:
            return f"no sound from the system for {self.dead_after_s:g} s"
        return None

    def lose(self, now_s: float) -> None:
        """The device is gone; the first try to get it back comes at once."""
        self.lost_s, self.failures, self._retry_s = now_s, 0, now_s

    def due(self, now_s: float) -> bool:
        """Whether it is time for the next try."""
        return not self.alive and now_s >= self._retry_s

    def failed(self, now_s: float) -> None:
        """A try failed; the next one comes later, and later each time."""
        self._retry_s = now_s + min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0**self.failures)
        self.failures += 1

    def opened(self, now_s: float) -> float:
        """The device is open again; returns how long it was away."""
        away_s = 0.0 if self.lost_s is None else now_s - self.lost_s
        self.opened_s, self.lost_s, self.failures = now_s, None, 0
        return away_s
