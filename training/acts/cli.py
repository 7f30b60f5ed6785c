"""The sub-command ``acts``: read, fit, score, store, compare what was stored, write the card."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pads_runtime.config import ROOT

from .corpus import read_corpus, shared_dialogues, split_of, without_test_texts

NAME = "acts-dailydialog"
_TOLERANCE = 1e-9


def acts(
    data: Annotated[Path, typer.Option(help="Folder that holds dailydialog.tsv.gz.")],
    out: Annotated[Path, typer.Option(help="Folder for the classifier and its card.")] = ROOT / "models",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the dialogue-act classifier on DailyDialog and store it with its card."""
    report = run(data, out)
    if as_json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:12} {value}")


def run(data: Path, out: Path) -> dict[str, Any]:
    """Fit on the corpus in ``data``, write model and card into ``out``; returns the figures.

    Raises DataError if the corpus is missing or laid out in another way: there is no other data to fall back on.
    """
    started = time.perf_counter()
    _say(f"reading {data}")
    utterances = read_corpus(data)
    train, test = split_of(utterances, "train"), split_of(utterances, "test")
    kept = without_test_texts(train, test)
    shared = shared_dialogues(train, test)

    _say(f"fitting on {len(kept.kept)} utterances (importing scikit-learn first)")
    from . import card, fit, store

    model = fit.fit(kept.kept)
    _say("scoring")
    scores = {
        "test": fit.score(model, test),
        "without_shared_dialogues": fit.score(model, [u for u in test if u.dialogue not in shared]),
        "spoken_form": fit.score(model, test, fit.spoken),
        "first_three_quarters": fit.score(model, test, fit.first_part(0.75)),
        "first_half": fit.score(model, test, fit.first_part(0.5)),
    }
    path = out / f"{NAME}.skops"
    store.save_weights(model.weights(), path)
    checked = [u.text for u in utterances if u.split != "train" and any(map(str.isalnum, u.text))]
    difference = _check_stored(model, path, checked)
    report = {
        "dropped": kept.dropped,
        "distinct": kept.distinct,
        "kept": len(kept.kept),
        "vocabulary": len(model.vectorizer.vocabulary_),
        "shared_dialogues": len(shared),
        **_rounded(asdict(scores["test"])),
        "scores": {name: _rounded(asdict(value)) for name, value in scores.items()},
        "stored_max_difference": difference,
        "checked": len(checked),
        "file": path.name,
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    card.write_card(report, path.with_name(f"{NAME}.card.md"))
    _say(f"wrote {path} and its card in {time.perf_counter() - started:.0f} s")
    return report


def _check_stored(model: Any, path: Path, texts: list[str]) -> float:
    """Largest difference between the stored classifier and the fitted one; refuses to leave a wrong file behind."""
    from pads_runtime.acts.classifier import TfidfActClassifier
    from pads_runtime.errors import ModelCorrupt

    stored = TfidfActClassifier.load(path)
    worst = max(abs(stored.p_deep(text) - p) for text, p in zip(texts, model.p_deep(texts), strict=True))
    if worst > _TOLERANCE:
        path.unlink()
        raise ModelCorrupt(f"'{path}' answers differently from the fitted model (by {worst:.2g}); it was removed")
    return float(worst)


def _rounded(scores: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in scores.items()}


def _say(line: str) -> None:
    typer.echo(line, err=True)
