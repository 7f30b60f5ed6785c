"""When a predictor is asked: once per declared length of each pause."""

from __future__ import annotations

from collections.abc import Sequence

_SLACK_S = 1e-6


class PauseSchedule:
    """Answers True once for each moment (seconds of silence) that a pause reaches; speech begins the count anew.

    A moment skipped over by a late call is not made up for: one call, one True.
    """

    def __init__(self, moments_s: Sequence[float]) -> None:
        self._moments_s = tuple(sorted(moments_s))
        self._asked = 0

    def due(self, silence_s: float | None) -> bool:
        """Whether ``silence_s`` has reached a moment that has not been answered; None means speech."""
        reached = 0 if silence_s is None else sum(silence_s >= moment - _SLACK_S for moment in self._moments_s)
        due = reached > self._asked
        self._asked = reached
        return due
