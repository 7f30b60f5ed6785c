"""The sub-command ``policies``: measure, keep the record, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.engine import translators_of
from bench.harness.run import Harness
from bench.report import report
from pads_runtime import assemble
from pads_runtime.config import PadsSettings
from pads_runtime.errors import UsageError
from pads_runtime.models import Registry
from pads_runtime.runs import RunRecord, command_line

from .curve import BUDGETS
from .run import SETS, Asked, measure

_WIDTH = 160


@dataclass(frozen=True)
class Options:
    """The command line."""

    ami: Path
    dailydialog: Path
    translator: Path | None
    exits: tuple[int, ...]
    sets: str
    prompts: int
    generate: bool


def run(
    options: Options, settings: PadsSettings, registry: Registry, as_json: bool, say: Callable[[str], None]
) -> None:
    """Measure everything, write one line of metrics per row, print tables or one JSON object."""
    path = registry.resolve(settings.engine.model)
    asked = Asked(
        path,
        options.ami,
        options.dailydialog,
        assemble.acts(settings.acts, registry).p_deep,
        translators_of(path, options.translator),
        options.exits,
        parse_sets(options.sets),
        options.prompts,
        options.generate,
    )
    models = assemble.model_hashes(settings, registry)
    with RunRecord.begin("bench-policies", "benchmark: policies", settings, models, command_line()) as record:
        harness = Harness()
        done = report("policies", [], ["python", "-m", "bench", *sys.argv[1:]]).as_json()
        del done["measurements"]
        done |= measure(settings.engine, asked, say) | {"record": record.path.name}
        tables = [
            key for key, value in done.items() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        for key in tables:
            for row in done[key]:
                record.metrics(table=key, **row)
        record.metrics(**{key: done[key] for key in done if key not in tables})
        harness.close(record, done)
    if as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        show(done, Console(width=max(_WIDTH, Console().width)))
    say(f"record: {record.path}")


def parse_sets(text: str) -> tuple[str, ...]:
    """Names of sets with commas between, in the order of SETS. Raises UsageError."""
    asked = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in asked if name not in SETS]
    if unknown or not asked:
        raise UsageError(f"--sets {text}: use some of {', '.join(SETS)}")
    return tuple(name for name in SETS if name in asked)


def show(done: dict[str, Any], console: Console) -> None:
    """Tables for people."""
    for name in done["sets"]:
        size = done["sets"][name]
        title = f"{name}: {size['prompts']} prompts, {size['positions']} positions; agreement at a deep fraction"
        table = Table(title=f"{title} [{done['tag']}]".replace("[", r"\["))
        for column in ("exit", "policy", *(f"{b:.0%}" for b in BUDGETS), *(f"over a coin at {b:.0%}" for b in BUDGETS)):
            table.add_column(column, justify="right")
        for k in done["exits"]:
            for row in done["references"]:
                if (row["set"], row["exit"]) == (name, k):
                    table.add_row(str(k), row["policy"], _figure(row["agreement"]))
            for policy in dict.fromkeys(row["policy"] for row in done["matched"]):
                mine = [r for r in done["matched"] if (r["set"], r["exit"], r["policy"]) == (name, k, policy)]
                cells = [_figure(r["agreement"]) for r in mine] + [_figure(r["over_coin"]) for r in mine]
                table.add_row(str(k), policy, *cells)
        console.print(table)
    for key in ("differences", "generation"):
        for row in done.get(key, []):
            console.print(f"{key}: {row}", markup=False)
    console.print(f"sha256: {done['sha256']}", markup=False)
    console.print(f"[{done['tag']}] command: {done['command']}", markup=False)


def _figure(figure: Sequence[float | None] | str) -> str:
    if isinstance(figure, str):
        return figure
    value, low, high = ("-" if x is None else f"{x:.3f}" for x in figure)
    return f"{value} [{low}, {high}]"
