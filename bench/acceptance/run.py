"""The benchmark: every model and kind of exit, greedy and sampled, through llama.cpp and through PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.bootstrap import interval, ratios, resample_counts
from bench.engine.common import Obeying
from pads_runtime.config import EngineSettings
from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import UsageError

from .counts import Drafted, all_drafted
from .looks import Case, Looked, Told, ami_cases, looking, tell
from .pytorch import TorchModel, missing

TOLERANCE = 0.03
"""Most by which an acceptance through PyTorch may differ: README.md says why they differ at all."""
AT_LEAST = 3.0
"""What translators are asked to reach: so many times the acceptance of bare exits, at half depth."""
CHECKED = 8
"""Replies that the engine's own drafting loop decodes again, to hold the counts against it."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line."""

    ami: Path
    models: Mapping[str, Path]
    """The model under test, then others to compare with it, by name."""
    translators: Translators | None = None
    """Of the first model."""
    drafts: int = 6
    tokens: int = 128
    seed: int = 42
    temperature: float = 0.8
    exits: tuple[int, ...] = ()
    """None: five, at the same parts of the depth for every model."""
    torch: bool = True
    items: int = 40

    @property
    def modes(self) -> dict[str, float]:
        """Temperatures by name."""
        return {"greedy": 0.0, "sampled": self.temperature}


@dataclass(frozen=True)
class Kind:
    """A model with one kind of exit, along its own replies in one mode."""

    name: str
    mode: str
    exits: tuple[int, ...]
    looked: list[Looked]
    torch: list[Looked] | None


def measure(settings: EngineSettings, asked: Asked, say: Say) -> dict[str, Any]:
    """All figures as plain data. Raises PadsError."""
    cases = ami_cases(asked.ami, asked.seed)[: asked.items]
    rows: list[dict[str, Any]] = []
    agreed: list[dict[str, Any]] = []
    checks: dict[str, Any] = {}
    losses: dict[str, list[tuple[float, int]]] = {}
    told_of: dict[str, Any] = {}
    without_torch = missing() if asked.torch else "not asked for"
    for number, (name, path) in enumerate(asked.models.items()):
        model = Model(path)
        try:
            bench = _OneModel(model, settings, asked, name, asked.translators if number == 0 else None, say)
            for kind in bench.kinds(cases, torch=without_torch is None):
                rows += [
                    _row(kind, at, m, model, asked)
                    for at, m in itertools.product(range(len(kind.exits)), range(1, asked.drafts + 1))
                ]
                agreed += [_agreement(kind, at) for at in range(len(kind.exits))]
            losses[name] = bench.losses
            checks |= bench.checks
            kept = model.metadata("pads.weights")  # what an export says of weights that were quantised before
            told_of[name] = {"file": model.description, "weights": kept or "as in the file"} | bench.replies
        finally:
            model.close()
    return {
        "items": len(cases),
        "rows": rows,
        "agreement": agreed,
        "full_depth_loss": _losses(losses),
        "replies": told_of,
        "same_as_the_engine_s_own_loop": checks,
        "translators_over_bare_exits": _gain(rows, agreed),
        "pytorch": _torch_summary(rows, agreed, without_torch),
    }


