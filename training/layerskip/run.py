"""One run: model, data and leak check, validation before, training, validation after, leak check, the adapter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pads_runtime import runs
from pads_runtime.config import PadsSettings
from pads_runtime.errors import DataError, SetupError

from ..checkpoints.needs import check_installed
from .card import card
from .data import Corpus, Streams, check_corpus, read_streams
from .plan import Plan

if TYPE_CHECKING:
    from ..checkpoints.source import Source

Say = Callable[[str], None]
ADAPTER = "adapter"
REPORT = "report.json"


@dataclass(frozen=True)
class Job:
    """What to train, on what, and where to keep it."""

    model: str
    """A name of the registry, a GGUF file, a checkpoint's folder, or OWNER/NAME on the hub."""
    corpus: Corpus
    work: Path
    """Checkpoint, streams, metrics.jsonl, adapter and report; the same folder resumes."""
    plan: Plan
    validate_rows: int = 12
    save_every: int = 5
    threads: int = 0
    """CPU threads; 0 leaves it to torch."""
    dtype: str = "auto"
    """auto is float32 on a CPU and bfloat16 on a GPU."""


def run(job: Job, say: Say) -> dict[str, Any]:
    """Train and write ``job.work``/adapter; returns the figures. Raises a PadsError for whatever is wrong.

    Started by ``accelerate launch`` it runs on all the devices that were asked for.
    """
    check_corpus(job.corpus)
    check_installed()
    from ..checkpoints.source import find_source

    source = find_source(job.model)
    _make(job.work)
    if not is_main_process():
        return _run(job, source, None, lambda _: None)
    with runs.RunRecord.begin(
        "train-layerskip",
        f"LayerSkip with LoRA, {job.plan.steps} steps",
        PadsSettings(),
        {source.path.name: source.sha256},
        runs.command_line(),
    ) as record:
        report = _run(job, source, record, say)
        report["run"] = record.path.name
        _write(job.work / REPORT, json.dumps(report, indent=2) + "\n")
        _write(job.work / ADAPTER / "README.md", card(report))
        record.metrics(**report)
    return report


def is_main_process() -> bool:
    """Whether this is the process that writes and speaks; launchers number theirs in RANK."""
    return os.environ.get("RANK", "0") == "0"


def _run(job: Job, source: Source, record: runs.RunRecord | None, say: Say) -> dict[str, Any]:
    tokenizer = source.tokenizer()
    streams = read_streams(job.corpus, tokenizer, source.sha256, job.work, say)
    before = streams.check(tokenizer, "before training")
    say(f"leak check before training: {before} found")
    _enough(streams, job.plan)
    report = {
        "model": source.path.name,
        "model_sha256": source.sha256,
        "weights": source.note or "as published",
        "excluded_meetings": list(job.corpus.excluded),
        "train_tokens": len(streams.train.tokens),
    }
    report |= _trained(job, source, streams, (record, say))
    after = streams.check(tokenizer, "after training")
    say(f"leak check after training: {after} found")
    return report | {"leaks": {"before": asdict(before), "after": asdict(after)}}


def _trained(job: Job, source: Source, streams: Streams, tell: tuple[runs.RunRecord | None, Say]) -> dict[str, Any]:
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs, set_seed

    from .lora import with_lora
    from .multi_exit import MultiExit
    from .trainer import Schedule, Trainer

    record, say = tell
    if job.threads:
        torch.set_num_threads(job.threads)
    # A layer that is skipped gives its companions no gradient, on any device: all must be told not to wait for one.
    accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    set_seed(job.plan.seed)
    dtype = _dtype(job.dtype, accelerator.device.type)
    exits = MultiExit(with_lora(source.model(dtype), job.plan), job.plan)
    fingerprint = {
        **asdict(job.plan),
        "model": source.sha256,
        "devices": accelerator.num_processes,
        "dtype": str(dtype),
    }
    fingerprint["excluded meetings"] = list(job.corpus.excluded)
    trainer = Trainer(exits, job.plan, accelerator, job.work, fingerprint)
    schedule = Schedule(job.validate_rows, job.save_every)
    resumed = trainer.resume()
    say(f"{exits.n_layer} layers, exits {', '.join(map(str, exits.exits))}; {trainer.size:,} numbers to train")
    say(f"going on after step {trainer.step}" if resumed else "first validation: full depth, no dropout")
    log = _Log(job.work / "metrics.jsonl", record, trainer.step, (say, job.plan.steps))
    first = log.kept("validation_before") or trainer.validate(streams.validation, schedule)
    log({"step": 0, "validation_before": first})
    trainer.run(streams.train, schedule, log)
    say("last validation")
    last = trainer.validate(streams.validation, schedule)
    log({"step": trainer.step, "validation_after": last})
    if record is not None:
        exits.model.save_pretrained(job.work / ADAPTER)
        _write(job.work / ADAPTER / "pads.json", json.dumps(_origin(job, source), indent=2) + "\n")
    return {
        "layers": exits.n_layer,
        "exits": list(exits.exits),
        "trained_numbers": trainer.size,
        "trained_tokens": job.plan.steps * job.plan.rows_a_step * job.plan.sequence * accelerator.num_processes,
        "plan": asdict(job.plan),
        "validation_before": first,
        "validation_after": last,
        "work": str(job.work),
    }


class _Log:
    """metrics.jsonl of the work folder, without the steps that are done again, and that of the run record."""

    def __init__(self, path: Path, record: runs.RunRecord | None, step: int, progress: tuple[Say, int]) -> None:
        """``record`` is None in a process that only computes."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        self._rows = [row for row in map(_row, lines) if row is not None and row["step"] <= step]
        self._path, self._record, self._progress = path, record, progress
        if record is not None:
            _write(path, "".join(json.dumps(row) + "\n" for row in self._rows))

    def kept(self, key: str) -> Any:
        """What an earlier start of this run wrote under ``key``."""
        return next((row[key] for row in self._rows if key in row), None)

    def __call__(self, row: Mapping[str, Any]) -> None:
        say, steps = self._progress
        if "loss" in row:
            say(f"step {row['step']}/{steps}: loss {row['loss']:.3f}, {row['seconds']:.0f} s")
        if self._record is not None and row not in self._rows:
            self._record.metrics(**row)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:  # the last line of a run that was killed
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def _dtype(name: str, device: str) -> Any:
    import torch

    if name == "auto":
        return torch.float32 if device == "cpu" else torch.bfloat16
    return getattr(torch, name)


def _origin(job: Job, source: Source) -> dict[str, Any]:
    return {
        "model": source.path.name,
        "model_path": str(source.path),
        "model_sha256": source.sha256,
        "weights": source.note,
        "plan": asdict(job.plan),
    }


def _enough(streams: Streams, plan: Plan) -> None:
    for name, stream in {"train": streams.train, **streams.validation}.items():
        if stream.rows(plan.sequence) < 1:
            raise DataError(f"the {name} data has {len(stream.tokens)} tokens, less than one row of {plan.sequence}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as exc:
        raise SetupError(f"work folder '{folder}': {exc.strerror}; choose another with --work") from None


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as exc:
        raise SetupError(f"'{path}' cannot be written: {exc.strerror}; make room and run again") from None
