"""One training run: read, check for leaks, encode, fit a fold for every group, fit all, export, compare, tell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.turn_end.completeness import Labels, read_labels
from pads_runtime.errors import DataError, ModelCorrupt
from pads_runtime.models import Registry
from pads_runtime.models.hashing import sha256_of
from pads_runtime.turn.vap import CLASSES, VapPredictor

from . import card, graph
from .augment import augmented
from .examples import Encoder, Rows, rows_of
from .fit import Doubles, Problem, fit, predict, sigmoid
from .readers import Recording, find_recordings
from .splits import check_no_leak, groups

NAME = "vap-turn"
ENCODER = "smart-turn-v3.2"
_SAME = 1e-3
_VAP_ROW_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for. ``work`` keeps checkpoints, encoded talks and metrics.jsonl; a second run resumes."""

    data: Path
    out: Path
    work: Path
    steps: int = 300
    strength: float = 0.001
    copies: int = 0
    held_out: tuple[str, ...] = ()


Say = Callable[[str], None]


def run(options: Options, say: Say) -> dict[str, Any]:
    """Train, and write ``vap-turn.onnx``, its fold heads and its card into ``options.out``; returns the figures.

    Raises DataError (no recordings, a leak, an unknown held-out name), ModelError (no encoder), SetupError (no onnx).
    """
    recordings = find_recordings(options.data)
    kept, apart = _divide(recordings, options.held_out)
    check_no_leak(kept, apart)
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    labels = read_labels()
    source = Registry.load().resolve(ENCODER)
    encoder = _encoder(source, options.work)
    rows = Rows.join([rows_of(recording.talk, labels, encoder, say) for recording in recordings])
    copies = _copies(kept, labels, encoder, options.copies, say)
    report = _fit_all(options, kept, rows, copies, say)
    heads = report.pop("heads")
    model = options.out / f"{NAME}.onnx"
    graph.build(source, heads, model)
    report |= _compare(model, heads, kept[0], say)
    report |= {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256_of(model)}
    report["recordings"] = [r.talk.name for r in kept]
    report["held_out"] = [r.talk.name for r in apart]
    card.write_card(report, options.out / f"{NAME}.card.md")
    return report


def _divide(recordings: Sequence[Recording], held_out: Sequence[str]) -> tuple[list[Recording], list[Recording]]:
    names = {recording.talk.name for recording in recordings}
    for name in held_out:
        if name not in names:
            raise DataError(f"held-out recording '{name}' is not in the data; there are {', '.join(sorted(names))}")
    kept = [r for r in recordings if r.talk.name not in held_out]
    if not kept:
        raise DataError("every recording is held out; nothing is left to train on")
    return kept, [r for r in recordings if r.talk.name in held_out]


def _encoder(source: Path, work: Path) -> Encoder:
    blank = work / "encoder.onnx"
    graph.build(source, graph.Heads.zero(), blank)
    return Encoder(VapPredictor(blank, ()), sha256_of(source), work / "encoded")


def _copies(kept: Sequence[Recording], labels: Labels, encoder: Encoder, count: int, say: Say) -> Rows | None:
    parts = []
    for recording in kept:
        for seed in range(1, count + 1):
            talk, told = augmented(recording.talk, labels, seed)
            part = rows_of(talk, told, encoder, say)
            parts.append(Rows(part.features, part.end, part.weight, part.vap, (recording.talk.name,) * len(part.talk)))
    return Rows.join(parts) if parts else None


def _fit_all(options: Options, kept: Sequence[Recording], rows: Rows, copies: Rows | None, say: Say) -> dict[str, Any]:
    names = {recording.talk.name for recording in kept}
    train = _with(rows.of(names), copies, names)
    folds: dict[str, tuple[Doubles, Doubles]] = {}
    for group in groups(kept):
        others = names - set(group)
        if others and _end_problem(_with(rows.of(others), copies, others), options) is not None:
            held = [r for r in kept if r.talk.name in group]
            check_no_leak([r for r in kept if r.talk.name in others], held)
            problem = _required(_end_problem(_with(rows.of(others), copies, others), options))
            fitted = _fit(problem, f"fold-{group[0]}", options, say)
            folds |= dict.fromkeys(group, fitted)
    end = _fit(_required(_end_problem(train, options)), "end", options, say)
    folds |= dict.fromkeys(options.held_out, end)
    vap_problem = _vap_problem(train, options)
    vap = _fit(vap_problem, "vap", options, say) if vap_problem else None
    _save_folds(options.out / f"{NAME}.folds.npz", folds)
    return {
        "heads": _heads(end, vap),
        **card.figures(rows, folds),
        "steps": options.steps,
        "strength": options.strength,
        "copies": options.copies,
        "rows": len(train.talk),
    }


