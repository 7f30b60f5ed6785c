"""The sub-command ``vap``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pads_runtime.config import ROOT


def vap(
    data: Annotated[Path, typer.Option(help="Folder of recordings: AMI's layout, stereo files, or clips with words.")],
    out: Annotated[Path, typer.Option(help="Folder for the model, its fold heads and its card.")] = ROOT / "models",
    work: Annotated[Path | None, typer.Option(help="Checkpoints and metrics.jsonl; the same folder resumes.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps per head.")] = 300,
    strength: Annotated[float, typer.Option(min=1e-6, help="Inverse of the weight penalty.")] = 0.001,
    copies: Annotated[int, typer.Option(min=0, help="Augmented copies of each talk (pace, noise, room, band).")] = 0,
    held_out: Annotated[list[str] | None, typer.Option(help="Recording never trained on; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train the streaming turn-end heads on smart-turn's frozen encoder."""
    from .run import Options, run

    options = Options(data, out, work or ROOT / "runs" / "train-vap", steps, strength, copies, tuple(held_out or ()))
    report = run(options, lambda line: typer.echo(line, err=True))
    if as_json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:22} {value}")
