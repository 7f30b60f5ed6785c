"""What this process has used of the machine so far."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

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
