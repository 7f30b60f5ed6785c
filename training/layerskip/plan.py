"""The recipe in numbers: which layers are skipped, which exits are scored and how, how fast it learns. No torch here.

After LayerSkip (arXiv 2404.16710): layers are dropped with a rate that rises linearly with depth, and the one output
norm and head that all layers share is scored at several depths at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pads_runtime.errors import ModelError, UsageError

PUBLISHED_EXITS, PUBLISHED_LAYERS = (4, 6, 8, 10, 12), 16
"""The auxiliary exits for a model of 16 layers; other depths take them in proportion."""
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The matrices that get a low-rank companion."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what comes out, apart from model and data."""

    steps: int = 400
    sequence: int = 512
    """Tokens in a row."""
    batch: int = 2
    """Rows in one forward pass, on each device."""
    accumulate: int = 2
    """Forward passes whose gradients make one step."""
    exits: tuple[int, ...] = ()
    """Layers after which the head is scored as well; empty means in proportion to the published ones."""
    exit_weight: float = 0.3
    exit_stride: int = 4
    """Auxiliary exits are scored on every so-many-th position, the last layer on all."""
    max_dropout: float = 0.5
    """Rate at which the last layer is skipped; the first never is."""
    rank: int = 16
    alpha: float = 32.0
    learning_rate: float = 5e-4
    warmup: int = 10
    """Steps over which the learning rate rises, before it falls along a half cosine to a tenth."""
    clip: float = 1.0
    """Largest norm of a step's gradient."""
    chunk: int = 256
    """Positions whose logits exist at one time."""
    seed: int = 20260923

    @property
    def rows_a_step(self) -> int:
        """Rows that one device trains on in one step."""
        return self.batch * self.accumulate


def chosen_exits(plan: Plan, n_layer: int) -> tuple[int, ...]:
    """The auxiliary exits for a model of ``n_layer`` layers, in rising order.

    Raises UsageError for one the model does not have, ModelError for a model too shallow to exit early.

    >>> chosen_exits(Plan(), 16), chosen_exits(Plan(), 30)
    ((4, 6, 8, 10, 12), (8, 11, 15, 19, 23))
    """
    if n_layer < 2:
        raise ModelError(f"a model of {n_layer} layer has no early exit; choose a deeper one")
    for exit_layer in plan.exits:
        if not 1 <= exit_layer < n_layer:
            raise UsageError(f"--exits {exit_layer}: this model has {n_layer} layers; use 1 to {n_layer - 1}")
    scaled = (math.floor(e * n_layer / PUBLISHED_LAYERS + 0.5) for e in PUBLISHED_EXITS)
    return tuple(sorted({*plan.exits} or {min(max(e, 1), n_layer - 1) for e in scaled}))


def dropout_rates(n_layer: int, most: float) -> tuple[float, ...]:
    """The rate at which each layer is skipped: 0 for the first, ``most`` for the last, linear between.

    >>> dropout_rates(3, 0.5)
    (0.0, 0.25, 0.5)
    """
    return tuple(most * layer / max(n_layer - 1, 1) for layer in range(n_layer))


def dropped_layers(plan: Plan, n_layer: int, step: int, part: int) -> frozenset[int]:
    """The layers that the ``part``-th forward pass of a step skips; the same ones whenever it is asked again."""
    draws = np.random.default_rng([plan.seed, step, part]).random(n_layer)
    return frozenset(np.flatnonzero(draws < np.array(dropout_rates(n_layer, plan.max_dropout))).tolist())


def learning_rate(plan: Plan, step: int) -> float:
    """The learning rate of the step, counted from 0.

    >>> plan = Plan(steps=101, warmup=0, learning_rate=1.0)
    >>> [round(learning_rate(plan, step), 3) for step in (0, 50, 100)]
    [1.0, 0.55, 0.1]
    """
    if step < plan.warmup:
        return plan.learning_rate * (step + 1) / (plan.warmup + 1)
    done = (step - plan.warmup) / max(plan.steps - 1 - plan.warmup, 1)
    return plan.learning_rate * (0.1 + 0.9 * (1 + math.cos(math.pi * min(done, 1.0))) / 2)


def rows_of_step(plan: Plan, n_rows: int, step: int, devices: int = 1) -> list[int]:
    """The rows of the training stream that a step trains on, all devices together: each pass over the data in an
    order of its own. Part ``p`` of device ``d`` takes ``batch`` of them from ``(p * devices + d) * batch`` on."""
    size = plan.rows_a_step * devices
    first = step * size
    found: list[int] = []
    while len(found) < size:
        round_, at = divmod(first + len(found), n_rows)
        order = np.random.default_rng([plan.seed, round_]).permutation(n_rows)
        found += order[at : at + size - len(found)].tolist()
    return found
