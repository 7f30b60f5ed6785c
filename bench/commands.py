"""Sub-commands about records and fitness: pauses, gonogo, report, cite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pads_runtime.config import load
from pads_runtime.models import Registry

from .console import AMI, SWITCHBOARD, Ami, Json, RunsDir, Set, Switchboard, With1B, record, say
from .report import Measurement


def register(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command()(pauses)
    app.command()(gonogo)
    app.command("report")(report_page)
    app.command()(cite)


def pauses(
    ami: Ami = AMI,
    as_json: Json = False,
    switchboard: Switchboard = None,
    with_1b: With1B = False,
    overrides: Set = None,
) -> None:
    """How long people pause, and the share of pauses that one deep step of a model fits into."""
    from . import pause_bench as bench

    settings, registry = load(None, overrides or []), Registry.load()
    engine = settings.engine
    path = registry.resolve(engine.model)
    asked = bench.Asked(ami, switchboard, path, Path(engine.model).stem, engine.threads, settings.vad.pause_s, with_1b)
    detail: dict[str, Any] = {}

    def measure() -> list[Measurement]:
        rows, found = bench.measure(asked, say)
        detail.update(found)
        return rows

    record("pauses", settings, registry, as_json, measure, detail=detail)


def gonogo(
    as_json: Json = False,
    only: Annotated[
        str, typer.Option("--only", help="Tests, by commas: bandwidth, pauses, acceptance, thermal, memory.")
    ] = "",
    ami: Ami = AMI,
    switchboard: Switchboard = SWITCHBOARD,
    with_1b: With1B = False,
    soak: Annotated[float, typer.Option(min=4, max=7200, help="Seconds of decoding for the thermal test.")] = 30.0,
    memory_budget: Annotated[
        float | None, typer.Option(min=1, help="MB that a talk may take; default: what is free, less 1000.")
    ] = None,
    runs: RunsDir = Path("runs"),
    overrides: Set = None,
) -> None:
    """Whether this machine is fit: five tests, each GO, NO-GO or NOT MEASURED, with reasons."""
    from .gonogo import run as bench

    settings, registry = load(None, overrides or []), Registry.load()
    calls = tuple(overrides or [])
    tests = tuple(name for name in only.split(",") if name)
    has_calls = switchboard is not None and switchboard.exists()
    there = switchboard if has_calls or switchboard != SWITCHBOARD else None
    asked = bench.Asked(tests, ami, there, with_1b, soak, memory_budget, runs, calls)
    detail: dict[str, Any] = {}

    def measure() -> list[Measurement]:
        rows, found = bench.measure(asked, settings, registry, say)
        detail.update(found)
        return rows

    record("gonogo", settings, registry, as_json, measure, detail=detail)
    if not as_json:
        bench.show(detail, Console())


def report_page(
    runs: RunsDir = Path("runs"),
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where the page goes; default: report.html beside the records.")
    ] = None,
) -> None:
    """One page of all run records: tables and plots, every number with its tag and its run."""
    from .page import write
    from .records.evidence import load_evidence
    from .records.read import read_runs

    replaced = {name: str(kept["superseded_by"]) for name, kept in load_evidence().items() if "superseded_by" in kept}
    page = out or runs / "report.html"
    write(page, read_runs(runs), runs, replaced)
    print(page)


def cite(
    run: Annotated[str, typer.Argument(help="The run's name, or the path of its folder.")],
    runs: RunsDir = Path("runs"),
    supersedes: Annotated[str | None, typer.Option(help="A cited run whose figures this one replaces.")] = None,
) -> None:
    """Copy what matters of a run into bench/evidence, so that a document may name it."""
    from .records.evidence import cite as copy
    from .records.evidence import load_evidence

    path = copy(Path(run) if Path(run).is_dir() else runs / run, supersedes)
    load_evidence(path.parent)
    print(path)
