"""Speed beside a busy process by threads, waiting policy and priority; and memory with and without the second depth."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pads_runtime.config import ROOT

from ..harness.child import run_child
from ..report import Measurement, measurement
from .common import Bench

_TIMEOUT_S = 600.0
_SETTINGS = ((1, "PASSIVE"), (2, "PASSIVE"), (2, "ACTIVE"))


def contention(bench: Bench) -> Iterator[Measurement]:
    """Tokens/s beside one busy process over those alone, in turn, each setting in a process of its own."""
    seconds, repeats = (4.0, 5) if bench.full else (1.5, 2)
    for threads, policy in _SETTINGS:
        bench.say(f"beside a busy process: {threads} threads, {policy.lower()} waiting")
        found = _child(bench, {"threads": threads, "two_depths": False, "seconds": seconds, "repeats": repeats}, policy)
        name = f"{threads}t_{policy.lower()}"
        note = "tokens/s, median of turns"
        yield measurement(f"tokens_s_alone_{name}", [found["alone"]], "tokens/s", note=note)
        yield measurement(f"tokens_s_beside_busy_{name}", [found["beside"]], "tokens/s", note=note)
        yield measurement(f"beside_busy_ratio_{name}", [found["beside"] / found["alone"]], "x", note="over alone")
        ratio = found["beside_nice"] / found["alone"]
        yield measurement(f"beside_busy_nice10_ratio_{name}", [ratio], "x", note="the busy process at niceness 10")


def memory(bench: Bench) -> Iterator[Measurement]:
    """Peak resident memory of a process that decodes at one depth and of one that drafts."""
    bench.say("memory")
    found = {
        two: _child(bench, {"threads": 1, "two_depths": two, "seconds": 1.0, "repeats": 0}, "PASSIVE")
        for two in (False, True)
    }
    yield measurement("rss_peak_one_depth", [found[False]["peak_mb"]], "MB", note="engine and Python")
    yield measurement("rss_peak_two_depths", [found[True]["peak_mb"]], "MB", note="without a translator")
    yield measurement("rss_second_depth", [found[True]["peak_mb"] - found[False]["peak_mb"]], "MB")
    for two, name in ((False, "one_depth"), (True, "two_depths")):
        note = f"mapped bytes over those of the model file; {found[two]['mapped_mb']:.0f} MB of it in memory"
        yield measurement(f"weights_mapped_{name}", [found[two]["mapped_share"]], "x", limit=1.01, note=note)


def _child(bench: Bench, job: dict[str, Any], policy: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.engine.child", json.dumps({"model": str(bench.path)} | job)]
    needed = ["peak_mb", "mapped_share", "mapped_mb", *(("alone", "beside", "beside_nice") if job["repeats"] else ())]
    return run_child(command, needed, _TIMEOUT_S, {"OMP_WAIT_POLICY": policy}, ROOT)
