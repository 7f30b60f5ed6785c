"""How long callbacks take, kept without allocation."""

from __future__ import annotations

import numpy as np

_KEPT = 4096


class CallbackTimes:
    """The last durations of one callback."""

    def __init__(self) -> None:
        self._seconds = np.zeros(_KEPT)
        self._count = 0

    def add(self, seconds: float) -> None:
        """One call took this long."""
        self._seconds[self._count % _KEPT] = seconds
        self._count += 1

    @property
    def kept(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The durations that are kept, in seconds, in no order."""
        return self._seconds[: min(self._count, _KEPT)].copy()


def p99_ms(*times: CallbackTimes) -> float | None:
    """The 99th percentile over all of them, in ms; None before the first call."""
    kept = np.concatenate([one.kept for one in times])
    return float(np.percentile(kept, 99.0)) * 1000.0 if len(kept) else None
