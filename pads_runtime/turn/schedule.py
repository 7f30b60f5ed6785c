"""When a predictor is asked: once per declared length of each pause, until it is sure."""

from __future__ import annotations

from collections.abc import Sequence

_SLACK_S = 1e-6


class PauseSchedule:
    """Answers True once for each moment (seconds of silence) that a pause reaches; speech begins the count anew.

    A moment skipped over by a late call is not made up for: one call, one True. Once an answer has reached ``enough``
    the rest of the pause is left alone: the wait for its confirmation cannot become shorter. None asks at every moment.
    """

    def __init__(self, moments_s: Sequence[float], enough: float | None = None) -> None:
        self._moments_s = tuple(sorted(moments_s))
        self._enough = enough
        self._asked = 0
        self._sure = False
        self._silence_s = 0.0

    def due(self, silence_s: float | None) -> bool:
        """Whether ``silence_s`` has reached a moment that has not been answered; None means speech."""
        if silence_s is None or silence_s < self._silence_s:  # less silence than before: there was speech in between
            self._asked, self._sure = 0, False
        self._silence_s = silence_s or 0.0
        reached = 0 if silence_s is None else sum(silence_s >= moment - _SLACK_S for moment in self._moments_s)
        due = reached > self._asked
        self._asked = reached
        return due and not self._sure

    def answered(self, p_end: float) -> None:
        """What came of a question about the pause that ``due`` was last told of."""
        self._sure = self._enough is not None and p_end >= self._enough
