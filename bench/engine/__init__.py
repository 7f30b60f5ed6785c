"""What the engine of two depths shows: exactness, speed, aborts, the time to the first token, memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.config import ROOT, EngineSettings
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators, fitted_for
from pads_runtime.errors import UsageError
from pads_runtime.models import Registry
from pads_runtime.models.hashing import sha256_of

from ..report import Measurement
from . import aborts, draws, exact, resources, speed, turns
from .common import Bench, Say


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    only: tuple[str, ...] = ()
    """Names of parts; none is all."""
    full: bool = False
    """The whole grid and many runs: hours instead of minutes."""
    with_1b: bool = False
    stock_python: Path | None = None
    translator: Path | None = None
    """A file of translators; None takes the one in models/ that fits, if any."""


def measure(settings: EngineSettings, registry: Registry, options: Options, say: Say) -> list[Measurement]:
    """All figures of the parts asked for. Raises PadsError if one cannot be measured at all."""
    path = registry.resolve(settings.model)
    model = Model(path)
    try:
        translators = translators_of(path, options.translator)
        bench = Bench(model, settings, translators, say, options.full, options.stock_python)
        parts: dict[str, Callable[[], Iterable[Measurement]]] = {
            "identical": lambda: exact.measure(bench),
            "sampling": lambda: draws.measure(bench),
            "bindings": lambda: speed.bindings(bench),
            "adaptive": lambda: speed.adaptive(bench),
            "ceiling": lambda: speed.ceiling(bench, options.with_1b),
            "abort": lambda: aborts.measure(bench),
            "ttft": lambda: turns.measure(bench),
            "contention": lambda: resources.contention(bench),
            "memory": lambda: resources.memory(bench),
        }
        gc.disable()
        try:
            rows = []
            for name in _asked(options.only, list(parts)):
                for row in parts[name]():
                    say(f"  {row.name}: {row.p50:.4g} {row.unit}  {row.note}")
                    rows.append(row)
            return rows
        finally:
            gc.enable()
    finally:
        model.close()


def _asked(only: Sequence[str], known: list[str]) -> list[str]:
    unknown = [name for name in only if name not in known]
    if unknown:
        raise UsageError(f"--only {unknown[0]}: there is no such part; use some of {', '.join(known)}")
    return [name for name in known if not only or name in only]


def translators_of(model: Path, asked: Path | None) -> Translators | None:
    """The translators to measure with: the file asked for, else one in models/ that was fitted for this very file."""
    sha256 = sha256_of(model)
    if asked is not None:
        return Translators.load(asked, sha256)
    for path in sorted((ROOT / "models").glob("exits-*.npz")):
        if fitted_for(path) == sha256:
            return Translators.load(path, sha256)
    return None
