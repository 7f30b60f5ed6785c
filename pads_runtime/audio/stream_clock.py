"""From a stream's sample count to the session's time, when all one sees are jittery arrival times."""

from __future__ import annotations

from collections import deque
from typing import Literal

_OBSERVATIONS = 128


class StreamClock:
    """Sample ``count`` of a stream at ``rate`` Hz happens at ``time_of(count)``.

    Every observation says "sample ``count`` at ``t_s``", off by some jitter. ``earliest`` trusts the least late of the
    recent ones (arrivals can be late, never early); ``median`` the middle one. A stream whose true rate is a little
    off is followed, because old observations are forgotten.
    """

    def __init__(self, rate: int, trust: Literal["earliest", "median"]) -> None:
        self._rate = rate
        self._trust = trust
        self._offsets: deque[float] = deque(maxlen=_OBSERVATIONS)
        self._offset_s: float | None = None
        self._stale = False

    @property
    def known(self) -> bool:
        """Whether anything has been observed."""
        return self._stale or self._offset_s is not None

    def observe(self, count: int, t_s: float) -> None:
        """Sample number ``count`` was seen at ``t_s``. Only notes it, so that a callback may call this."""
        self._offsets.append(t_s - count / self._rate)
        self._stale = True

    def shift(self) -> None:
        """The stream was interrupted: forget what was observed, and begin with the next observation."""
        if self._stale:
            self._offset()
        self._offsets.clear()

    def time_of(self, count: float) -> float:
        """When sample ``count`` happens, in seconds on the session's clock. Something must have been observed."""
        return self._offset() + count / self._rate

    def count_at(self, t_s: float) -> float:
        """Which sample happens at ``t_s``. Something must have been observed."""
        return (t_s - self._offset()) * self._rate

    def _offset(self) -> float:
        if self._stale:
            self._stale = False
            seen = self._offsets
            self._offset_s = min(seen) if self._trust == "earliest" else sorted(seen)[len(seen) // 2]
        assert self._offset_s is not None
        return self._offset_s
