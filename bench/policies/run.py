"""The benchmark: look at every prompt once, then sweep, compare and reply."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.acceptance.looks import Case, Looked, Told, ami_cases, looking, tell
from bench.bootstrap import interval, ratios
from pads_runtime.config import EngineSettings
from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.engine.policies import POLICIES, ExitView
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import UsageError
from training.exits.corpus import read_conversations
from training.exits.gather import HELD_OUT

from . import curve
from .curve import BUDGETS, THRESHOLDS, Figure, Prompt, Swept
from .generation import Serving, quality, rouge_l

NOT_BRACKETED = "not bracketed"
SETS = ("ami", "dailydialog")
_SEED = 42

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line."""

    model: Path
    ami: Path
    dailydialog: Path
    p_deep: Callable[[str], float]
    translators: Translators | None
    exits: tuple[int, ...] = ()
    """None: five, at the same parts of the depth for every model."""
    sets: tuple[str, ...] = SETS
    prompts: int = 0
    """Of each set, for a quick look; 0 is all."""
    generate: bool = True


@dataclass(frozen=True)
class Seen:
    """One set of prompts, told by the whole model and looked at from every exit."""

    told: list[Told]
    looked: list[Looked]
    p_deep: list[float]

    def prompts(self, at: int) -> list[Prompt]:
        """As policies see them at one exit."""
        found = []
        for looked, p_deep in zip(self.looked, self.p_deep, strict=True):
            pairs = zip(looked.top[at].tolist(), looked.margin[at].tolist(), strict=True)
            found.append(Prompt(looked.hits[at], tuple(ExitView(top, margin, p_deep) for top, margin in pairs)))
        return found


def measure(settings: EngineSettings, asked: Asked, say: Say) -> dict[str, Any]:
    """All figures as plain data. Raises PadsError."""
    cases = {name: _cases(asked, settings, name) for name in asked.sets}
    model = Model(asked.model)
    try:
        exits = asked.exits or exit_ladder(model.n_layer)
        if wrong := [k for k in exits if not 1 <= k < model.n_layer]:
            raise UsageError(f"--exits {wrong[0]}: this model has {model.n_layer} layers; use 1 to {model.n_layer - 1}")
        figures: dict[str, list[dict[str, Any]]] = {}
        replies: list[dict[str, Any]] = []
        sets: dict[str, Any] = {}
        for name in asked.sets:
            seen = _look(model, settings, asked, exits, cases[name], say)
            sets[name] = _described(seen)
            for key, rows in _compared(seen, exits).items():
                figures.setdefault(key, []).extend({"set": name} | row for row in rows)
            if asked.generate and name == asked.sets[0]:
                rows = _generated(model, settings, asked, exits, seen, say)
                replies = [{"set": name} | row for row in rows]
    finally:
        model.close()
    return {
        "exits": list(exits),
        "translators": asked.translators is not None,
        "sets": sets,
        "thresholds": list(THRESHOLDS),
        **figures,
        "generation": replies,
        "sha256": {"figures": _digest(figures), "generation": _digest(replies)},
    }


def _digest(rows: Any) -> str:
    """Of all figures, to see at a glance whether another run found the same."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _cases(asked: Asked, settings: EngineSettings, name: str) -> list[Case]:
    if name == "ami":
        cases = ami_cases(asked.ami, _SEED)
    else:
        held_out = read_conversations(asked.dailydialog, settings.system_prompt, HELD_OUT).held_out
        cases = [Case(i, messages, "", _SEED) for i, messages in enumerate(held_out, start=1)]
    return cases[: asked.prompts or None]


def _look(
    model: Model, settings: EngineSettings, asked: Asked, exits: Sequence[int], cases: Sequence[Case], say: Say
) -> Seen:
    """The oracle's replies, and what each exit shows along them."""
    say(f"{len(cases)} replies of the whole model")
    plain = EngineSettings(**(settings.model_dump() | {"exit_layer": "none", "serve": "deep", "temperature": 0.0}))
    engine = LlamaEngine(model, plain)
    try:
        told = tell(engine, cases, plain.max_reply_tokens)
    finally:
        engine.close()
    with looking(model, settings, exits, told, settings.max_reply_tokens) as looker:
        looker.use(asked.translators)
        say(f"looking at them from exits {', '.join(map(str, exits))}")
        looked = [looker.look(t, 0.0) for t in told]
    return Seen(told, looked, [asked.p_deep(case.messages[-1].text) for case in cases])


