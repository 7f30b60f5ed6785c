"""The cap where the kernel enforces none: the job's process tree is looked at and killed when it holds too much.

Whoever is started by the job belongs to it, orphans too: this process takes them over (``PR_SET_CHILD_SUBREAPER``). A
job can exceed the cap for as long as one look takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from .job import Ended, exit_code, start

EVERY_S = 0.02
_SUBREAPER = 36
_PATIENCE_S = 5.0


def run(command: Sequence[str], cap_mb: float, environment: dict[str, str]) -> Ended:
    """Run ``command`` and end its whole tree when it holds more than ``cap_mb``."""
    _take_over_orphans()
    job = start(command, environment)
    peak = 0.0
    try:
        while True:
            held = tree_mb(cap_mb)
            peak = max(peak, held)
            if held > cap_mb:
                kill_tree()
                job.wait()
                return Ended(137, True, f"{held:.0f} MB held, {cap_mb:.0f} MB allowed (watched)")
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(EVERY_S)
                return Ended(exit_code(job.returncode), False, f"{peak:.0f} MB held at most (watched)")
    except BaseException:
        kill_tree()
        raise


def tree_mb(cap_mb: float) -> float:
    """What all descendants of this process hold, MB: the sum of resident sizes, and only if that is over ``cap_mb``
    the exact sum of their proportional shares, in which memory shared after a fork counts once."""
    processes = psutil.Process().children(recursive=True)
    rss = sum(_rss(process) for process in processes) / 1e6
    return rss if rss <= cap_mb else sum(_pss(process) for process in processes) / 1e6


def kill_tree() -> None:
    """End every descendant of this process, and nothing else."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while (left := _alive()) and time.monotonic() < give_up_s:
        for process in left:  # first stop, so that none of them starts another while the rest is ended
            with contextlib.suppress(psutil.Error):
                process.suspend()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.2)


def _alive() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _rss(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss)
    except psutil.Error:
        return 0.0


def _pss(process: psutil.Process) -> float:
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8")
        return next(float(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return _rss(process)


def _take_over_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
