"""The sub-command ``export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .run import Export, kinds_of
from .run import export as run_export


def export(
    source: Annotated[Path, typer.Argument(help="A run's work folder, an adapter, or an F16 GGUF file to quantise.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path(),
    types: Annotated[str, typer.Option(help="Quantised types, each made from F16.")] = "Q4_K_M,Q4_0,Q5_K_M,Q6_K,Q8_0",
    model: Annotated[str, typer.Option(help="What the adapter was trained on, if its run did not say.")] = "",
    like: Annotated[str, typer.Option(help="A GGUF file of the same model, for a checkpoint's tokenizer.")] = "",
    name: Annotated[str, typer.Option(help="Name of the files.")] = "",
    checkpoint: Annotated[bool, typer.Option("--checkpoint", help="Also keep the merged checkpoint.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fold a trained adapter into its model and write GGUF files: F16, and quantised types from it."""
    job = Export(source, out, tuple(kinds_of(types)), model, like, name, checkpoint)
    report = run_export(job, lambda line: typer.echo(line, err=True))
    if as_json:
        print(json.dumps(report))
        return
    for file in report["files"]:
        print(file["file"])
