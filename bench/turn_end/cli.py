"""The sub-command ``turn_end``: measure, keep the record, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.harness.run import Harness
from bench.report import report
from pads_runtime import assemble
from pads_runtime.config import PadsSettings
from pads_runtime.models import Registry
from pads_runtime.runs import RunRecord, command_line

from . import reliability
from .run import Asked, measure

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

_LOOP_COLUMNS = (
    ("latency_ms_at_5pct", "ms at 5 %"),
    ("latency_ms_at_10pct", "ms at 10 %"),
    ("carried_cutoffs_10pct", "carried: cut"),
    ("carried_latency_ms_10pct", "carried: ms"),
    ("rule_cutoffs", "the runtime's rule: cut"),
    ("rule_latency_ms", "its ms"),
    ("asked_per_minute", "asked a minute"),
    ("cpu_share", "of a core"),
)


def run(asked: Asked, settings: PadsSettings, registry: Registry, as_json: bool, say: Callable[[str], None]) -> None:
    """Measure everything, write one line of metrics per row and the plots, print tables or one JSON object."""
    models = assemble.model_hashes(settings, registry)
    for name in ("smart-turn-v3.2", "vap-turn"):
        for file in registry.entry(name).files:
            models[f"{name}/{file.name}"] = file.sha256 or "not pinned"
    with RunRecord.begin("bench-turn_end", "benchmark: turn_end", settings, models, command_line()) as record:
        harness = Harness()
        done = report("turn_end", [], ["python", "-m", "bench", *sys.argv[1:]]).as_json()
        del done["measurements"]
        done |= measure(asked, settings, registry, say) | {"record": record.path.name}
        for row in [*done["rows"], *done["in_loop"]]:
            record.metrics(**row)
        record.metrics(**{key: done[key] for key in done if key not in ("rows", "in_loop")})
        harness.close(record, done)
        for labels, found in done["reliability"].items():
            tables = {source: told["bands"] for source, told in found.items()}
            title = f"Reliability of p_end, 0.2 s into the silence, telephone, {labels.replace('_', ' ')}"
            (record.path / f"reliability-{labels}.svg").write_text(reliability.plot(tables, title), encoding="utf-8")
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
    _show_loop(done, console)
    for key in (
        "lead",
        "rules",
        "reliability",
        "vap_phrases_auc_end_against_early",
        "cost",
        "cpu_share",
        "real_time_factor_at_10_hz",
    ):
        if key in done:
            console.print(f"{key}: {done[key]}", markup=False)
    console.print(f"command: {done['command']}", markup=False)


def _show_loop(done: dict[str, Any], console: Console) -> None:
    for corpus, labels in dict.fromkeys((row["corpus"], row["labels"]) for row in done["in_loop"]):
        rows = [row for row in done["in_loop"] if (row["corpus"], row["labels"]) == (corpus, labels)]
        table = Table(title=f"{corpus}, {labels}, as the runtime hears it [{done['tag']}]".replace("[", r"\["))
        table.add_column("candidate")
        for _, heading in _LOOP_COLUMNS:
            table.add_column(heading, justify="right")
        for row in rows:
            shown = [_figure(row[name]) if isinstance(row[name], list) else str(row[name]) for name, _ in _LOOP_COLUMNS]
            table.add_row(row["candidate"], *shown)
        console.print(table)


def _figure(figure: list[float | None] | None) -> str:
    if figure is None or figure[0] is None:
        return "-"
    low, high = ("-" if x is None else _short(x) for x in figure[1:])
    return f"{_short(figure[0])} [{low}, {high}]"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"
