"""The sub-command ``turn_end``: measure, keep the record, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.report import report
from pads_runtime import assemble
from pads_runtime.config import PadsSettings
from pads_runtime.models import Registry
from pads_runtime.runs import RunRecord, command_line

from .run import measure

_WIDTH = 200
_COLUMNS = (
    ("latency_ms_at_5pct", "ms at 5 %"),
    ("latency_ms_at_10pct", "ms at 10 %"),
    ("cutoffs_at_300ms", "cut at 300 ms"),
    ("cutoffs_at_600ms", "cut at 600 ms"),
    ("carried_cutoffs_10pct", "carried: cut"),
    ("carried_latency_ms_10pct", "carried: ms"),
    ("auc", "AUC"),
    ("weighted_f1", "F1"),
)


def run(data: Path, settings: PadsSettings, registry: Registry, as_json: bool, say: Callable[[str], None]) -> None:
    """Measure everything, write one line of metrics per row, print a table or one JSON object."""
    models = assemble.model_hashes(settings, registry)
    for name in ("smart-turn-v3.2", "vap-turn"):
        for file in registry.entry(name).files:
            models[f"{name}/{file.name}"] = file.sha256 or "not pinned"
    with RunRecord.begin("bench-turn_end", "benchmark: turn_end", settings, models, command_line()) as record:
        done = report("turn_end", [], ["python", "-m", "bench", *sys.argv[1:]]).as_json()
        del done["measurements"]
        done |= measure(data, settings, registry, say) | {"record": record.path.name}
        for row in done["rows"]:
            record.metrics(**row)
        record.metrics(**{key: done[key] for key in done if key != "rows"})
    if as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        show(done, Console(width=max(_WIDTH, Console().width)))
    say(f"record: {record.path}")


def show(done: dict[str, Any], console: Console) -> None:
    """Tables for people: one per corpus and label set."""
    for corpus, labels in dict.fromkeys((row["corpus"], row["labels"]) for row in done["rows"]):
        rows = [row for row in done["rows"] if (row["corpus"], row["labels"]) == (corpus, labels)]
        title = f"{corpus}, {labels}: {rows[0]['holds']} holds, {rows[0]['ends']} turn ends"
        table = Table(title=f"{title} [{done['tag']}]".replace("[", r"\["))
        table.add_column("candidate")
        for _, heading in _COLUMNS:
            table.add_column(heading, justify="right")
        for row in rows:
            if not row.get("rule"):
                table.add_row(row["candidate"], *(_figure(row.get(name)) for name, _ in _COLUMNS))
        console.print(table)
        for row in rows:
            if row.get("rule"):
                cut, wait = _figure(row["cutoffs"]), _figure(row["latency_ms"])
                console.print(f"{row['candidate']}: cut-offs {cut}, latency {wait} ms", markup=False)
    for key in ("lead", "vap_phrases_auc_end_against_early", "cost", "cpu_share", "real_time_factor_at_10_hz"):
        console.print(f"{key}: {done[key]}", markup=False)
    console.print(f"command: {done['command']}", markup=False)


def _figure(figure: list[float | None] | None) -> str:
    if figure is None or figure[0] is None:
        return "-"
    low, high = ("-" if x is None else _short(x) for x in figure[1:])
    return f"{_short(figure[0])} [{low}, {high}]"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"