class _OneModel:
    """What is measured on one model file."""

    def __init__(
        self, model: Model, settings: EngineSettings, asked: Asked, name: str, translators: Translators | None, say: Say
    ) -> None:
        self._model, self._settings, self._asked, self._say = model, settings, asked, say
        self._exits = asked.exits or exit_ladder(model.n_layer)
        if wrong := [k for k in self._exits if not 1 <= k < model.n_layer]:
            raise UsageError(
                f"--exits {wrong[0]}: '{model.path}' has {model.n_layer} layers; use 1 to {model.n_layer - 1}"
            )
        self._heads: dict[str, Translators | None] = {name: None}
        if translators is not None:
            self._heads = {f"{name}, bare exits": None, f"{name}, translators": translators}
        self.losses: list[tuple[float, int]] = []
        self.checks: dict[str, Any] = {}
        self.replies: dict[str, Any] = {}

    def kinds(self, cases: Sequence[Case], torch: bool) -> Iterator[Kind]:
        """Every kind of exit in every mode; fills the other figures on the way."""
        told = {}
        for mode, temperature in self._asked.modes.items():
            self._say(f"{self._model.path.name}: {len(cases)} replies, {mode}")
            engine = self._engine(temperature)
            try:
                told[mode] = tell(engine, cases, self._asked.tokens)
            finally:
                engine.close()
            positions = sum(t.positions for t in told[mode])
            self.replies[mode] = {
                "positions": positions,
                "ended_by_themselves": sum(t.ended for t in told[mode]),
                "empty": sum(not t.text for t in told[mode]),
            }
        found: dict[tuple[str, str], list[Looked]] = {}
        every = list(itertools.chain(*told.values()))
        with looking(self._model, self._settings, self._exits, every, self._asked.tokens) as looker:
            self._say("loss on what people answered")
            self.losses = [looker.loss(t) for t in told["greedy"]]
            for name, heads in self._heads.items():
                looker.use(heads)
                for mode, temperature in self._asked.modes.items():
                    self._say(f"{name}: exits {', '.join(map(str, self._exits))}, {mode}")
                    found[name, mode] = [looker.look(t, temperature) for t in told[mode]]
        for name in self._heads:
            self._check(name, told["greedy"], found[name, "greedy"])
        by_torch = self._through_torch(told) if torch else {}
        for (name, mode), looked in found.items():
            yield Kind(name, mode, self._exits, looked, by_torch.get((name, mode)))

    def _engine(self, temperature: float, heads: Translators | None = None, controller: Any = None) -> LlamaEngine:
        changes = {
            "temperature": temperature,
            "max_reply_tokens": self._asked.tokens,
            "exit_layer": "none" if controller is None else "auto",
            "sampling_rule": "coupled",
            "serve": "deep",
        }
        settings = EngineSettings(**(self._settings.model_dump() | changes))
        return LlamaEngine(self._model, settings, controller=controller, translators=heads)

    def _check(self, name: str, told: Sequence[Told], looked: Sequence[Looked]) -> None:
        """Decode some replies again with drafts, and hold accepted and drafted against what was counted."""
        at = len(self._exits) // 2
        some = list(zip(told, looked, strict=True))[:CHECKED]
        self._say(f"{name}: the engine's own loop at exit {self._exits[at]}, {self._asked.drafts} drafts")
        controller = Obeying()
        controller.tell(self._exits[at], self._asked.drafts)
        engine = self._engine(0.0, self._heads[name], controller)
        try:
            again = tell(engine, [t.case for t, _ in some], self._asked.tokens)
        finally:
            engine.close()
        counted = sum(
            all_drafted([e.line(at, self._model, self._asked.tokens) for _, e in some], self._asked.drafts), Drafted()
        )
        self.checks[name] = {
            "replies": len(some),
            "same_replies": sum(a.tokens == t.tokens for a, (t, _) in zip(again, some, strict=True)),
            "accepted": [controller.accepted, counted.accepted],
            "drafted": [controller.drafted, counted.drafted],
            "within": controller.accepted == counted.accepted and controller.drafted <= counted.drafted,
        }

    def _through_torch(self, told: Mapping[str, Sequence[Told]]) -> dict[tuple[str, str], list[Looked]]:
        self._say(f"{self._model.path.name}: the same through PyTorch")
        net = TorchModel(self._model, self._settings, self._exits)
        found: dict[tuple[str, str], list[Looked]] = {}
        for mode, temperature in self._asked.modes.items():
            for each in told[mode]:
                for name, looked in zip(
                    self._heads, net.look(each, list(self._heads.values()), temperature), strict=True
                ):
                    found.setdefault((name, mode), []).append(looked)
        return found


def _row(kind: Kind, at: int, draft_len: int, model: Model, asked: Asked) -> dict[str, Any]:
    """One cell: exit x draft length."""
    counted = all_drafted([e.line(at, model, asked.tokens) for e in kind.looked], draft_len)
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
        through = sum(all_drafted([e.line(at, model, asked.tokens) for e in kind.torch], draft_len), Drafted())
        row["pytorch"] = round(through.accepted / through.drafted, 4) if through.drafted else None
    return row


def _agreement(kind: Kind, at: int) -> dict[str, Any]:
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


def _gain(rows: Sequence[dict[str, Any]], agreed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
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


def _losses(losses: Mapping[str, Sequence[tuple[float, int]]]) -> list[dict[str, Any]]:
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


def _torch_summary(
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
        "same_choice": min(row["same_choice"] for row in agreed),
        "tolerance": TOLERANCE,
        "within": worst <= TOLERANCE,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
