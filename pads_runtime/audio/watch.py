"""When a device counts as lost, and when to try it again. Pure: time comes in as an argument."""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 8.0
RESCAN_AFTER = 2
"""Failed tries after which the list of devices is read anew; that closes the other device for a moment."""


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
