"""From a model file to a file of translators: collect, fit each exit, store, score what was stored."""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime.cachedir import cache_dir
from pads_runtime.engine.model import Model
from pads_runtime.errors import ModelCorrupt, ModelError, SetupError
from pads_runtime.models import Registry
from pads_runtime.models.hashing import sha256_of

from . import store
from .card import write_card
from .collect import Positions, Say
from .evaluate import Agreement, agreement, guesses, native_guesses
from .fit import Plan, Translator, refine, ridge, targets, usable
from .gather import Amounts, Gathered, gather, work_folder
from .head import Head, read_head
from .ladder import checked_exits

DRAFT_VOCAB = 8192
_ALIKE = 0.9
"""Share of guesses on which llama.cpp's draft head and plain numbers must agree: they round differently."""


@dataclass(frozen=True)
class Job:
    """What to fit, from what, and where to put it."""

    model: str
    """A name from models/registry.yaml or the path of a GGUF file."""
    data: Path
    exits: tuple[int, ...]
    amounts: Amounts
    out: Path
    plan: Plan


def run(job: Job, say: Say) -> dict[str, Any]:
    """Fit and store; returns the figures. Raises a PadsError for whatever is wrong with model, data or disk."""
    started = time.perf_counter()
    path = Registry.load().resolve(job.model)
    sha256 = sha256_of(path)
    folder = work_folder(cache_dir(), sha256, job.data, job.exits)
    model = Model(path)
    try:
        head = read_head(model, DRAFT_VOCAB)
        exits = checked_exits(job.exits, model.n_layer)
        say(f"{model.description}; exits {', '.join(map(str, exits))}; work folder {folder}")
        found = gather(model, exits, job.data, job.amounts, folder, say)
        say(f"training on {len(found.train)} positions, {int(found.train.reply.sum())} of them in own replies")
        fitted = {k: _fitted(found.train, at, k, head, (job, folder, say)) for at, k in enumerate(exits)}
        figures = _figures(model, head, found, fitted, say)
    finally:
        model.close()
    final = {k: each["refined"] for k, each in fitted.items()}
    report = {
        "model": path.name,
        "model_sha256": sha256,
        "draft_vocab": len(head.rows),
        "exits": list(exits),
        "figures": figures,
        "own_replies": job.amounts.replies,
        "positions": job.amounts.positions,
        **_counts(found),
    }
    target = job.out / f"exits-{_slug(job.model)}.npz"
    _save(final, report, target)
    report |= {"file": target.name, "bytes": target.stat().st_size, "sha256": sha256_of(target)}
    report["plan"] = asdict(job.plan)
    write_card(report, target.with_name(f"{target.stem}.card.md"), job.model)
    say(f"wrote {target} and its card in {time.perf_counter() - started:.0f} s")
    return report


def _fitted(train: Positions, at: int, k: int, head: Head, context: tuple[Job, Path, Say]) -> dict[str, Translator]:
    """Both fits of one exit, from the work folder if this very fit was made before."""
    job, folder, say = context
    key = json.dumps([asdict(job.plan), asdict(job.amounts), len(train)])
    kept = folder / f"fit-{k}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.npz"
    if kept.is_file():
        with np.load(kept, allow_pickle=False) as file:
            return {name: Translator(file[f"A_{name}"], file[f"b_{name}"]) for name in ("ridge", "refined")}
    say(f"exit {k}: fitting")
    rows = usable(train, head, job.plan.text_every)
    wanted = targets(rows, head, job.plan)
    states = np.ascontiguousarray(rows.states[:, at])
    first = ridge(states.astype(np.float32), rows.outputs.astype(np.float32), head, job.plan.ridge)
    refined = refine(first, states, wanted, head, job.plan, say)
    if not (np.isfinite(refined.matrix).all() and np.abs(refined.matrix).max() < 65504):
        raise ModelError(f"exit {k}: the fit ran away; give more data (--own-replies, --positions)")
    beside = kept.with_name(kept.name + ".part")
    with beside.open("wb") as file:
        np.savez(file, A_ridge=first.matrix, b_ridge=first.bias, A_refined=refined.matrix, b_refined=refined.bias)
    beside.replace(kept)
    return {"ridge": first, "refined": refined}


def _figures(
    model: Model, head: Head, found: Gathered, fitted: dict[int, dict[str, Translator]], say: Say
) -> dict[str, dict[str, Any]]:
    """Agreement on held-out replies by exit: bare exit, after the regression, and as it will be used."""
    held_out = found.held_out
    say(f"scoring on {int(held_out.reply.sum())} positions of {len(np.unique(held_out.item))} held-out replies")
    final = {k: each["refined"].stored() for k, each in fitted.items()}
    native = native_guesses(model, final, len(head.rows), found.prefix, held_out)
    figures: dict[str, dict[str, Any]] = {}
    for at, (k, translator) in enumerate(final.items()):
        plain = guesses(translator, held_out, at, head)
        alike = float(np.mean(plain == native[:, at]))
        if alike < _ALIKE:
            raise ModelError(f"exit {k}: llama.cpp's draft head guesses as fitted in {alike:.0%} of positions only")
        scores: dict[str, Agreement] = {
            "untrained": agreement(guesses(None, held_out, at, head), held_out),
            "ridge": agreement(guesses(fitted[k]["ridge"], held_out, at, head), held_out),
            "translator": agreement(native[:, at], held_out),
        }
        figures[str(k)] = {name: asdict(score) for name, score in scores.items()} | {"alike": round(alike, 4)}
        say(f"exit {k}: " + ", ".join(f"{name} {score.share:.1%}" for name, score in scores.items()))
    return figures


def _counts(found: Gathered) -> dict[str, int]:
    train, held_out = found.train, found.held_out
    return {
        "train_positions": len(train),
        "train_reply_positions": int(train.reply.sum()),
        "train_replies": len(np.unique(train.item[train.reply])),
        "held_out_prompts": len(np.unique(held_out.item)),
        "held_out_reply_positions": int(held_out.reply.sum()),
        "held_out_replies_seen": len(held_out.replies() & train.replies()),
        "dropped_prompts": found.dropped,
        "leaks_looked_for": found.looked_for,
        "leaks_found": 0,
    }


def _save(final: dict[int, Translator], report: dict[str, Any], target: Path) -> None:
    """Store, read back and compare; a file that does not hold what was fitted is not left behind."""
    try:
        store.save(final, report, target)
    except OSError as exc:
        raise SetupError(f"'{target}' cannot be written: {exc.strerror}; choose another folder with --out") from None
    kept, meta = store.load(target)
    same = meta == report and all(np.array_equal(kept[k].matrix, final[k].stored().matrix) for k in final)
    if not same:
        target.unlink()
        raise ModelCorrupt(f"'{target}' did not read back as it was written; it was removed")


def _slug(model: str) -> str:
    """The registry's name, or the file's without its ending, as a file name."""
    name = Path(model).name.removesuffix(".gguf")
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
