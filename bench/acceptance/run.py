"""The benchmark: every model and kind of exit, greedy and sampled, through llama.cpp and through PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from .tables import Kind, agreement, cell, gain, losses_of, torch_summary

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
                    cell(kind, at, m, model, asked.tokens)
                    for at, m in itertools.product(range(len(kind.exits)), range(1, asked.drafts + 1))
                ]
                agreed += [agreement(kind, at) for at in range(len(kind.exits))]
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
        "full_depth_loss": losses_of(losses),
        "replies": told_of,
        "same_as_the_engine_s_own_loop": checks,
        "translators_over_bare_exits": gain(rows, agreed),
        "pytorch": torch_summary(rows, agreed, without_torch),
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
