"""``pads devices``: the microphones and speakers of this machine, and which of them a talk would take."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def devices(as_json: Json = False) -> None:
    """List microphones and speakers; * marks the defaults. A talk takes a number or part of a name."""
    from .audio.devices import list_devices

    found = list_devices()
    if as_json:
        print(json.dumps({"devices": [asdict(device) for device in found]}, ensure_ascii=False))
        return
    console = Console()
    if not found:
        console.print("no audio device found; connect one, or start the sound server")
        return
    table = Table("number", "name", "system", "microphone", "speaker", "own rate")
    for device in found:
        table.add_row(
            str(device.index),
            escape(device.name),
            escape(device.host_api),
            _ways(device.input_channels, device.default_input),
            _ways(device.output_channels, device.default_output),
            f"{device.default_rate} Hz",
        )
    console.print(table)
    console.print("choose with --set audio.input_device=... and --set audio.output_device=... (number or name)")


def _ways(channels: int, default: bool) -> str:
    return ("* " if default else "") + (f"{channels} ch" if channels else "-")
