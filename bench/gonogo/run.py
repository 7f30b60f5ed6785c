"""``bench gonogo``: every test, what it found, and the verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from pads_runtime.config import PadsSettings
from pads_runtime.engine.model import Model
from pads_runtime.errors import PadsError, UsageError
from pads_runtime.models import Registry

from .. import pause_bench
from ..deep_step import deep_steps
from ..harness.child import ChildFailed
from ..pauses import AMI_RULES
from ..report import Measurement, measurement
from . import probes, verdicts
from .memory_speed import memory_gb_s
from .verdicts import Bandwidth, Verdict

TESTS = ("bandwidth", "pauses", "acceptance", "thermal", "memory")
RESERVE_MB = 1000.0
"""What the rest of the machine keeps."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What is tested."""

    only: tuple[str, ...]
    ami: Path
    switchboard: Path | None
    with_1b: bool
    soak_s: float
    budget_mb: float | None
    runs: Path
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """Rows of one test, its verdict, and what does not fit into rows."""

    rows: Sequence[Measurement]
    verdict: Verdict
    detail: Any = None


def measure(
    asked: Asked, settings: PadsSettings, registry: Registry, say: Say
) -> tuple[list[Measurement], dict[str, Any]]:
    """All tests asked for. One that fails for a reason of its own is NOT MEASURED and says why; the others go on.

    Raises UsageError for an unknown test and PadsError if the model cannot be loaded.
    """
    unknown = [name for name in asked.only if name not in TESTS]
    if unknown:
        raise UsageError(f"--only {unknown[0]}: there is no such test; use some of {', '.join(TESTS)}")
    model = Model(registry.resolve(settings.engine.model))
    name = Path(settings.engine.model).stem
    tests: dict[str, Callable[[], Found]] = {
        "bandwidth": lambda: _bandwidth(model, say),
        "pauses": lambda: _pauses(asked, model, name, settings, say),
        "acceptance": lambda: _acceptance(asked, model, settings, say),
        "thermal": lambda: _thermal(asked, model, say),
        "memory": lambda: _memory(asked, say),
    }
    rows: list[Measurement] = []
    detail: dict[str, Any] = {"verdicts": []}
    try:
        for test in [t for t in TESTS if not asked.only or t in asked.only]:
            found = _tried(test, tests[test])
            say(f"{test}: {found.verdict.answer.value}: {'; '.join(found.verdict.reasons)}")
            rows += found.rows
            detail["verdicts"].append(found.verdict)
            if found.detail is not None:
                detail[test] = found.detail
    finally:
        model.close()
    answers: list[Verdict] = detail["verdicts"]
    return rows, detail | {"verdicts": [v.as_json() for v in answers], "overall": verdicts.overall(answers).value}


def show(detail: dict[str, Any], console: Console) -> None:
    """The verdicts for people."""
    table = Table("test", "verdict", "why", "would be NO-GO if", title=f"overall: {detail['overall']}")
    for verdict in detail["verdicts"]:
        table.add_row(verdict["test"], verdict["answer"], "\n".join(verdict["reasons"]), verdict["kill_signal"])
    console.print(table, markup=False)


def _tried(test: str, make: Callable[[], Found]) -> Found:
    try:
        return make()
    except ChildFailed as exc:
        return Found((), verdicts.not_measured(test, str(exc)), {"output": exc.output})
    except PadsError as exc:
        return Found((), verdicts.not_measured(test, str(exc)))


def _bandwidth(model: Model, say: Say) -> Found:
    cores = os.cpu_count() or 1
    counts = probes.thread_counts(cores)
    say(f"bandwidth: memory, and decoding on {', '.join(map(str, counts))} threads")
    before = memory_gb_s(cores)
    rates = probes.decode_rates(model, counts)
    gb_s = max(before, memory_gb_s(cores))  # around the decoding: what others took away then is not the memory's
    found = Bandwidth(rates, float(model.path.stat().st_size), gb_s)
    rows = [measurement(f"decode_rate_{n}t", [rate], "tokens/s", note="one token a pass") for n, rate in rates.items()]
    rows.append(measurement("tokens_per_s", [found.best], "tokens/s", note=f"best of {counts} threads"))
    rows.append(measurement("memory_bandwidth", [gb_s], "GB/s", note=f"best of read, copy, triad on {cores} threads"))
    note = "tokens/s at best times the model file's bytes"
    rows.append(measurement("achieved_bandwidth", [found.achieved_gb_s], "GB/s", note=note))
    return Found(rows, verdicts.bandwidth(found))


def _pauses(asked: Asked, model: Model, name: str, settings: PadsSettings, say: Say) -> Found:
    wanted = pause_bench.Asked(
        asked.ami, asked.switchboard, model.path, name, settings.engine.threads, settings.vad.pause_s, asked.with_1b
    )
    found = pause_bench.read(wanted, say, AMI_RULES[:1])
    steps = deep_steps(model, name, settings.engine.threads, asked.with_1b, say)
    fits = pause_bench.shares(found, steps, settings.vad.pause_s)
    rows = pause_bench.rows(found, steps, fits)
    return Found(rows, verdicts.pauses(fits, name), [p.as_json() for p in found])


def _acceptance(asked: Asked, model: Model, settings: PadsSettings, say: Say) -> Found:
    say("acceptance: the latest record, against what a draft costs here")
    run, agreement = probes.recorded_agreement(probes.runs_of(asked.runs))
    if not agreement:
        return Found((), verdicts.acceptance({}, run))
    ups = probes.speed_ups(probes.depth_costs(model, settings.engine), agreement)
    if not ups:
        return Found((), verdicts.not_measured("acceptance", f"run {run} has no exit whose cost is known here"))
    best = max(agreement.values())
    rows = [measurement("acceptance", [best], "share", note=f"best exit of run {run}: tokens guessed as all layers do")]
    rows.append(measurement("expected_speed_up", [max(ups.values())], "x", note="over plain decoding, at best"))
    return Found(rows, verdicts.acceptance(ups, run), {k: round(v, 4) for k, v in ups.items()})


def _thermal(asked: Asked, model: Model, say: Say) -> Found:
    say(f"thermal: {asked.soak_s:.0f} s of decoding on all cores")
    samples = probes.soak(model, os.cpu_count() or 1, asked.soak_s, say)
    log = [[s.t_s, s.celsius, s.mhz, round(s.tokens_s, 2)] for s in samples]
    rows = [measurement("soak_rate", [s.tokens_s for s in samples], "tokens/s")] if samples else []
    return Found(rows, verdicts.thermal(samples), {"columns": ["s", "celsius", "mhz", "tokens_s"], "log": log})


def _memory(asked: Asked, say: Say) -> Found:
    budget = asked.budget_mb
    if budget is None:
        budget = psutil.virtual_memory().available / 1e6 - RESERVE_MB
    say("memory: a whole talk in a process of its own")
    talk = probes.whole_talk(asked.overrides)
    peak = float(talk["peak_rss_mb"])
    rows = [measurement("talk_peak_rss", [peak], "MB", limit=budget, note=f"scripted talk of {talk['turns']} turns")]
    return Found(rows, verdicts.memory(peak, budget))
