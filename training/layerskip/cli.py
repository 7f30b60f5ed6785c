"""The sub-command ``layerskip``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pads_runtime.cachedir import cache_dir
from pads_runtime.config import ROOT, EngineSettings
from pads_runtime.errors import UsageError

from ..corpora.sources import DEFAULT_EXCLUDED
from .data import Corpus
from .plan import Plan
from .run import Job, is_main_process, run

DATA = ROOT.parent / "shared" / "data"
_DEFAULT = Plan()


def layerskip(
    model: Annotated[
        str, typer.Option(help="A registry name, a GGUF file, a checkpoint's folder, or OWNER/NAME on the hub.")
    ] = EngineSettings().model,
    data: Annotated[Path, typer.Option(help="Folder that holds dailydialog.tsv.gz.")] = DATA / "dailydialog",
    ami: Annotated[Path, typer.Option(help="The AMI package with NXT words: its folder or tar archive.")] = DATA
    / "ami_nxt"
    / "ami_manual_nxt.tar.xz",
    ami_exclude_meetings: Annotated[str, typer.Option(help="Meetings never trained on.")] = ",".join(DEFAULT_EXCLUDED),
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = _DEFAULT.steps,
    sequence: Annotated[int, typer.Option(min=32, help="Tokens in a row.")] = _DEFAULT.sequence,
    batch: Annotated[int, typer.Option(min=1, help="Rows in a forward pass, on each device.")] = _DEFAULT.batch,
    accumulate: Annotated[int, typer.Option(min=1, help="Forward passes in a step.")] = _DEFAULT.accumulate,
    exit_layers: Annotated[str, typer.Option("--exits", help="Auxiliary exits; by default in proportion.")] = "",
    exit_weight: Annotated[float, typer.Option(min=0.0, help="Weight of each exit's loss.")] = _DEFAULT.exit_weight,
    exit_stride: Annotated[int, typer.Option(min=1, help="Exits score every so-many-th position.")] = 4,
    max_dropout: Annotated[float, typer.Option(min=0.0, max=0.95, help="Rate of skipping the last layer.")] = 0.5,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the companions.")] = _DEFAULT.rank,
    alpha: Annotated[float, typer.Option(min=0.0, help="Their scale, over the rank.")] = _DEFAULT.alpha,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = _DEFAULT.learning_rate,
    warmup: Annotated[int, typer.Option(min=0, help="Steps in which the learning rate rises.")] = _DEFAULT.warmup,
    chunk: Annotated[int, typer.Option(min=1, help="Positions whose logits exist at a time.")] = _DEFAULT.chunk,
    seed: Annotated[int, typer.Option(min=0)] = _DEFAULT.seed,
    validate_rows: Annotated[int, typer.Option(min=1, help="Rows of each validation set.")] = 12,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 5,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves it to torch.")] = 0,
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    work: Annotated[Path | None, typer.Option(help="Checkpoint, metrics, adapter; the same folder resumes.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="The whole chain in small, to a spoken reply.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a model so that its early exits draft well (LayerSkip with LoRA). Stopped, it goes on when run again."""
    plan = Plan(
        steps=steps,
        sequence=sequence,
        batch=batch,
        accumulate=accumulate,
        exits=_numbers(exit_layers),
        exit_weight=exit_weight,
        exit_stride=exit_stride,
        max_dropout=max_dropout,
        rank=rank,
        alpha=alpha,
        learning_rate=learning_rate,
        warmup=warmup,
        chunk=chunk,
        seed=seed,
    )
    if dtype not in ("auto", "float32", "bfloat16"):
        raise UsageError(f"--dtype {dtype}: give auto, float32 or bfloat16")
    excluded = tuple(name.strip() for name in ami_exclude_meetings.split(",") if name.strip())
    corpus = Corpus(data, ami, excluded)
    if smoke:
        from .smoke import smoke as run_smoke

        _tell(run_smoke(model, corpus, _say), as_json)
        return
    folder = work or cache_dir() / "training" / "layerskip" / _key(model, corpus, plan)
    job = Job(model, corpus, folder, plan, validate_rows, save_every, threads, dtype)
    if not is_main_process():
        run(job, _say)
        return
    _say(f"work folder {folder}")
    _tell(run(job, _say), as_json)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        raise UsageError(f"--exits {text}: give layer numbers with commas between, such as 6,10,15") from None


def _key(model: str, corpus: Corpus, plan: Plan) -> str:
    what = [model, str(corpus.dailydialog), str(corpus.ami), sorted(corpus.excluded), asdict(plan)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _tell(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        print(f"{key:20} {json.dumps(value) if isinstance(value, dict | list) else value}")


def _say(line: str) -> None:
    typer.echo(line, err=True)
