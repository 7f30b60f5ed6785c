"""``python -m bench NAME``: one sub-command per benchmark; each prints a report and leaves a run record.

With ``--json`` one JSON object goes to stdout and progress to stderr. Exit codes: 2 for a wrong command line or
setting, 1 for anything else that fails, 130 when stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pads_runtime.config import load
from pads_runtime.errors import PadsError
from pads_runtime.models import Registry
from pads_runtime.process import Termination

from . import commands
from .console import AMI, Ami, Json, Set
from .console import record as _record
from .console import say as _say
from .report import Measurement

app = typer.Typer(help="Measure PADS on this machine.", no_args_is_help=True, add_completion=False)

Runs = Annotated[int, typer.Option("--runs", min=1, max=10_000, help="Kept runs per stage.")]
Translator = Annotated[
    Path | None, typer.Option("--translator", help="Translators of the exits; without it the ones in models/.")
]


commands.register(app)


@app.callback()
def _subcommands() -> None:
    """Keeps the name of the benchmark on the command line even while there is only one."""


@app.command()
def stages(as_json: Json = False, runs: Runs = 20, overrides: Set = None) -> None:
    """What each stage of a turn costs, and the memory of the whole process."""
    from . import stages as bench

    settings, registry = load(None, overrides or []), Registry.load()
    rows = {"tokens_per_s": "decode_token"}
    _record("stages", settings, registry, as_json, lambda: bench.measure(settings, registry, runs, _say), rows)


@app.command()
def echo(as_json: Json = False, overrides: Set = None) -> None:
    """How much of its own voice the agent hears, and whether a user is heard over it: synthesised room and voices."""
    from . import echo as bench

    settings, registry = load(None, overrides or []), Registry.load()
    _record("echo", settings, registry, as_json, lambda: bench.measure(settings, _say))


@app.command()
def live(
    as_json: Json = False,
    turns: Annotated[int, typer.Option(min=1, max=1000, help="Questions, each asked with and without.")] = 20,
    overrides: Set = None,
) -> None:
    """Mouth to ear: a real talk over virtual devices, measured from what is said and what is recorded there."""
    from .live import run as bench

    calls = [bench.SHORT, *(overrides or [])]
    settings, registry = load("talk", calls), Registry.load()
    detail: dict[str, Any] = {}

    def measure() -> list[Measurement]:
        rows, found = bench.measure(turns, settings, calls, registry, _say)
        detail.update(found)
        return rows

    _record("live", settings, registry, as_json, measure, {"ttft_ms": "post_confirm_ttft_on"}, detail)


@app.command("long_talk")
def long_talk(
    as_json: Json = False,
    turns: Annotated[int, typer.Option(min=20, help="Turns of the user's.")] = 10_000,
    silence_min: Annotated[float, typer.Option(min=0.0, help="Minutes of silence after them.")] = 30.0,
) -> None:
    """Whether memory, tasks and open files stay flat over a long talk: fakes for the models, virtual clock."""
    from . import long_talk as bench

    settings, registry = load(), Registry.load()
    _record("long-talk", settings, registry, as_json, lambda: bench.measure(turns, silence_min * 60.0, _say))


@app.command("turn_end")
def turn_end(
    data: Annotated[Path, typer.Option(help="Folder that holds spokenwoz_sample, ami_audio and vap_phrases.")],
    answers: Annotated[
        Path | None, typer.Option(help="Folder that keeps the networks' answers: a stopped or repeated run goes on.")
    ] = None,
    loop_only: Annotated[bool, typer.Option("--loop-only", help="Only what the runtime hears, and the costs.")] = False,
    as_json: Json = False,
    overrides: Set = None,
) -> None:
    """How early each turn-end predictor answers, and how often it cuts a speaker off."""
    from .turn_end.cli import run
    from .turn_end.run import Asked

    run(Asked(data, answers, loop_only), load(None, overrides or []), Registry.load(), as_json, _say)


@app.command()
def engine(
    as_json: Json = False,
    overrides: Set = None,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            help="Parts, by commas: identical, sampling, bindings, adaptive, ceiling, abort, ttft, contention, memory.",
        ),
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="The whole grid and many runs; takes hours.")] = False,
    with_1b: Annotated[bool, typer.Option("--with-1b", help="Also a random model of 1B; 700 MB of disk.")] = False,
    stock_python: Annotated[
        Path | None, typer.Option("--stock-python", help="A Python with llama-cpp-python as released, to compare with.")
    ] = None,
    translator: Annotated[
        Path | None, typer.Option("--translator", help="Translators of the exits; without it the ones in models/.")
    ] = None,
) -> None:
    """What the engine of two depths shows: exactness, speed, aborts, time to the first token, memory."""
    from . import engine as bench

    settings, registry = load(None, overrides or []), Registry.load()
    parts = tuple(name for name in only.split(",") if name)
    options = bench.Options(parts, full, with_1b, stock_python, translator)
    rows = {"tokens_per_s": "plain_token", "ttft_ms": "ttft_after_commit_ms_128_follow_full"}
    _record(
        "engine", settings, registry, as_json, lambda: bench.measure(settings.engine, registry, options, _say), rows
    )


@app.command()
def acceptance(
    as_json: Json = False,
    overrides: Set = None,
    ami: Ami = AMI,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="[NAME=]FILE", help="Another GGUF to compare; may be repeated."),
    ] = None,
    translator: Translator = None,
    exit_layers: Annotated[str, typer.Option("--exits", help="Layers to exit at, by commas; without it five.")] = "",
    drafts: Annotated[int, typer.Option(min=1, max=8, help="Longest draft.")] = 6,
    tokens: Annotated[int, typer.Option(min=2, max=1024, help="Longest reply.")] = 128,
    seed: Annotated[int, typer.Option(help="Seed of the sampled replies.")] = 42,
    items: Annotated[int, typer.Option(min=2, max=40, help="Fewer items, for a quick look.")] = 40,
    without_torch: Annotated[bool, typer.Option("--without-torch", help="Leave the PyTorch column out.")] = False,
) -> None:
    """How many drafted tokens are accepted, by exit and draft length, through llama.cpp and through PyTorch."""
    from .acceptance.cli import parse_exits, parse_models, run
    from .acceptance.run import Asked

    asked = Asked(
        ami,
        parse_models(models or []),
        drafts=drafts,
        tokens=tokens,
        seed=seed,
        exits=parse_exits(exit_layers),
        torch=not without_torch,
        items=items,
    )
    run(asked, load(None, overrides or []), Registry.load(), translator, as_json, _say)


@app.command()
def policies(
    as_json: Json = False,
    overrides: Set = None,
    ami: Ami = AMI,
    data: Annotated[Path, typer.Option(help="Folder that holds dailydialog.tsv.gz.")] = AMI.parents[1] / "dailydialog",
    translator: Translator = None,
    exit_layers: Annotated[str, typer.Option("--exits", help="Layers to exit at, by commas; without it five.")] = "",
    sets: Annotated[str, typer.Option("--sets", help="Prompts, by commas: ami, dailydialog.")] = "ami,dailydialog",
    prompts: Annotated[int, typer.Option(min=0, help="Prompts of each set, for a quick look; 0 is all.")] = 0,
    without_replies: Annotated[bool, typer.Option("--without-replies", help="Leave the replies' quality out.")] = False,
) -> None:
    """What exit policies are worth: agreement with the whole model at matched shares of deep tokens."""
    from .acceptance.cli import parse_exits
    from .policies.cli import Options, run

    options = Options(ami, data, translator, parse_exits(exit_layers), sets, prompts, not without_replies)
    run(options, load(None, overrides or []), Registry.load(), as_json, _say)


@app.command()
def latency(
    as_json: Json = False,
    count: Annotated[int, typer.Option("--turns", min=1, help="Turns of the user's; six kinds in turn.")] = 24,
    names: Annotated[
        str, typer.Option("--strategies", help="Names, by commas, e.g. sequential,preemptive,pads; without it all.")
    ] = "",
    real: Annotated[
        bool, typer.Option("--real", help="Also on the real clock (sequential, preemptive, pads), and compare.")
    ] = False,
    overrides: Set = None,
) -> None:
    """How long the person waits, by strategy: the same turns with injected pauses, the same model and machine."""
    from .latency import run as bench
    from .latency.strategies import chosen

    settings, registry = load("demo", overrides or []), Registry.load()
    asked = bench.Asked(tuple(chosen([name for name in names.split(",") if name])), count, real)
    detail: dict[str, Any] = {}

    def measure() -> list[Measurement]:
        rows, found = bench.measure(asked, settings, registry, _say)
        detail.update(found)
        return rows

    _record("latency", settings, registry, as_json, measure, {"ttft_ms": "pads_post_confirm_ttft_ms"}, detail)


def main() -> None:
    """Run the command line; turns a PadsError into one line and its exit code. SIGTERM ends it as Ctrl-C does."""
    Termination().install()
    try:
        app()
    except PadsError as exc:
        print(f"FATAL: {exc}", file=sys.stderr)
        raise SystemExit(exc.exit_code) from None


if __name__ == "__main__":
    main()