def _described(seen: Seen) -> dict[str, Any]:
    shares = np.array(seen.p_deep)
    return {
        "prompts": len(seen.told),
        "positions": sum(len(each.served) for each in seen.looked),
        "empty_replies": sum(not t.text for t in seen.told),
        "p_deep_at_least_half": int((shares >= 0.5).sum()),
        "p_deep_quartiles": [round(float(q), 3) for q in np.quantile(shares, [0.25, 0.5, 0.75])],
    }


def _compared(seen: Seen, exits: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Curves, agreement at matched budgets and paired differences, for every exit."""
    found: dict[str, list[dict[str, Any]]] = {"references": [], "curves": [], "matched": [], "differences": []}
    for at, k in enumerate(exits):
        prompts = seen.prompts(at)
        swept = {name: curve.sweep(prompts, make) for name, make in POLICIES.items()}
        shallow = np.array([float(prompt.hits.sum()) for prompt in prompts])
        found["references"] += _references(k, shallow, next(iter(swept.values())))
        for name, each in swept.items():
            points = [each.point(i) for i in range(len(THRESHOLDS))]
            found["curves"] += [
                {"exit": k, "policy": name, "threshold": t, "deep_fraction": round(d, 4), "agreement": round(a, 4)}
                for t, (d, a) in zip(THRESHOLDS, points, strict=True)
            ]
        found["matched"] += _matched(k, swept, shallow)
        found["differences"] += _differences(k, swept)
    return found


def _references(k: int, shallow: np.ndarray[Any, Any], swept: Swept) -> list[dict[str, Any]]:
    low, high = interval(ratios(curve.counts_for(swept), shallow, swept.size)) or (None, None)
    share = [float(shallow.sum() / swept.size.sum()), low, high]
    return [
        {"exit": k, "policy": "always_shallow", "deep_fraction": 0.0, "agreement": [_rounded(x) for x in share]},
        {"exit": k, "policy": "always_deep", "deep_fraction": 1.0, "agreement": [1.0, 1.0, 1.0]},
    ]


def _matched(k: int, swept: Mapping[str, Swept], shallow: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    rows = []
    for (name, each), budget in itertools.product(swept.items(), BUDGETS):
        counts = curve.counts_for(each)
        gain = curve.over_coin(each, shallow, budget, counts)
        rows.append(
            {
                "exit": k,
                "policy": name,
                "budget": budget,
                "agreement": _shown(curve.matched(each, budget, counts)),
                "over_coin": _shown(gain),
                "resolved": gain is not None and gain.resolved,
            }
        )
    return rows


def _differences(k: int, swept: Mapping[str, Swept]) -> list[dict[str, Any]]:
    rows = []
    for (a, b), budget in itertools.product(itertools.combinations(swept, 2), BUDGETS):
        found = curve.difference(swept[a], swept[b], budget, curve.counts_for(swept[a]))
        row = {"exit": k, "a": a, "b": b, "budget": budget, "a_less_b": _shown(found)}
        rows.append(row | {"resolved": found is not None and found.resolved})
    return rows


def _generated(
    model: Model, settings: EngineSettings, asked: Asked, exits: Sequence[int], seen: Seen, say: Say
) -> list[dict[str, Any]]:
    """Free replies at half depth: each policy at the threshold whose deep fraction is nearest to each budget."""
    at = len(exits) // 2
    score = rouge_l()
    serving = Serving(model, settings, asked.translators, asked.p_deep, exits[at])
    rows: list[dict[str, Any]] = []
    with looking(model, settings, exits[at : at + 1], seen.told, settings.max_reply_tokens) as looker:
        for name, make in POLICIES.items():
            swept = curve.sweep(seen.prompts(at), make)
            for budget in BUDGETS:
                row: dict[str, Any] = {"exit": exits[at], "policy": name, "budget": budget}
                chosen = curve.nearest(swept, budget)
                if chosen is None:
                    rows.append(row | {"threshold": NOT_BRACKETED})
                    continue
                threshold = THRESHOLDS[chosen]
                known = [r for r in rows if (r["policy"], r["threshold"]) == (name, threshold)]
                if known:
                    rows.append(known[0] | row)
                    continue
                say(f"replies at exit {exits[at]}, {name} {threshold}")
                found, deep = serving.replies(seen.told, name, threshold)
                row |= {"threshold": threshold, "deep_fraction": round(deep, 4)}
                rows.append(row | quality(seen.told, found, looker, score))
                say(f"  {rows[-1]}")
    return rows


def _shown(figure: Figure | None) -> list[float] | str:
    return NOT_BRACKETED if figure is None else figure.as_json()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
