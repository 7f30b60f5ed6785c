"""Fitting one linear head by full-batch Adam, on standardised inputs, with checkpoints that continue exactly.

Loss: weighted cross-entropy (two classes or many) + |w|^2 / (2 strength), both summed over rows, so that more data
needs no new ``strength``. Everything is deterministic: the same rows give the same head, killed and resumed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Log = Callable[[int, float], None]

RATE = 0.01
_BETA_1, _BETA_2, _EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Problem:
    """``x`` (rows, width), ``target`` (rows,) class indices, ``weight`` (rows,), ``classes`` (2: one logit)."""

    x: NDArray[np.float32]
    target: NDArray[np.int64]
    weight: NDArray[np.float32]
    classes: int
    strength: float


@dataclass
class State:
    """Weights of the standardised problem with bias in the last row, Adam's moments, and steps done."""

    w: Doubles
    m: Doubles
    v: Doubles
    step: int = 0

    def save(self, path: Path) -> None:
        """Write beside and rename, so that a kill leaves the last good checkpoint."""
        beside = path.with_suffix(".part")
        with beside.open("wb") as file:
            np.savez(file, w=self.w, m=self.m, v=self.v, step=self.step)
        beside.replace(path)

    @staticmethod
    def load(path: Path) -> State:
        """What ``save`` wrote."""
        with np.load(path) as kept:
            return State(kept["w"], kept["m"], kept["v"], int(kept["step"]))


def fit(
    problem: Problem, steps: int, checkpoint: Path | None = None, every: int = 50, log: Log | None = None
) -> tuple[Doubles, Doubles]:
    """(weights (width, outputs), bias (outputs,)) for raw inputs. Goes on from ``checkpoint`` if it is there."""
    mean, scale = _moments(problem.x, problem.weight)
    x = np.concatenate([(problem.x - mean) / scale, np.ones((len(problem.x), 1))], axis=1)
    outputs = 1 if problem.classes == 2 else problem.classes
    blank = np.zeros((x.shape[1], outputs))
    state = State.load(checkpoint) if checkpoint and checkpoint.is_file() else State(blank, blank.copy(), blank.copy())
    while state.step < steps:
        loss = _advance(state, x, problem)
        if state.step % every == 0 or state.step == steps:
            if checkpoint:
                state.save(checkpoint)
            if log:
                log(state.step, loss)
    weights = state.w[:-1] / scale[:, None]
    return weights, state.w[-1] - mean @ weights


def predict(x: NDArray[np.float32], weights: Doubles, bias: Doubles) -> Doubles:
    """Probabilities: (rows,) of class 1 for one logit, else (rows, classes)."""
    logits = x @ weights + bias
    return sigmoid(logits[:, 0]) if logits.shape[1] == 1 else _softmax(logits)


def sigmoid(z: Doubles) -> Doubles:
    """Logistic function without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)))


def _advance(state: State, x: Doubles, problem: Problem) -> float:
    """One Adam step on the mean loss; returns the loss before it."""
    total = float(problem.weight.sum())
    logits = x @ state.w
    if problem.classes == 2:
        p = sigmoid(logits[:, 0])
        residual = (p - problem.target)[:, None]
        likely = np.where(problem.target == 1, p, 1.0 - p)
    else:
        probabilities = _softmax(logits)
        rows = np.arange(len(x))
        likely = probabilities[rows, problem.target]
        residual = probabilities
        residual[rows, problem.target] -= 1.0
    penalised = state.w.copy()
    penalised[-1] = 0.0
    gradient = x.T @ (residual * problem.weight[:, None]) / total + penalised / (problem.strength * total)
    loss = float(-(problem.weight * np.log(np.maximum(likely, 1e-12))).sum() / total)
    loss += float((penalised**2).sum()) / (2 * problem.strength * total)
    state.step += 1
    state.m = _BETA_1 * state.m + (1 - _BETA_1) * gradient
    state.v = _BETA_2 * state.v + (1 - _BETA_2) * gradient**2
    rate = RATE * np.sqrt(1 - _BETA_2**state.step) / (1 - _BETA_1**state.step)
    state.w = state.w - rate * state.m / (np.sqrt(state.v) + _EPS)
    return loss


def _moments(x: NDArray[np.float32], weight: NDArray[np.float32]) -> tuple[Doubles, Doubles]:
    mean = np.average(x.astype(np.float64), axis=0, weights=weight)
    variance = np.average((x - mean) ** 2, axis=0, weights=weight)
    scale: Doubles = np.sqrt(variance)
    scale[scale < 1e-6] = 1.0
    return mean, scale


def _softmax(z: Doubles) -> Doubles:
    raised = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
