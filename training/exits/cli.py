"""The sub-command ``exits``: fits the translators of a model's early exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pads_runtime.config import ROOT, EngineSettings
from pads_runtime.errors import UsageError


def exits(
    model: Annotated[str, typer.Option(help="A registry name or a GGUF file.")] = EngineSettings().model,
    data: Annotated[Path, typer.Option(help="Folder that holds dailydialog.tsv.gz.")] = ROOT.parent
    / "shared"
    / "data"
    / "dailydialog",
    exit_layers: Annotated[str, typer.Option("--exits", help="Layers to exit at.")] = "6,10,15,20,25",
    positions: Annotated[
        int,
        typer.Option(
            min=0,
            help="Least positions of prompts and text; more than the answered prompts have makes more text be read.",
        ),
    ] = 0,
    own_replies: Annotated[int, typer.Option(min=1, help="Prompts that the model answers to train on.")] = 340,
    out: Annotated[Path, typer.Option(help="Folder for the translators and their card.")] = ROOT / "models",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit exit translators: let early exits guess what the whole model will say. Stopped, it goes on when run again."""
    chosen = parse_exits(exit_layers)
    from .fit import Plan
    from .gather import Amounts
    from .run import Job, run

    report = run(Job(model, data, chosen, Amounts(own_replies, positions), out, Plan()), _say)
    if as_json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        print(f"{key:26} {value}")


def parse_exits(text: str) -> tuple[int, ...]:
    """Layer numbers with commas between, in rising order. Raises UsageError."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise UsageError(f"--exits {text}: give layer numbers with commas between, such as 6,10,15") from None


def _say(line: str) -> None:
    typer.echo(line, err=True)
