"""The ``pads`` command. Results go to stdout (with --json: one JSON object), progress and errors to stderr.

Exit codes: 0 done, 1 it could not be done, 2 the command line or a setting is wrong, 130 stopped by Ctrl-C,
143 stopped by SIGTERM.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.console import Console

from . import __version__
from .aio import WORKER_NAMES
from .cli_bus import bus_app
from .cli_calibrate import calibrate
from .cli_devices import devices
from .cli_live import dashboard, talk
from .cli_models import models_app
from .config import PadsSettings, load
from .errors import InputError, PadsError, UsageError
from .frames import GateMode
from .process import Termination

STOPPED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""
TERMINATED = 143

app = typer.Typer(
    name="pads",
    help="A spoken-dialogue runtime that prepares its reply while the person pauses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(models_app, name="models")
app.add_typer(bus_app, name="bus")
app.command()(calibrate)
app.command()(talk)
app.command()(dashboard)
app.command()(devices)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. gate.theta_end=0.8; may be repeated."),
]
Config = Annotated[str | None, typer.Option("--config", help="A settings file: a name in configs/ or a path.")]
ClockKind = Annotated[str | None, typer.Option("--clock", help="real or virtual; same as --set clock.kind=...")]


@app.command()
def demo(
    as_json: Json = False,
    overrides: Set = None,
    config: Config = None,
    clock: ClockKind = None,
    compare: Annotated[bool, typer.Option("--compare", help="Also without speculation, side by side.")] = False,
) -> None:
    """A short scripted talk: a synthesised user with pauses, answered by PADS. Needs no microphone and no recording."""
    from . import report, talks

    settings = _settings("demo", overrides, config, clock)
    if not compare:
        talk = talks.demo(settings, _progress)
        _finish(talk.summary, as_json, lambda console: report.talk(console, talk))
        return
    plain = settings.model_copy(update={"gate": settings.gate.model_copy(update={"mode": GateMode.NEVER})})
    pair = (talks.demo(settings, _progress, "demo"), talks.demo(plain, _progress, "demo-plain"))
    both = report.compared(pair[0].summary, pair[1].summary)
    _finish(both, as_json, lambda console: report.comparison(console, pair[0], pair[1]))


@app.command()
def replay(
    # readable=False: whether it can be read is found out, and told, where it is read.
    file: Annotated[
        Path | None, typer.Argument(readable=False, help="A recording: WAV, FLAC or another common format, any rate.")
    ] = None,
    as_json: Json = False,
    overrides: Set = None,
    config: Config = None,
    clock: ClockKind = None,
    ami: Annotated[
        Path | None,
        typer.Option("--ami", help="Instead of a recording: the AMI corpus's annotations, folder or archive."),
    ] = None,
    meeting: Annotated[list[str] | None, typer.Option("--meeting", help="With --ami: only this one; repeat.")] = None,
    participant: Annotated[str | None, typer.Option("--participant", help="With --ami: only this letter.")] = None,
    audio: Annotated[
        Path | None, typer.Option("--audio", help="With --ami: folder of <meeting>/audio/<meeting>.Headset-N.wav.")
    ] = None,
    recognise: Annotated[
        bool, typer.Option("--recognise", help="With --audio: words by the recogniser, not the annotation.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="With --ami: processes on this machine.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="With --ami: a dask scheduler's address.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="With --ami: go on with the rows of this run folder.")
    ] = None,
) -> None:
    """Let a recording be the user, and answer it. Writes the conversation, its trace and a page to look at.

    With --ami: each participant of annotated meetings in turn, and what would have been prepared, kept and wasted.
    """
    from . import cli_meetings, report, talks

    settings = _settings("replay", overrides, config, clock)
    options = cli_meetings.MeetingOptions(
        tuple(meeting or ()), participant, audio, recognise, workers, scheduler, resume
    )
    if ami is not None:
        if file is not None:
            raise UsageError("give a recording or --ami, not both")
        summary = cli_meetings.replay_corpus(ami, options, settings, _progress)
        _finish(summary, as_json, lambda console: cli_meetings.show(console, summary))
        return
    if file is None or options != cli_meetings.MeetingOptions():
        raise UsageError("give a recording, or --ami with the annotated corpus; see: pads replay --help")
    talk = talks.replay(settings, file, _progress)
    _finish(talk.summary, as_json, lambda console: report.talk(console, talk))


@app.command()
def chat(as_json: Json = False, overrides: Set = None, config: Config = None) -> None:
    """Typed turns through the same engine and gate. Ends with end-of-file (Ctrl-D)."""
    from . import talks

    settings = _settings("chat", overrides, config, "real")
    summary = talks.chat(settings, _typed(), _progress, show=None if as_json else _show)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is missing or slow on this machine, and what to do about it."""
    from .doctor import doctor as examine

    raise typer.Exit(examine(as_json))


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> int:
    """The command line's entry: one line for every expected error, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name need not be UTF-8; in JSON the escape is valid
            stream.reconfigure(errors="backslashreplace")
    code = _run()
    _leave(code)
    return code


def _run() -> int:
    termination = Termination()
    termination.install()
    try:
        result = app(prog_name="pads", standalone_mode=False)
    except PadsError as exc:
        return _fail(exc, exc.exit_code)
    except typer.TyperException as exc:
        return _fail(_usage(exc), 2)
    except (KeyboardInterrupt, typer.Abort):
        result = STOPPED
    except BrokenPipeError:
        return 1
    except OSError as exc:  # a full disk, a folder that went away: the machine's fault, and not a secret
        where = f" '{exc.filename}'" if exc.filename else ""
        return _fail(f"the system refused a file{where}: {exc.strerror or exc}", 1)
    except MemoryError:
        return _fail("out of memory; use a smaller model or --set engine.n_ctx=1024", 1)
    if result == STOPPED:  # typer turns Ctrl-C into this
        return _fail("stopped; the run record holds what was done", TERMINATED if termination.asked else STOPPED)
    return result if isinstance(result, int) else 0


def _usage(exc: typer.TyperException) -> str:
    """The parser's complaint in one line, with the command whose help explains it."""
    context = getattr(exc, "ctx", None)
    command = getattr(context, "command_path", "pads").replace("python -m pads_runtime.cli", "pads")
    return f"{exc.format_message().strip().rstrip('.') or 'no command given'}; see: {command} --help"


def _leave(code: int) -> None:
    """End at once if a worker is still inside native code, which does not survive the interpreter's own way out."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # whoever read it has gone; what is left must not be tried again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if code in (STOPPED, TERMINATED) or any(thread.name.startswith(WORKER_NAMES) for thread in threading.enumerate()):
        os._exit(code)


def _settings(job: str, overrides: list[str] | None, config: str | None, clock: str | None) -> PadsSettings:
    more = [] if clock is None else [f"clock.kind={clock}"]
    return load(config or job, [*more, *(overrides or [])])


def _typed() -> BinaryIO:
    """Standard input without a buffer: a reader that still waits for a line when the talk is over holds no lock."""
    if sys.stdin is None:
        raise InputError("standard input is closed, so nothing can be typed")
    return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)


def _finish(summary: dict[str, Any], as_json: bool, show: Any) -> None:
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        show(Console())


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(text: str) -> None:
    print(text, end="", flush=True)


def _fail(message: object, code: int) -> int:
    print(f"error: {' '.join(str(message).splitlines())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
