"""Figures of the held-out folds, and the card that states them beside the data and its licences."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.turn_end.metrics import auc, interval, repeated

from .examples import Rows
from .fit import Doubles, predict

_BANDS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def figures(rows: Rows, folds: dict[str, tuple[Doubles, Doubles]]) -> dict[str, Any]:
    """What the folds said about talks they had not seen: AUC in pauses and in speech, and the reliability of p_end."""
    names = sorted(folds)
    known = np.isfinite(rows.end)
    p, y, weight, owner, pause = [], [], [], [], []
    for place, name in enumerate(names):
        mine = np.array([talk == name for talk in rows.talk]) & known
        p += predict(rows.features[mine], *folds[name]).tolist()
        y += rows.end[mine].tolist()
        weight += rows.weight[mine].tolist()
        owner += [place] * int(mine.sum())
        pause += (rows.features[mine, -4] > 0).tolist()
    return {
        "pause": _auc(p, y, owner, [bool(x) for x in pause], len(names)),
        "speech": _auc(p, y, owner, [not x for x in pause], len(names)),
        "reliability": _reliability(p, y, weight, pause),
    }


def _auc(p: list[float], y: list[float], owner: list[int], wanted: list[bool], talks: int) -> dict[str, float]:
    yes = [(v, o) for v, t, o, w in zip(p, y, owner, wanted, strict=True) if w and t == 1.0]
    no = [(v, o) for v, t, o, w in zip(p, y, owner, wanted, strict=True) if w and t == 0.0]
    if not yes or not no:
        return {}

    yes_p, yes_of = [v for v, _ in yes], [o for _, o in yes]
    no_p, no_of = [v for v, _ in no], [o for _, o in no]

    def figure(weights: Any) -> float:
        return auc(repeated(yes_p, yes_of, weights), repeated(no_p, no_of, weights))

    low, high = interval(figure, talks, 200)
    value = auc(yes_p, no_p)
    return {"auc": round(value, 3), "low": round(low, 3), "high": round(high, 3), "ends": len(yes), "others": len(no)}


def _reliability(p: list[float], y: list[float], weight: list[float], pause: list[bool]) -> list[dict[str, float]]:
    said, was, much, inside = np.array(p), np.array(y), np.array(weight), np.array(pause, dtype=bool)
    table = []
    for low, high in pairwise(_BANDS):
        band = inside & (said >= low) & ((said < high) | (high == 1.0))
        total = float(much[band].sum()) if band.any() else 0.0
        if total > 0:
            mean_said, mean_was = (float((much * values)[band].sum() / total) for values in (said, was))
            table.append(
                {
                    "from": low,
                    "to": high,
                    "silences": round(total, 1),
                    "said": round(mean_said, 3),
                    "was": round(mean_was, 3),
                }
            )
    return table


def write_card(report: dict[str, Any], path: Path) -> None:
    """The model card, beside the model."""
    rows = [
        f"| {r['from']:.1f} to {r['to']:.1f} | {r['silences']:.1f} | {r['said']:.3f} | {r['was']:.3f} |"
        for r in report["reliability"]
    ]
    text = _CARD.format(
        **{key: report[key] for key in ("file", "bytes", "sha256", "rows", "steps", "strength", "copies")},
        recordings=", ".join(report["recordings"]),
        held_out=", ".join(report["held_out"])
        or "none for good; every figure below is of folds that left that talk out",
        pause=_said(report["pause"]),
        speech=_said(report["speech"]),
        reliability="\n".join(rows),
        difference=f"{report['export_max_difference']:.1g}",
    )
    path.write_text(text, encoding="utf-8")


def _said(figure: dict[str, float]) -> str:
    if not figure:
        return "not measured: one kind only"
    spread = f"[{figure['low']}, {figure['high']}]"
    return f"AUC {figure['auc']} {spread} ({figure['ends']} moments of ends, {figure['others']} others)"


_CARD = """# vap-turn: p_end and VAP's classes on smart-turn's encoder, 4 s window

- File: `{file}`, {bytes} bytes, sha256 `{sha256}`.
- Made by `./scripts/train vap --data DIR` ({steps} steps, strength {strength}, {copies} augmented copies a talk).
- Encoder: smart-turn-v3.2-cpu.onnx (pipecat-ai, BSD-2-Clause, text in smart-turn.LICENSE), int8, frozen,
  position table cut to its last 4 s.
- Heads: two linear ones, trained here on {rows} moments of: {recordings}.
- Held out: {held_out}

## Licence

The encoder is BSD-2-Clause. Heads trained on SpokenWOZ (dialogues MUL*, SNG*) derive from data under CC BY-NC 4.0, and
then this file is **for non-commercial use**. AMI is CC BY 4.0. Train on recordings of your own for other uses.

## Figures of talks that a fold had not seen [MEASURED dev-host]

Leave one talk out; talks that share a named speaker leave together. SpokenWOZ does not name its speakers, so whether
one of them is in two dialogues cannot be checked. Intervals: bootstrap over talks; with few talks they say how much
the talks differ, no more.

- In pauses, complete against unfinished, every 100 ms of the first second: {pause}
- During speech, a turn end within 300 ms against none: {speech}
- Exported graph against the fitted heads: {difference} at most.

Reliability in pauses (each silence counts once, split over its moments):

| p_end said | silences | mean p_end | share that were ends |
|---|---|---|---|
{reliability}

Telephone English and meeting English, few speakers: what holds elsewhere is not known. Where a pause is digital silence
(synthesised speech, a muted line), p_end of unfinished phrases rises with the silence: ask it once, 0.2 s in
(`turn.predict_at_s: [0.2]`). `python -m bench turn_end` compares it with the alternatives.
"""
