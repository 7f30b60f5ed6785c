"""What the sub-commands share: options, and a benchmark from its measurements to record and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pads_runtime import assemble
from pads_runtime.config import ROOT, PadsSettings
from pads_runtime.models import Registry

from .harness.run import recorded
from .report import Measurement, Report

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. engine.threads=1; may be repeated."),
]
Ami = Annotated[Path, typer.Option("--ami", help="AMI's manual annotations: folder or archive with words/*.words.xml.")]
Switchboard = Annotated[
    Path | None, typer.Option("--switchboard", help="Word times of Switchboard: words.tsv.xz or its folder.")
]
With1B = Annotated[
    bool, typer.Option("--with-1b", help="Measure a model of 1B, random weights; 700 MB of disk for the time.")
]
RunsDir = Annotated[Path, typer.Option("--runs", help="Folder of run records.")]
AMI = ROOT.parent / "shared" / "data" / "ami_nxt" / "ami_manual_nxt.tar.xz"
SWITCHBOARD = ROOT.parent / "shared" / "data" / "switchboard_timed"


def record(
    name: str,
    settings: PadsSettings,
    registry: Registry,
    as_json: bool,
    measure: Callable[[], list[Measurement]],
    named: Mapping[str, str] | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    """``named`` says which rows are the figures that every record has; see ``bench.harness.essentials``."""
    done, path = recorded(name, settings, assemble.model_hashes(settings, registry), measure, named, detail)
    _print(done, as_json)
    say(f"record: {path}")


def say(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)


def _print(done: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(done.as_json(), ensure_ascii=False))
    else:
        done.show(Console())
