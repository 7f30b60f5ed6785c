"""Fits translators with numpy alone: a ridge regression toward the last layer's state, then descent on what counts.

A translator turns an exit's hidden state h into h + A h + b, which the model's own norm and head then read (as in the
tuned lens of Belrose et al., arXiv 2303.08112). The descent lowers the cross-entropy between its scores and the full
model's (Adam, Kingma and Ba, arXiv 1412.6980). The model itself is never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .collect import Positions
from .head import Floats, Head

_TINY = np.float32(1e-6)
_BLOCK = 2048
_BETAS = (0.9, 0.99)


@dataclass(frozen=True)
class Plan:
    """How to fit."""

    ridge: float = 0.01
    """Penalty of the regression, as a share of the variance of each of a state's numbers."""
    epochs: int = 4
    batch: int = 512
    rate: float = 0.005
    """First step size on standardised states; falls to nothing along a half cosine."""
    hard: float = 0.5
    """Share of the full model's choice in the target; the rest is its distribution."""
    top: int = 16
    """Tokens of that distribution that are kept."""
    text_every: int = 4
    """Of the positions of text only each one of so many is fitted on, of the model's own replies all."""
    decay: float = 0.0
    """Pull of the descent back to where the regression left it."""
    seed: int = 20260923


@dataclass(frozen=True)
class Translator:
    """h + matrix @ h + bias."""

    matrix: Floats
    """(n_embd, n_embd)"""
    bias: Floats
    """(n_embd,)"""

    def __call__(self, states: Floats) -> Floats:
        """The translated states, (n, n_embd)."""
        return np.asarray(states + states @ self.matrix.T + self.bias, np.float32)

    def stored(self) -> Translator:
        """As it is after storing: the matrix rounded to float16."""
        return Translator(self.matrix.astype(np.float16).astype(np.float32), self.bias)


@dataclass(frozen=True)
class Targets:
    """What the scores at each of n positions should be like."""

    ids: NDArray[np.int64]
    """(n, top)"""
    shares: Floats
    """(n, top), each row sums to 1"""


def usable(positions: Positions, head: Head, text_every: int = 1) -> Positions:
    """The positions whose choice is among the tokens that can be drafted; of text, each ``text_every``-th."""
    taken = positions.reply | (np.arange(len(positions)) % text_every == 0)
    return positions.where(taken & (positions.choices < len(head.rows)))


def targets(positions: Positions, head: Head, plan: Plan) -> Targets:
    """The full model's distribution over its likeliest draft tokens, mixed with its choice."""
    n, top = len(positions), min(plan.top, len(head.rows))
    ids, shares = np.empty((n, top), np.int64), np.empty((n, top), np.float32)
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        scores = positions.outputs[rows].astype(np.float32) @ head.rows.T + head.bias
        # The full model's choice always has a place, also where rounding put another token before it.
        np.put_along_axis(scores, positions.choices[rows, None].astype(np.int64), np.inf, axis=1)
        best = np.argpartition(scores, -top, axis=1)[:, -top:]
        kept = np.take_along_axis(scores, best, axis=1)
        chosen = np.isinf(kept)
        kept = np.where(chosen, -np.inf, kept)
        peak = kept.max(axis=1, keepdims=True)
        true = np.einsum("nd,nd->n", positions.outputs[rows].astype(np.float32), head.rows[positions.choices[rows]])
        kept = np.where(chosen, (true + head.bias[positions.choices[rows]])[:, None], kept)
        soft = np.exp(kept - np.maximum(peak, kept.max(axis=1, keepdims=True)))
        soft /= soft.sum(axis=1, keepdims=True)
        ids[rows], shares[rows] = best, plan.hard * chosen + (1 - plan.hard) * soft
    return Targets(ids, shares)


