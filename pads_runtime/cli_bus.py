"""``pads bus``: what there is to do with the broker beside talking."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .config import load

bus_app = typer.Typer(name="bus", help="The MQTT broker.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. bus.host=broker; may be repeated."),
]
Config = Annotated[str | None, typer.Option("--config", help="A settings file: a name in configs/ or a path.")]


@bus_app.command()
def check(as_json: Json = False, overrides: Set = None, config: Config = None) -> None:
    """Whether the broker can be reached with these settings, lets us in, and gives back what we send."""
    from .bus.check import check as examine

    settings = load(config, overrides or []).bus
    steps = asyncio.run(examine(settings))
    good = all(step.good for step in steps)
    if as_json:
        print(json.dumps({"reachable": good, "steps": [asdict(step) for step in steps]}))
    else:
        table = Table("", "what", "found", "what to do")
        for step in steps:
            state = "[green]ok[/]" if step.good else "[red]fail[/]"
            table.add_row(state, step.name, escape(step.found), escape(step.advice))
        Console().print(table)
    raise typer.Exit(0 if good else 1)


@bus_app.callback()
def _bus() -> None:
    """The MQTT broker: is it there?"""
