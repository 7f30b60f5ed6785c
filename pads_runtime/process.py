"""What this process has used of the machine so far, and how it is told to end."""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path
from types import FrameType

STATUS = Path("/proc/self/status")


def peak_rss_mb(status: Path = STATUS) -> float:
    """Most resident memory this process ever had, in MB (10^6 bytes).

    Linux's ``ru_maxrss`` is only the fallback: a child that was forked begins with its parent's.
    """
    try:
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


class Termination:
    """Lets SIGTERM end what runs as Ctrl-C does, so that records are closed; it is a kill without the mess."""

    def __init__(self) -> None:
        self.asked = False
        """Whether SIGTERM came."""

    def install(self) -> None:
        """From now on; only in the main thread."""
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        on_interrupt = signal.getsignal(signal.SIGINT)  # asyncio puts its own here while a loop runs
        if callable(on_interrupt):
            on_interrupt(signal.SIGINT, frame)
        else:  # Ctrl-C is ignored, as in a shell's background job; SIGTERM is not
            raise KeyboardInterrupt
