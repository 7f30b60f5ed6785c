"""Cells, gains and losses out of what was seen at each position. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.bootstrap import interval, ratios, resample_counts
from pads_runtime.engine.model import Model

from .counts import Drafted, all_drafted
from .looks import Looked

TOLERANCE = 0.03
"""Most by which an acceptance through PyTorch may differ: README.md says why they differ at all."""
AT_LEAST = 3.0
"""What translators are asked to reach: so many times the acceptance of bare exits, at half depth."""


@dataclass(frozen=True)
class Kind:
    """A model with one kind of exit, along its own replies in one mode."""

    name: str
    mode: str
    exits: tuple[int, ...]
    looked: list[Looked]
    torch: list[Looked] | None


def cell(kind: Kind, at: int, draft_len: int, model: Model, max_tokens: int) -> dict[str, Any]:
    """Exit x draft length."""
    counted = all_drafted([e.line(at, model, max_tokens) for e in kind.looked], draft_len)
    top, bottom = [c.accepted for c in counted], [c.drafted for c in counted]
    total = sum(counted, Drafted())
    row = {
        "exits": kind.name,
        "mode": kind.mode,
        "exit": kind.exits[at],
        "draft_len": draft_len,
        "drafted": total.drafted,
        "accepted": total.accepted,
        "acceptance": _share(top, bottom),
        "per_round": round(total.accepted / total.rounds, 3) if total.rounds else None,
        "by_item": [top, bottom],
        "pytorch": None,
    }
    if kind.torch is not None:
        through = sum(all_drafted([e.line(at, model, max_tokens) for e in kind.torch], draft_len), Drafted())
        row["pytorch"] = round(through.accepted / through.drafted, 4) if through.drafted else None
    return row


def agreement(kind: Kind, at: int) -> dict[str, Any]:
    """Share of reply positions at which the exit guesses what the whole model says."""
    hits, size = [int(e.hits[at].sum()) for e in kind.looked], [len(e.served) for e in kind.looked]
    row = {"exits": kind.name, "mode": kind.mode, "exit": kind.exits[at], "agreement": _share(hits, size)}
    row |= {"by_item": [hits, size], "pytorch": None, "same_choice": None}
    if kind.torch is not None:
        row["pytorch"] = round(float(np.mean(np.concatenate([e.hits[at] for e in kind.torch]))), 4)
        pairs = zip(kind.looked, kind.torch, strict=True)
        row["same_choice"] = round(float(np.mean(np.concatenate([a.served == b.served for a, b in pairs]))), 4)
    return row


def _share(top: Sequence[float], bottom: Sequence[float]) -> list[float | None]:
    """A share and its interval by item."""
    total = sum(bottom)
    found = interval(ratios(resample_counts(len(top)), top, bottom))
    low, high = found if found is not None else (None, None)
    return [_rounded(sum(top) / total if total else None), _rounded(low), _rounded(high)]


def gain(rows: Sequence[dict[str, Any]], agreed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Acceptance with translators over that of bare exits at half depth, paired by item."""
    exits = sorted({row["exit"] for row in rows if row["exits"].endswith(", translators")})
    if not exits:
        return []
    half = exits[len(exits) // 2]
    found = []
    for row in [*rows, *agreed]:
        if row["exit"] != half or not row["exits"].endswith(", translators"):
            continue
        same = ("mode", "exit", "draft_len")
        bare = next(
            r
            for r in (rows if "draft_len" in row else agreed)
            if r["exits"].endswith(", bare exits") and all(r.get(key) == row.get(key) for key in same)
        )
        counts = resample_counts(len(row["by_item"][0]))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = ratios(counts, *row["by_item"]) / ratios(counts, *bare["by_item"])
        between = interval(np.where(np.isfinite(factor), factor, np.nan))
        mine, other = (sum(r["by_item"][0]) / sum(r["by_item"][1]) for r in (row, bare))
        times = mine / other if other else None
        found.append(
            {key: row.get(key) for key in same}
            | {
                "what": "accepted / drafted" if "draft_len" in row else "agreement",
                "times": [_rounded(times), *map(_rounded, between or (None, None))],
                "at_least": AT_LEAST,
                "within": times is not None and times >= AT_LEAST,
            }
        )
    return found


def losses_of(losses: Mapping[str, Sequence[tuple[float, int]]]) -> list[dict[str, Any]]:
    """nats per token of what people answered, and the difference to the first model, paired by item."""
    found: list[dict[str, Any]] = []
    first = next(iter(losses.values()))
    for name, items in losses.items():
        top, bottom = [nats for nats, _ in items], [tokens for _, tokens in items]
        row: dict[str, Any] = {"model": name, "nats_per_token": _share(top, bottom), "tokens": sum(bottom)}
        if items is not first:
            counts = resample_counts(len(items))
            base = [[e[i] for e in first] for i in (0, 1)]
            change = ratios(counts, top, bottom) - ratios(counts, *base)
            here = sum(top) / sum(bottom) - sum(base[0]) / sum(base[1])
            row["change"] = [_rounded(here), *map(_rounded, interval(change) or (None, None))]
        found.append(row)
    return found


def torch_summary(
    rows: Sequence[dict[str, Any]], agreed: Sequence[dict[str, Any]], without: str | None
) -> dict[str, Any]:
    if without is not None:
        return {"not_measured": f"NOT MEASURED: {without}"}
    both = [row for row in rows if row["pytorch"] is not None and row["acceptance"][0] is not None]
    apart = [(abs(row["pytorch"] - row["acceptance"][0]), row) for row in both]
    worst, where = max(apart, key=lambda pair: pair[0])
    return {
        "weights": "those of each file, dequantised to 32-bit floats",
        "largest_difference": _rounded(worst),
        "at": {key: where[key] for key in ("exits", "mode", "exit", "draft_len")},
        "mean_difference": _rounded(float(np.mean([row["pytorch"] - row["acceptance"][0] for row in both]))),
        "same_choice": {row["mode"]: row["same_choice"] for row in agreed},
        "tolerance": TOLERANCE,
        "within": worst <= TOLERANCE,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
