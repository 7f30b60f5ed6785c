"""Measures what passes cost on this machine with one model, and keeps the answer in the user's cache.

What was measured holds for one model file, processor, build of llama.cpp and numbers of threads. All are kept with it;
an answer to another question is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path

from ..cachedir import cache_dir
from ..config import EngineSettings
from ..errors import EngineError, InputError, SetupError
from .costs import DepthCosts, ExitCosts, exit_ladder
from .depth import MAX_DRAFT
from .library import BEFORE_LOADING
from .model import Model
from .native import symbols
from .native.recipe import cpu_identity
from .passes import Passes

FORMAT = 2
DRAFT_VOCAB = 8_192
"""Rows of the short draft head, if the vocabulary is larger."""
DISCARDED = 3
"""First rounds thrown away."""
ROUNDS = 15
_EDGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads run a pass: over several rows, and over a single one."""

    rows: int
    one_row: int

    @classmethod
    def of(cls, settings: EngineSettings) -> Threads:
        """Those of the engine."""
        return cls(settings.threads, settings.decode_threads)

    def __str__(self) -> str:
        return f"{self.rows} threads, {self.one_row} for single tokens"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a measurement holds for."""

    model: str
    """Size and hash of the beginning and the end of the file: names it without reading gigabytes at every start."""
    cpu: str
    library: str
    threads: Threads
    environment: str
    """Waiting policy and kernels, as the environment sets them."""

    @classmethod
    def here(cls, model_path: Path, threads: Threads) -> Setting:
        """This machine, build and model. Raises InputError if the model file cannot be read."""
        try:
            cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        except OSError:
            cpuinfo = f"model: {platform.machine()} {platform.processor()}"
        environment = " ".join(f"{name}={os.environ.get(name, '')}" for name in sorted(BEFORE_LOADING))
        build = metadata.version("llama-cpp-python")
        return cls(fingerprint(model_path), cpu_identity(cpuinfo), build, threads, environment)


def fingerprint(path: Path) -> str:
    """Size and hash of the first and the last MiB: header and vocabulary, and the end of the weights."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest = hashlib.sha256()
            for start in (0, max(size - _EDGE_BYTES, 0)):
                file.seek(start)
                digest.update(file.read(_EDGE_BYTES))
    except OSError as exc:
        raise InputError(f"model file '{path}' cannot be read: {exc.strerror}") from None
    return f"{size}-{digest.hexdigest()[:32]}"


def stored_at(model_path: Path, threads: Threads) -> Path:
    """Where the costs of a model live. The name is for people; what is inside decides whether they are used."""
    name = re.sub(r"[^\w.-]+", "_", model_path.stem, flags=re.ASCII)[:80]
    return cache_dir() / "calibration" / f"{name}-{threads.rows}t-{threads.one_row}d.json"


def save(costs: DepthCosts, model_path: Path, threads: Threads) -> Path:
    """Keep ``costs`` for ``load_costs``; the file is replaced whole. Raises SetupError if it cannot be written."""
    path = stored_at(model_path, threads)
    data = {"format": FORMAT, "setting": asdict(Setting.here(model_path, threads)), "costs": costs.as_json()}
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as exc:
        raise SetupError(f"the calibration '{path}' cannot be written: {exc.strerror}; set PADS_CACHE") from None
    return path


def load_costs(model_path: Path, threads: Threads) -> DepthCosts | None:
    """What ``save`` kept for this model, machine, build and numbers of threads; None if there is nothing.

    What is there but damaged, or measured elsewhere, is not used either, with a RuntimeWarning of one line.
    """
    path = stored_at(model_path, threads)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        return _ignore(path, f"it cannot be read ({exc})")
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            return _ignore(path, "it was written by another version")
        measured_for = Setting(**data["setting"] | {"threads": Threads(**data["setting"]["threads"])})
        costs = DepthCosts.from_json(data["costs"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return _ignore(path, "it is damaged")
    here = Setting.here(model_path, threads)
    other = [field.name for field in fields(here) if getattr(measured_for, field.name) != getattr(here, field.name)]
    if other:
        return _ignore(path, f"it was measured for another {' and '.join(other)}")
    return costs


def _ignore(path: Path, why: str) -> DepthCosts | None:
    warnings.warn(f"calibration '{path}' is ignored: {why}; run: pads calibrate", RuntimeWarning, stacklevel=3)
    return None


def measure(
    model: Model,
    threads: Threads,
    rounds: int = ROUNDS,
    max_draft: int = MAX_DRAFT,
    clock: Callable[[], float] = time.perf_counter,
) -> DepthCosts:
    """Time every pass of every exit on the ladder, ``DISCARDED + rounds`` times, and take the medians of the last.

    They run in turn, so that a change of the machine's load meets all of them. Raises SetupError without our build of
    llama.cpp and EngineError for an architecture that has no exits.
    """
    if not symbols.capabilities().layer_range:
        raise SetupError("this llama.cpp was built without our patches and has one depth only; run ./scripts/setup")
    architecture = model.metadata("general.architecture")
    if architecture not in symbols.ARCHITECTURES:
        known = ", ".join(symbols.ARCHITECTURES)
        raise EngineError(f"model '{model.path}' is a {architecture}: early exits work for {known}")
    passes = Passes(model.handle, threads.rows, threads.one_row)
    try:
        return measure_passes(passes, exit_ladder(model.n_layer), max_draft, rounds, clock)
    finally:
        passes.close()


def measure_passes(
    passes: Passes, exits: Sequence[int], max_draft: int, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> DepthCosts:
    """The same for open ``passes`` and given exits."""
    rows = range(1, max_draft + 2)
    vocab = min(DRAFT_VOCAB, passes.n_vocab // symbols.DRAFT_VOCAB_STEP * symbols.DRAFT_VOCAB_STEP)
    times: dict[tuple[str, int, int], list[float]] = {}

    def spend(key: tuple[str, int, int], run: Callable[[], None]) -> None:
        before = clock()
        run()
        times.setdefault(key, []).append((clock() - before) * 1e3)

    for _ in range(DISCARDED + rounds):
        for n in rows:
            passes.trim()
            spend(("full", 0, n), lambda n=n: passes.full(n))  # type: ignore[misc]
        for k in exits:
            _one_exit(passes, k, vocab, rows, spend)
    passes.trim()
    ms = {key: statistics.median(values[DISCARDED:]) for key, values in times.items()}
    return DepthCosts(
        full={n: ms["full", 0, n] for n in rows},
        exits={
            k: ExitCosts(
                draft=ms["draft", k, 1],
                draft_whole=ms["draft_whole", k, 1],
                carry=ms["carry", k, 1],
                deep={n: ms["deep", k, n] for n in rows},
            )
            for k in exits
        },
    )


def _one_exit(
    passes: Passes,
    k: int,
    vocab: int,
    rows: Sequence[int],
    spend: Callable[[tuple[str, int, int], Callable[[], None]], None],
) -> None:
    for name, scores, head in (("draft", True, vocab), ("draft_whole", True, 0), ("carry", False, 0)):
        passes.trim()
        passes.draft_head(k, head, translator=head > 0)
        # The engine copies the exit state of every shallow pass, so this is part of its cost.
        spend((name, k, 1), lambda scores=scores: _shallow(passes, k, scores))  # type: ignore[misc]
    for n in rows:
        passes.trim()
        passes.shallow(k, n, scores=False)
        states = passes.states(n)
        spend(("deep", k, n), lambda states=states: passes.deep(k, states))  # type: ignore[misc]


def _shallow(passes: Passes, k: int, scores: bool) -> None:
    passes.shallow(k, 1, scores)
    passes.states(1)