def ridge(states: Floats, outputs: Floats, head: Head, penalty: float) -> Translator:
    """Least squares from states (n, n_embd) to the last layer's, up to a scale, which the norm takes away.

    ``outputs`` (n, n_embd) are after the output norm, whose weight is divided out. ``penalty`` holds the translator
    near h itself.
    """
    wanted = outputs / np.where(np.abs(head.norm) > _TINY, head.norm, 1)
    wanted = wanted * np.sqrt(np.mean(states**2)) - states
    mean, middle = states.mean(0), wanted.mean(0)
    centred = states - mean
    gram = (centred.T @ centred).astype(np.float64) / len(states)
    # Its own variance for each number: a few of a state's numbers are a hundred times larger than the rest.
    variance = np.diag(gram)
    gram += penalty * np.diag(np.maximum(variance, variance.mean() * 1e-4))
    matrix = np.linalg.solve(gram, (centred.T @ (wanted - middle)) / len(states)).T.astype(np.float32)
    return Translator(matrix, np.asarray(middle - matrix @ mean, np.float32))


def refine(
    first: Translator, states: NDArray[np.float16], wanted: Targets, head: Head, plan: Plan, say: Callable[[str], None]
) -> Translator:
    """Lower the cross-entropy from ``first`` on. The same numbers in give the same numbers out."""
    sample = states[:: max(1, len(states) // 20_000)].astype(np.float32)
    mean, spread = sample.mean(0), np.maximum(sample.std(0), _TINY)
    start = [first.matrix * spread, first.bias + first.matrix @ mean]
    parameters = [part.copy() for part in start]
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in parameters]
    rng = np.random.default_rng(plan.seed)
    steps, step = plan.epochs * (len(states) // plan.batch), 0
    for epoch in range(plan.epochs):
        order, losses = rng.permutation(len(states)), []
        for at in range(0, len(order) - plan.batch + 1, plan.batch):
            rows = order[at : at + plan.batch]
            batch = states[rows].astype(np.float32)
            standard = (batch - mean) / spread
            translated = batch + standard @ parameters[0].T + parameters[1]
            loss, slope = loss_and_slope(translated, Targets(*(part[rows] for part in vars(wanted).values())), head)
            losses.append(loss)
            rate = plan.rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            for part, origin, pair, gradient in zip(
                parameters, start, moments, (slope.T @ standard, slope.sum(0)), strict=True
            ):
                _adam(part, pair, gradient, rate, step)
                part -= np.float32(rate * plan.decay) * (part - origin)
        say(f"  epoch {epoch + 1} of {plan.epochs}: loss {np.mean(losses):.4f}")
    matrix = parameters[0] / spread
    return Translator(matrix, parameters[1] - matrix @ mean)


def loss_and_slope(translated: Floats, wanted: Targets, head: Head) -> tuple[float, Floats]:
    """Mean cross-entropy at translated states (n, n_embd), and its derivative by them, (n, n_embd)."""
    scale = 1 / np.sqrt(np.mean(translated**2, axis=1, keepdims=True) + np.float32(head.eps))
    unit = translated * scale
    scores = (unit * head.norm) @ head.rows.T + head.bias
    scores -= scores.max(axis=1, keepdims=True)
    picked = np.take_along_axis(scores, wanted.ids, axis=1)
    np.exp(scores, out=scores)
    total = scores.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(total[:, 0]) - (picked * wanted.shares).sum(axis=1)))
    scores /= total
    rows = np.arange(len(scores))[:, None]
    scores[rows, wanted.ids] -= wanted.shares
    scores /= len(scores)
    inner = (scores @ head.rows) * head.norm
    slope = scale * (inner - unit * np.mean(inner * unit, axis=1, keepdims=True))
    return loss, np.asarray(slope, np.float32)


def _adam(part: Floats, pair: tuple[Floats, Floats], gradient: Floats, rate: float, step: int) -> None:
    """One step in place."""
    first, second = pair
    first += np.float32(1 - _BETAS[0]) * (gradient - first)
    second += np.float32(1 - _BETAS[1]) * (gradient * gradient - second)
    size = np.float32(rate / (1 - _BETAS[0] ** step))
    part -= size * first / (np.sqrt(second / np.float32(1 - _BETAS[1] ** step)) + np.float32(1e-12))
