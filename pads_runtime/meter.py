"""How machine and devices do during a live talk, for its view."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

from .session import Session
from .view.terminal import Vitals


class Meter:
    """Reads how machine and devices do, for the screen."""

    def __init__(self, session: Session, status: Callable[[], Any]) -> None:
        """``status`` gives an ``audio.live.AudioStatus``."""
        self._session, self._status = session, status
        self._process = psutil.Process()
        self._read_s = float("-inf")
        self._last = Vitals()
        psutil.cpu_percent(None)

    def read(self) -> Vitals:
        """At most once a second anew; in the view's thread."""
        now_s = time.monotonic()
        if now_s - self._read_s < 1.0:
            return self._last
        self._read_s = now_s
        status = self._status()
        gone = [
            name
            for name, alive in (("microphone", status.input_alive), ("loudspeaker", status.output_alive))
            if not alive
        ]
        lags_s = self._session.lags_s
        self._last = Vitals(
            cpu_percent=psutil.cpu_percent(None),
            rss_mb=self._process.memory_info().rss / 1e6,
            overruns=status.input_overruns,
            underruns=status.output_underruns,
            frames_dropped=status.frames_lost + self._session.frames_dropped,
            lag_ms=float(np.percentile(lags_s, 99)) * 1000 if lags_s else None,
            devices=f"{status.input_device} > {status.output_device}",
            trouble=f"no {' and no '.join(gone)}: trying again" if gone else "",
        )
        return self._last
