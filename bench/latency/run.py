"""``bench latency``: every strategy on the same turns, block by block in turn, and what each made the person wait."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pads_runtime import assemble
from pads_runtime.config import PadsSettings, load_costs
from pads_runtime.demo import speak_turn
from pads_runtime.models import Registry

from ..harness.energy import EnergyMeter
from ..report import Measurement, measurement, missing
from .figures import WAITS, StrategyFigures, TurnFigures, agreement, difference, pareto, rows, same_replies
from .strategies import MAIN, Strategy
from .talk import Ground, Held, hold
from .turns import blocks, turns

Say = Callable[[str], None]
BLOCK = 6
AGREES_WITHIN = 0.15
"""What the virtual clock's medians may be off by."""


@dataclass(frozen=True)
class Asked:
    """What is run."""

    strategies: tuple[Strategy, ...]
    turns: int
    real: bool
    """Hold the talks of the main strategies on the real clock as well, and compare the clocks."""


@dataclass
class _Spent:
    """What has come of one strategy so far."""

    turns: list[TurnFigures] = field(default_factory=list)
    cpu_s: float = 0.0
    joules: float | None = 0.0

    def add(self, held: Held, joules: float | None) -> None:
        self.turns += held.turns
        self.cpu_s += held.cpu_s
        self.joules = None if joules is None or self.joules is None else self.joules + joules


def measure(
    asked: Asked, settings: PadsSettings, registry: Registry, say: Say
) -> tuple[list[Measurement], dict[str, Any]]:
    """Rows and everything else that was found. Raises PadsError."""
    virtual = _on(settings, "virtual")
    found = compare(asked.strategies, asked.turns, virtual, registry, say)
    detail: dict[str, Any] = {
        "clock": "virtual",
        "costs": settings.clock.costs,
        "strategies": [s.as_json() for s in found],
        "differences": differences(found),
        "pareto": pareto(found),
        "replies": asdict(same_replies(found)),
    }
    if asked.real:
        main = [s for s in asked.strategies if s.name in MAIN]
        real = compare(main, asked.turns, _on(settings, "real"), registry, say)
        by_name = {row["strategy"]: row for row in detail["strategies"]}
        detail["real_clock"] = [s.as_json() for s in real]
        detail["real_differences"] = differences(real)
        detail["real_replies"] = asdict(same_replies(real))
        detail["clocks_agree"] = {s.name: agreement(s.as_json(), by_name[s.name]) for s in real}
    detail["per_turn"] = [row for s in found for row in rows(s)]
    return _measurements(found, detail), detail


def _on(settings: PadsSettings, kind: str) -> PadsSettings:
    clock = settings.clock.model_copy(update={"kind": kind, "speed": 0.0})
    return settings.model_copy(update={"clock": clock})


def compare(
    strategies: Sequence[Strategy], count: int, settings: PadsSettings, registry: Registry, say: Say
) -> list[StrategyFigures]:
    """Hold every block under every strategy before the next block, so that a change of the machine meets all."""
    voice = assemble.synthesizer(settings.speech, registry)
    ground = Ground(registry, load_costs(settings.clock.costs), voice)
    spent = {strategy.name: _Spent() for strategy in strategies}
    made = blocks(turns(count, settings.engine.seed), BLOCK)
    for number, block in enumerate(made):
        spoken = [speak_turn(turn.script, voice) for turn in block]
        # The one who goes first meets a machine that has rested; so everyone goes first in turn.
        shifted = [*strategies[number % len(strategies) :], *strategies[: number % len(strategies)]]
        for strategy in shifted:
            say(f"{settings.clock.kind} clock, block {number + 1} of {len(made)}: {strategy.name}")
            meter = EnergyMeter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of calibrations made elsewhere
                held = hold(ground, strategy.applied(settings), number, block, spoken)
            spent[strategy.name].add(held, meter.spent().joules)
    return [
        StrategyFigures(
            s.name,
            s.meaning,
            tuple(sorted(spent[s.name].turns, key=lambda t: (t.block, t.turn))),
            spent[s.name].cpu_s,
            spent[s.name].joules,
        )
        for s in strategies
    ]


def differences(found: Sequence[StrategyFigures]) -> list[dict[str, Any]]:
    """PADS against each other main strategy, wait by wait."""
    by_name = {s.name: s for s in found}
    if "pads" not in by_name:
        return []
    others = [by_name[name] for name in ("sequential", "streaming", "preemptive") if name in by_name]
    return [d for other in others for wait in WAITS if (d := difference(by_name["pads"], other, wait)) is not None]


def _measurements(found: Sequence[StrategyFigures], detail: dict[str, Any]) -> list[Measurement]:
    made: list[Measurement] = []
    for strategy in found:
        for wait in WAITS:
            values = [v for v in strategy.values(wait).tolist() if v == v]
            name = f"{strategy.name}_{wait}"
            made.append(
                measurement(name, values, note=strategy.meaning)
                if values
                else missing(name, "no turn was answered", "ms")
            )
        wasted = sum(turn.wasted_tokens for turn in strategy.turns)
        note = f"{len(strategy.turns)} turns; {strategy.cpu_s:.1f} s of processor time in all"
        made.append(measurement(f"{strategy.name}_wasted_tokens", [float(wasted)], "tokens", note=note))
    made.append(_identical(detail["replies"]))
    for name, waits in detail.get("clocks_agree", {}).items():
        for wait, found_ in waits.items():
            note = f"virtual {found_['virtual']} ms, real {found_['real']} ms"
            made.append(
                measurement(f"clock_off_{name}_{wait}", [abs(found_["off"])], "share", limit=AGREES_WITHIN, note=note)
            )
    return made


def _identical(replies: Mapping[str, Any]) -> Measurement:
    compared, odd = replies["compared"], replies["odd"]
    if not compared:
        return missing("replies_identical", "no two strategies answered the same words after the same history", "share")
    note = f"{compared} pairs; {replies['not_comparable']} more after a cut-off, whose history depends on the waiting"
    share = 1.0 - len(odd) / compared
    return measurement("replies_identical", [share], "share", at_least=1.0, note=odd[0] if odd else note)
