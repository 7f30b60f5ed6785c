"""The sub-command ``acceptance``: measure, keep the record, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.engine import translators_of
from bench.harness.run import Harness
from bench.report import measurement, report
from pads_runtime import assemble
from pads_runtime.config import PadsSettings
from pads_runtime.errors import InputError, UsageError
from pads_runtime.models import Registry
from pads_runtime.models.hashing import sha256_of
from pads_runtime.runs import RunRecord, command_line

from .run import Asked, measure

_WIDTH = 160


def run(
    asked: Asked,
    settings: PadsSettings,
    registry: Registry,
    translator: Path | None,
    as_json: bool,
    say: Callable[[str], None],
) -> None:
    """Measure everything, write one line of metrics per row, print tables or one JSON object."""
    path = registry.resolve(settings.engine.model)
    asked = replace(asked, models={Path(path).stem: path, **asked.models}, translators=translators_of(path, translator))
    models = assemble.model_hashes(settings, registry) | {name: sha256_of(p) for name, p in asked.models.items()}
    with RunRecord.begin("bench-acceptance", "benchmark: acceptance", settings, models, command_line()) as record:
        harness = Harness()
        done = report("acceptance", [], ["python", "-m", "bench", *sys.argv[1:]]).as_json()
        del done["measurements"]
        done |= {"models": {name: models[name] for name in asked.models}}
        done |= measure(settings.engine, asked, say) | {"record": record.path.name}
        for row in [*done["rows"], *done["agreement"]]:
            record.metrics(**row)
            del row["by_item"]
        record.metrics(**{key: done[key] for key in done if key not in ("rows", "agreement")})
        shares = [row["acceptance"][0] for row in done["rows"] if row["acceptance"][0] is not None]
        harness.close(record, done, [measurement("acceptance", [max(shares)])] if shares else [], timed=False)
    if as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        show(done, Console(width=max(_WIDTH, Console().width)))
    say(f"record: {record.path}")


def parse_exits(text: str) -> tuple[int, ...]:
    """Layer numbers with commas between, in rising order. Raises UsageError."""
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part}))
    except ValueError:
        raise UsageError(f"--exits {text}: give layer numbers with commas between, such as 6,10,15") from None


def parse_models(given: Sequence[str]) -> dict[str, Path]:
    """``NAME=FILE`` or ``FILE``, whose name is then the file's. Raises UsageError, InputError."""
    found: dict[str, Path] = {}
    for text in given:
        name, is_named, file = text.partition("=")
        path = Path(file if is_named else name)
        name = name if is_named else path.stem
        if not name or name in found:
            raise UsageError(f"--model {text}: give each model a name of its own, as NAME=FILE.gguf")
        if not path.is_file():
            raise InputError(f"--model {text}: there is no file '{path}'")
        found[name] = path
    return found


def show(done: dict[str, Any], console: Console) -> None:
    """Tables for people."""
    lengths = sorted({row["draft_len"] for row in done["rows"]})
    for name, mode in dict.fromkeys((row["exits"], row["mode"]) for row in done["rows"]):
        table = Table(title=f"{name}, {mode}: accepted / drafted, in brackets through PyTorch".replace("[", r"\["))
        table.add_column("exit")
        for heading in ("agreement", *(f"{m} drafts" for m in lengths), "accepted a round"):
            table.add_column(heading, justify="right")
        mine = [row for row in done["rows"] if (row["exits"], row["mode"]) == (name, mode)]
        for exit_layer in dict.fromkeys(row["exit"] for row in mine):
            cells = [row for row in mine if row["exit"] == exit_layer]
            agreed = next(
                r for r in done["agreement"] if (r["exits"], r["mode"], r["exit"]) == (name, mode, exit_layer)
            )
            figures = [_cell(agreed["agreement"], agreed["pytorch"])]
            figures += [_cell(row["acceptance"], row["pytorch"]) for row in cells]
            table.add_row(str(exit_layer), *figures, str(cells[-1]["per_round"]))
        console.print(table)
    for row in done["full_depth_loss"]:
        console.print(f"full-depth loss, nats/token: {row}", markup=False)
    for key in ("same_as_the_engine_s_own_loop", "translators_over_bare_exits", "pytorch"):
        console.print(f"{key}: {done[key]}", markup=False)
    console.print(f"[{done['tag']}] command: {done['command']}", markup=False)


def _cell(share: Sequence[float | None], torch: float | None) -> str:
    if share[0] is None:
        return "-"
    return f"{share[0]:.3f}" + (f" ({torch:.3f})" if torch is not None else "")
