"""How much in how much time: a token bucket, and the waits between tries to connect. Pure; time is an argument."""

from __future__ import annotations


class Bucket:
    """Lets ``rate_per_s`` through in the long run and ``burst`` at once."""

    def __init__(self, rate_per_s: float, burst: float) -> None:
        self._rate, self._burst = rate_per_s, burst
        self._tokens = burst
        self._at_s: float | None = None

    def take(self, now_s: float) -> bool:
        """Whether one more may pass at ``now_s``; if so, it has."""
        if self._at_s is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now_s - self._at_s) * self._rate)
            now_s = max(now_s, self._at_s)
        self._at_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def backoff_s(failures: int, least_s: float, most_s: float) -> float:
    """The wait after ``failures`` (1 or more) tries in a row that came to nothing: doubled each time, to ``most_s``."""
    return float(min(most_s, least_s * 2.0 ** min(failures - 1, 60)))
