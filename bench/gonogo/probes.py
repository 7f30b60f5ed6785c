"""What the tests are decided on: decoding by threads, a soak with its log, the acceptance on record, a whole talk."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from pads_runtime.config import ROOT, EngineSettings
from pads_runtime.engine import calibration
from pads_runtime.engine.costs import DepthCosts
from pads_runtime.engine.model import Model
from pads_runtime.engine.passes import Passes

from ..guard.admission import hottest_c
from ..harness.child import run_child
from ..records.read import Run, read_runs
from .verdicts import Sample

STEPS, DISCARDED = 24, 4
SAMPLE_S = 1.0
TALK_TIMEOUT_S = 300.0


def thread_counts(cores: int) -> tuple[int, ...]:
    """1, 2, 4, ... and the number of cores itself."""
    return tuple(sorted({n for n in (1, 2, 4, 6, 8, 12, 16) if n < cores} | {cores}))


def decode_rates(
    model: Model, threads: Sequence[int], clock: Callable[[], float] = time.perf_counter
) -> dict[int, float]:
    """Tokens/s of single-token passes of the whole model behind 200 tokens, by number of threads; median step."""
    found = {}
    for count in threads:
        passes = Passes(model.handle, count, count)
        try:
            found[count] = 1.0 / statistics.median(_steps(passes, clock))
        finally:
            passes.close()
    return found


def _steps(passes: Passes, clock: Callable[[], float]) -> list[float]:
    spent = []
    for _ in range(DISCARDED + STEPS):
        passes.trim()
        before = clock()
        passes.full(1)
        spent.append(clock() - before)
    return spent[DISCARDED:]


def soak(model: Model, threads: int, seconds: float, say: Callable[[str], None]) -> list[Sample]:
    """Decode without a break for ``seconds`` and look at rate, temperature and frequency every second."""
    passes = Passes(model.handle, threads, threads)
    samples: list[Sample] = []
    began = look = time.monotonic()
    tokens = 0
    try:
        while look - began < seconds:
            passes.trim()
            passes.full(1)
            tokens += 1
            now = time.monotonic()
            if now - look >= SAMPLE_S:
                samples.append(Sample(round(now - began, 2), hottest_c(), frequency_mhz(), tokens / (now - look)))
                look, tokens = now, 0
                if len(samples) % 10 == 0:
                    say(f"soak: {now - began:.0f} of {seconds:.0f} s")
    finally:
        passes.close()
    return samples


def frequency_mhz() -> float | None:
    """Mean frequency of the cores now; None where it is not shown."""
    try:
        current = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError):
        return None
    return float(current.current) if current is not None and current.current else None


def recorded_agreement(runs: Sequence[Run]) -> tuple[str, dict[int, float]]:
    """The latest finished acceptance record and by exit the best share of tokens it guesses as the whole model; an
    empty name where there is none. Figures of greedy replies of the model under test, the first in the record."""
    for run in reversed(runs):
        if run.manifest.get("name") != "bench-acceptance" or run.manifest.get("status") != "finished":
            continue
        found: dict[int, float] = {}
        rows = [row for row in run.figures if "agreement" in row and row.get("mode") == "greedy" and "exit" in row]
        first = str(rows[0]["exits"]).split(",")[0] if rows else ""
        for row in rows:
            share = row["agreement"]
            value = share[0] if isinstance(share, list) else share
            if str(row["exits"]).split(",")[0] == first and value is not None:
                found[int(row["exit"])] = max(float(value), found.get(int(row["exit"]), 0.0))
        if found:
            return run.name, found
    return "", {}


def speed_ups(costs: DepthCosts, agreement: Mapping[int, float]) -> dict[str, float]:
    """Expected tokens/s over plain decoding for each exit whose costs and acceptance are known, by draft length."""
    return {
        f"exit {exit_layer}, {length} drafts": costs.speed_up(exit_layer, length, share, draft_head=True)
        for exit_layer, share in sorted(agreement.items())
        if exit_layer in costs.exits
        for length in range(1, costs.max_draft + 1)
    }


def depth_costs(model: Model, settings: EngineSettings) -> DepthCosts:
    """What `pads calibrate` found, else a short measurement. Raises SetupError, EngineError."""
    threads = calibration.Threads.of(settings)
    return calibration.load_costs(model.path, threads) or calibration.measure(model, threads, rounds=3)


def runs_of(folder: Path) -> list[Run]:
    """Records, none where there is no such folder."""
    return read_runs(folder) if folder.is_dir() else []


def whole_talk(overrides: Sequence[str]) -> dict[str, Any]:
    """Hold the scripted talk in a process of its own. Raises ChildFailed."""
    code = "import sys\nfrom pads_runtime.cli import main\nsys.exit(main())"
    with tempfile.TemporaryDirectory(prefix="pads-talk-") as folder:
        settings = [word for text in (*overrides, f"run.dir={folder}") for word in ("--set", text)]
        command = [sys.executable, "-c", code, "demo", "--json", *settings]
        return run_child(command, ["peak_rss_mb", "turns"], TALK_TIMEOUT_S, cwd=ROOT)
