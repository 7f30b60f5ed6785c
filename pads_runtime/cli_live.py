"""``pads talk`` and ``pads dashboard``: a live talk, and a page to watch it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from .config import load

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. audio.input_device=2; may be repeated."),
]
Config = Annotated[str | None, typer.Option("--config", help="A settings file: a name in configs/ or a path.")]

PORT = 8377
STOPPED = 130


def talk(
    as_json: Json = False,
    plain: Annotated[bool, typer.Option("--plain", help="One line a fact instead of a screen, for logs.")] = False,
    overrides: Set = None,
    config: Config = None,
) -> None:
    """Talk with PADS: microphone in, loudspeaker out. q or Ctrl-C ends the talk; nothing of its sound is kept unless
    talk.record_minutes says so."""
    from . import live, report

    settings = load(config or "talk", overrides or [])
    person = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    shown = live.Shown.LINES_ON_STDERR if as_json else live.Shown.SCREEN if person and not plain else live.Shown.LINES
    held = live.talk(settings, _progress, shown)
    if as_json:
        print(json.dumps(held.talk.summary, ensure_ascii=False))
    else:
        report.talk(Console(), held.talk)
    if held.interrupted:
        raise typer.Exit(STOPPED)


def dashboard(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is found; 0 is any free port.")] = PORT,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="PADS_DASHBOARD_TOKEN", help="What a browser must bring along: ?token=..."),
    ] = None,
    as_json: Json = False,
    overrides: Set = None,
    config: Config = None,
) -> None:
    """A page to watch: the live talk, the machine, the latest runs. Read-only, and for this machine only."""
    from .dashboard.guard import Access
    from .dashboard.server import Place, serve
    from .ending import Ending

    access = Access(host, token)
    folder = load(config, overrides or []).run.dir

    def started(place: Place) -> None:
        print(json.dumps({"url": place.url}) if as_json else f"watch: {place.url}", flush=True)
        if not access.is_local:
            _progress("others on the network can reach this page with the token; what it shows is not encrypted")
        _progress("Ctrl-C ends it")

    async def main() -> None:
        here = asyncio.current_task()
        assert here is not None
        with Ending().during(here.cancel, here.cancel), contextlib.suppress(asyncio.CancelledError):
            await serve(folder, port, access, started, _progress)

    asyncio.run(main())


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