def _with(rows: Rows, copies: Rows | None, names: set[str]) -> Rows:
    return Rows.join([rows, copies.of(names)]) if copies else rows


def _end_problem(rows: Rows, options: Options) -> Problem | None:
    known = np.isfinite(rows.end)
    target = rows.end[known].astype(np.int64)
    if len(set(target.tolist())) < 2:
        return None
    x = rows.features[known].copy()
    x[:, graph.ENCODED + 1 :] = 0.0  # the agent's shares told it nothing about the user's turn: left to VAP's head
    return Problem(x, target, rows.weight[known], 2, options.strength)


def _vap_problem(rows: Rows, options: Options) -> Problem | None:
    known = rows.vap >= 0
    if not known.any():
        return None
    weight = np.full(int(known.sum()), _VAP_ROW_WEIGHT, np.float32)
    return Problem(rows.features[known], rows.vap[known], weight, CLASSES, options.strength)


def _required(problem: Problem | None) -> Problem:
    if problem is None:
        raise DataError("the recordings hold no turn ends or no holds; p_end cannot be trained on one kind alone")
    return problem


def _fit(problem: Problem, name: str, options: Options, say: Say) -> tuple[Doubles, Doubles]:
    digest = hashlib.sha256(problem.x.tobytes() + problem.target.tobytes() + problem.weight.tobytes())
    digest.update(f"{problem.classes} {problem.strength}".encode())
    checkpoint = options.work / f"{name}-{digest.hexdigest()[:12]}.npz"

    def log(step: int, loss: float) -> None:
        with (options.work / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"head": name, "step": step, "loss": round(loss, 6)}) + "\n")

    say(f"fitting {name}: {len(problem.target)} rows, up to step {options.steps}")
    return fit(problem, options.steps, checkpoint, log=log)


def _heads(end: tuple[Doubles, Doubles], vap: tuple[Doubles, Doubles] | None) -> graph.Heads:
    blank = graph.Heads.zero()
    weights, bias = (blank.vap, blank.vap_bias) if vap is None else vap
    return graph.Heads(
        end[0][:, 0].astype(np.float32), float(end[1][0]), weights.astype(np.float32), bias.astype(np.float32)
    )


def _save_folds(path: Path, folds: dict[str, tuple[Doubles, Doubles]]) -> None:
    rows = {name: np.append(w[:, 0], b[0]).astype(np.float32) for name, (w, b) in sorted(folds.items())}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **rows)


def _compare(model: Path, heads: graph.Heads, recording: Recording, say: Say) -> dict[str, Any]:
    """Largest difference of the exported graph's p_end and classes from the heads it was made of."""
    predictor = VapPredictor(model, ())
    channel = recording.talk.channels[0]
    samples = recording.talk.samples[channel]
    worst = 0.0
    for share in (0.2, 0.5, 0.8):
        end = int(len(samples) * share)
        p_end, classes, read = predictor.answer(samples[:end], np.zeros(0, np.int16), 0.2)
        x = read.astype(np.float64)
        worst = max(worst, abs(p_end - float(sigmoid(x @ heads.end + heads.end_bias)[0])))
        own = predict(read, heads.vap.astype(np.float64), heads.vap_bias.astype(np.float64))
        worst = max(worst, float(np.abs(classes - own[0]).max()))
    if worst > _SAME:
        model.unlink()
        raise ModelCorrupt(f"the exported graph differs from the fitted heads by {worst:.2g}; it was removed")
    say(f"exported graph equals the fitted heads to {worst:.1g}")
    return {"export_max_difference": worst}
