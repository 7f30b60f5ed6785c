"""``pads replay --ami``: the participants of an annotated corpus as users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import assemble
from .config import PadsSettings, RunSettings
from .errors import InputError
from .models import Registry
from .runs import RunRecord, command_line

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MeetingOptions:
    """The options of ``pads replay`` that only make sense with ``--ami``."""

    meeting: tuple[str, ...] = ()
    participant: str | None = None
    audio: Path | None = None
    recognise: bool = False
    workers: int = 1
    scheduler: str | None = None
    resume: Path | None = None


def replay_corpus(corpus: Path, options: MeetingOptions, settings: PadsSettings, progress: Progress) -> dict[str, Any]:
    """Replay all participants asked for and leave a run folder with a row each. Raises PadsError."""
    from .meetings import figures, sweep

    if options.resume is not None and not options.resume.is_dir():
        raise InputError(f"run folder '{options.resume}' to go on with not found")
    asked = sweep.Sweep(
        corpus,
        options.meeting,
        options.participant,
        options.workers,
        options.scheduler,
        options.audio,
        options.recognise,
    )
    sweep.check(asked, settings)
    hashes = assemble.model_hashes(settings, Registry.load())
    how = "annotations and recordings" if options.audio else "annotations alone"
    with RunRecord.begin(
        "replay-ami", f"participants of {corpus.name}, {how}", settings, hashes, command_line()
    ) as record:
        folder = options.resume or record.path
        record.log(f"rows in {folder}")
        # Each replay of a recording leaves a run folder of its own, beside the rows of all.
        inside = (
            settings.model_copy(update={"run": RunSettings(dir=record.path / "talks")}) if options.audio else settings
        )
        question = sweep.question(asked, settings, hashes)
        rows = sweep.run(asked, inside, folder, question, progress)
        summary = {
            "run": str(record.path),
            "rows": str(folder / sweep.ROWS),
            "words": _words(options),
            **figures.totals(rows),
        }
        record.metrics(**summary)
    return summary


def _words(options: MeetingOptions) -> str:
    return "recognised" if options.audio is not None and options.recognise else "annotated"


def show(console: Console, summary: dict[str, Any]) -> None:
    """The totals as a table."""
    table = Table(
        title=f"{summary['participants']} participants of {summary['meetings']} meetings, {summary['hours']} h"
    )
    table.add_column("figure")
    table.add_column("found", justify="right")
    for name, value in summary.items():
        if isinstance(value, dict):
            value = f"p50 {value['p50']}, p95 {value['p95']} (n {value['n']})"
        if name not in ("meetings", "participants", "hours", "run", "rows"):
            table.add_row(name.replace("_", " "), str(value))
    console.print(table)
    console.print(f"rows: {summary['rows']}")
