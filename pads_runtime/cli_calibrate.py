"""``pads calibrate``: what a step, a draft and a verification cost here, kept for the engine to choose by."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .config import load

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. engine.threads=1; may be repeated."),
]
Config = Annotated[str | None, typer.Option("--config", help="A settings file: a name in configs/ or a path.")]


def calibrate(as_json: Json = False, overrides: Set = None, config: Config = None) -> None:
    """Measure what drafting costs on this machine with the chosen model, and keep it. Best when it is idle."""
    from .engine import calibration
    from .engine.costs import DepthCosts
    from .engine.model import Model
    from .models import Registry

    settings = load(config, overrides or []).engine
    threads = calibration.Threads.of(settings)
    path = Registry.load().resolve(settings.model)
    if _busy():
        print("this machine is busy: the costs will be off; measure again when it is idle", file=sys.stderr)
    model = Model(path)
    try:
        print(f"measuring {model.description}, {threads}", file=sys.stderr, flush=True)
        costs: DepthCosts = calibration.measure(model, threads)
    finally:
        model.close()
    where = calibration.save(costs, path, threads)
    if as_json:
        found: dict[str, Any] = {"model": settings.model, "threads": asdict(threads), "file": str(where)}
        print(json.dumps(found | {"costs": costs.as_json(), "break_even": _break_even(costs)}))
        return
    _show(costs, f"{settings.model}, {threads}")
    print(f"kept in {where}", file=sys.stderr)


def _busy() -> bool:
    """Whether other programs keep half of the processors at work."""
    return os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1)


def _show(costs: Any, title: str) -> None:
    table = Table(title=title, caption="ms; one token by all layers: " + f"{costs.plain_ms:.2f}")
    for column in ("exit", "draft", "carry", "verify 2", "verify 5", "verify 9", "pays from acceptance"):
        table.add_column(column, justify="right")
    for layer, needed in _break_even(costs).items():
        exit_costs = costs.exits[layer]
        figures = [exit_costs.draft, exit_costs.carry, *(exit_costs.deep[n] for n in (2, 5, 9))]
        table.add_row(str(layer), *(f"{ms:.2f}" for ms in figures), "never" if needed is None else f"{needed:.2f}")
    Console().print(table)


def _break_even(costs: Any) -> dict[int, float | None]:
    """For each exit the lowest acceptance at which some draft length is as fast as plain; None if there is none."""
    lengths = range(1, costs.max_draft + 1)
    grid = [i / 100 for i in range(101)]
    return {
        k: next((a for a in grid if any(costs.speed_up(k, m, a, draft_head=True) >= 1.0 for m in lengths)), None)
        for k in costs.exits
    }
