"""What one deep step costs: a token through layers [k, n) and the head, measured here or carried over to others.

Carried over in proportion to the weights a step reads, all of them as Q4_0: a machine that waits for memory and one
that waits for its arithmetic both take that much longer. It is a stated extrapolation, never a measurement.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.model import Model
from pads_runtime.engine.passes import Passes
from pads_runtime.errors import EngineError, SetupError

from .engine.files import Shape, random_model

SHAPES = {
    "1B": Shape(),
    "7B": Shape(layers=32, embedding=4096, feed_forward=11_008, heads=32, kv_heads=32, vocab=32_000),
}
"""Llama-3.2-1B and Llama-2-7B."""
EXIT_AT = 1
"""Which exit of the ladder: the second, a third of the depth."""
BYTES_PER_WEIGHT = 18 / 32
"""Q4_0."""
_DISCARDED, _RUNS = 3, 12

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeepStep:
    """The cost of one deep step of one model."""

    model: str
    exit_layer: int
    layers: int
    ms: float
    extrapolated: bool
    how: str


def deep_steps(model: Model, name: str, threads: int, with_1b: bool, say: Say) -> tuple[DeepStep, ...]:
    """Of ``model`` as measured now, of 1B as measured on random weights if asked, and of the rest carried over.

    Raises SetupError without our build of llama.cpp.
    """
    say(f"deep step of {name}")
    found = [measured(model, name, threads)]
    shape, basis = shape_of(model), found[0]
    if with_1b:
        say("deep step of 1B: writing a model of random weights")
        with tempfile.TemporaryDirectory() as folder:
            random = Model(random_model(Path(folder) / "random-1b.gguf", SHAPES["1B"]))
            try:
                basis = measured(random, "1B", threads)
            finally:
                random.close()
        found.append(basis)
        shape = SHAPES["1B"]
    known = {step.model for step in found}
    return (*found, *(carried_over(basis, shape, other, SHAPES[other]) for other in SHAPES if other not in known))


def measured(model: Model, name: str, threads: int, clock: Callable[[], float] = time.perf_counter) -> DeepStep:
    """Median of several steps behind 200 tokens, one row each. Raises SetupError, EngineError."""
    ladder = exit_ladder(model.n_layer)
    if not ladder:
        raise EngineError(f"model '{model.path}' has one layer and no deep step")
    exit_layer = ladder[min(EXIT_AT, len(ladder) - 1)]
    passes = Passes(model.handle, threads, threads)
    spent = []
    try:
        for _ in range(_DISCARDED + _RUNS):
            passes.trim()
            passes.shallow(exit_layer, 1, scores=False)
            states = passes.states(1)
            before = clock()
            passes.deep(exit_layer, states)
            spent.append((clock() - before) * 1e3)
    except AttributeError as exc:  # a library without our layer ranges
        raise SetupError(f"this llama.cpp has one depth only ({exc}); run ./scripts/setup") from None
    finally:
        passes.close()
    how = f"median of {_RUNS} steps behind 200 tokens, {threads} threads"
    how += ", random weights" if model.path.stem.startswith("random") else ""
    return DeepStep(name, exit_layer, model.n_layer, statistics.median(spent[_DISCARDED:]), False, how)


def carried_over(basis: DeepStep, basis_shape: Shape, name: str, shape: Shape) -> DeepStep:
    """The step of a model of ``shape``, from a measured one in proportion to the weights read."""
    exit_layer = exit_ladder(shape.layers)[EXIT_AT]
    ratio = deep_weights(shape, exit_layer) / deep_weights(basis_shape, basis.exit_layer)
    how = f"{basis.model}'s {basis.ms:.4g} ms times {ratio:.3g}, the ratio of the weights a step reads"
    return DeepStep(name, exit_layer, shape.layers, basis.ms * ratio, True, how)


def deep_weights(shape: Shape, exit_layer: int) -> int:
    """Weights that layers [exit_layer, n) and the head read for one token."""
    return (shape.layers - exit_layer) * _layer_weights(shape) + shape.embedding * shape.vocab


def all_weights(shape: Shape) -> int:
    """Weights that one step of plain decoding reads."""
    return deep_weights(shape, 0)


def shape_of(model: Model) -> Shape:
    """From the model's own description. Raises EngineError if it lacks a size."""
    prefix = model.metadata("general.architecture")

    def size(key: str) -> int:
        text = model.metadata(f"{prefix}.{key}")
        if text is None:
            raise EngineError(f"model '{model.path}' does not state {prefix}.{key}")
        return int(text)

    return Shape(
        layers=model.n_layer,
        embedding=size("embedding_length"),
        feed_forward=size("feed_forward_length"),
        heads=size("attention.head_count"),
        kv_heads=size("attention.head_count_kv"),
        vocab=model.n_vocab,
    )


def _layer_weights(shape: Shape) -> int:
    kv = shape.embedding // shape.heads * shape.kv_heads
    return 2 * shape.embedding**2 + 2 * shape.embedding * kv + 3 * shape.embedding * shape.feed_forward
