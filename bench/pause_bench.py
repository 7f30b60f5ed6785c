"""The sub-command ``pauses``: statistics of two corpora, and the share of pauses a deep step of a model fits into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pads_runtime.corpora.ami import MISTIMED, AmiCorpus
from pads_runtime.corpora.switchboard import conversations
from pads_runtime.engine.model import Model
from pads_runtime.runs import is_target

from .deep_step import DeepStep, deep_steps
from .harness.run import DEV_HOST, TARGET
from .pauses import AMI_RULES, Pauses, Rule, ami_pauses, switchboard_pauses
from .report import Measurement
from .timing import percentile

EXTRAPOLATED = "EXTRAPOLATED"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What is looked at."""

    ami: Path
    switchboard: Path | None
    model: Path
    model_name: str
    threads: int
    pause_s: float
    """Silence that voice activity needs before it declares a pause: what is left of it for the model is shorter."""
    with_1b: bool


def measure(asked: Asked, say: Say) -> tuple[list[Measurement], dict[str, Any]]:
    """Rows, and the same as plain data. Raises DataError for a corpus that is missing, damaged or empty."""
    found = read(asked, say)
    model = Model(asked.model)
    try:
        steps = deep_steps(model, asked.model_name, asked.threads, asked.with_1b, say)
    finally:
        model.close()
    fits = shares(found, steps, asked.pause_s)
    detail = {
        "pauses": [p.as_json() for p in found],
        "mistimed_meetings_included": sorted(MISTIMED),
        "fits": fits,
    }
    return rows(found, steps, fits), detail


def rows(found: Sequence[Pauses], steps: Sequence[DeepStep], fits: Sequence[dict[str, Any]]) -> list[Measurement]:
    """Pauses, steps and shares as rows of a report."""
    return [_length(p) for p in found] + [_step(s) for s in steps] + [_share(fit) for fit in fits]


def read(asked: Asked, say: Say, rules: Sequence[Rule] = AMI_RULES) -> list[Pauses]:
    """The pauses of each corpus under each rule."""
    say(f"AMI words in {asked.ami.name}")
    found = ami_pauses(AmiCorpus(asked.ami), rules)
    if asked.switchboard is not None:
        say(f"Switchboard words in {asked.switchboard.name}")
        found.append(switchboard_pauses(conversations(asked.switchboard)))
    return found


def shares(found: Sequence[Pauses], steps: Sequence[DeepStep], pause_s: float) -> list[dict[str, Any]]:
    """For each corpus and model: the part of the pauses that holds one deep step, and that holds it once declared."""
    return [
        {
            "corpus": pauses.corpus,
            "rule": pauses.rule,
            "model": step.model,
            "step_ms": round(step.ms, 3),
            "tag": _tag(step),
            "share_of_pauses": round(pauses.share_at_least(step.ms / 1e3), 4),
            "share_after_declared": round(pauses.share_at_least(pause_s + step.ms / 1e3), 4),
        }
        for pauses in found
        for step in steps
    ]


def _tag(step: DeepStep) -> str:
    return EXTRAPOLATED if step.extrapolated else ""


def _length(p: Pauses) -> Measurement:
    # Counts of a corpus: how busy the machine was changes nothing about them.
    tag = TARGET if is_target() else DEV_HOST
    middle, high = percentile(p.lengths_s, 50), percentile(p.lengths_s, 95)
    note = f"{p.talks} talks; {p.meaning}"
    return Measurement(f"pause_{p.corpus}_{p.rule}", "s", len(p.lengths_s), middle, high, note=note, tag=tag)


def _step(s: DeepStep) -> Measurement:
    note = f"layers {s.exit_layer} to {s.layers} and the head; {s.how}"
    return Measurement(f"deep_step_{s.model}", "ms", 1, s.ms, s.ms, note=note, tag=_tag(s))


def _share(fit: dict[str, Any]) -> Measurement:
    share = fit["share_of_pauses"]
    note = f"of a step of {fit['step_ms']:.4g} ms; once the pause is declared {fit['share_after_declared']:.3f}"
    name = f"fits_{fit['model']}_{fit['corpus']}_{fit['rule']}"
    return Measurement(name, "share", 1, share, share, note=note, tag=fit["tag"])
