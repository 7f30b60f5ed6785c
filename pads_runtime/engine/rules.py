"""Which token is served where a draft was made: two rules that both leave the deep model's distribution as it is.

**Coupled.** The number u(seed, position) draws the draft from the exit's distribution and the served token from the
deep one, by the same inverse distribution function. The draft is accepted if the two are the same token. So what is
served is what plain decoding serves, token for token, and the common number makes agreement likely. Greedy decoding
is the case in which no number is looked at.

**Leviathan.** The rule of speculative sampling (Leviathan et al., arXiv 2211.17192, algorithm 1): a draft x is kept
with probability min(1, p(x) / q(x)), else the token is drawn from max(p - q, 0), normalised. It accepts as often as any
rule can, but only the distribution is that of plain decoding, not the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError
from . import sampling
from .sampling import Logits

ACCEPT, RESIDUAL, DRAFT = 1, 2, 3
"""Lanes of the random numbers of one position; lane 0 is plain decoding's."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a draw depends on besides logits and position."""

    seed: int
    temperature: float
    top_k: int
    top_p: float


class Rule(Protocol):
    """Draws drafts and served tokens. ``position`` counts the tokens of the reply, from 0.

    The exit's logits may be fewer than the deep ones: it scores the first tokens of the vocabulary only.
    """

    def draft(self, logits: Logits, position: int) -> int:
        """A guess from the exit's logits."""
        ...

    def serve(self, logits: Logits, position: int, draft: int | None) -> int:
        """The token to serve from the deep logits; a ``draft`` is accepted if it is that token.

        Raises EngineError for logits that are not numbers.
        """
        ...


class Coupled:
    """See the module's text. The number of a position is the one plain decoding draws with."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing

    def draft(self, logits: Logits, position: int) -> int:
        """A guess drawn with the number that the served token will be drawn with."""
        best = sampling.greedy(logits)
        return self._draw(logits, position, best) if np.isfinite(logits[best]) else best

    def serve(self, logits: Logits, position: int, draft: int | None = None) -> int:
        """Plain decoding's token, whatever was drafted."""
        return self._draw(logits, position, finite_best(logits))

    def _draw(self, logits: Logits, position: int, best: int) -> int:
        d = self._drawing
        if d.temperature == 0:
            return best
        return sampling.sample(logits, d.temperature, d.top_k, d.top_p, sampling.uniform(d.seed, position))


class Leviathan:
    """See the module's text. Remembers the distribution that each open draft was drawn from."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._drafted: dict[int, NDArray[np.float64]] = {}

    def draft(self, logits: Logits, position: int) -> int:
        """A guess from the exit's own distribution q."""
        best = sampling.greedy(logits)
        if not np.isfinite(logits[best]):  # a spoiled exit: certain of one token, which is then judged like any other
            self._drafted[position] = np.zeros(len(logits))
            self._drafted[position][best] = 1.0
            return best
        ids, q = self._distribution(logits)
        self._drafted[position] = _dense(ids, q, len(logits))
        return sampling.pick(ids, q, self._uniform(position, DRAFT))

    def serve(self, logits: Logits, position: int, draft: int | None) -> int:
        """The draft, or a draw from what p has more than q; without a draft, a draw from p."""
        finite_best(logits)
        ids, p = self._distribution(logits)
        if draft is None:
            return sampling.pick(ids, p, self._uniform(position, 0))
        q = np.zeros(len(logits))
        q[: len(self._drafted[position])] = self._drafted[position]
        return accept_or_draw(
            draft, _dense(ids, p, len(logits)), q, (self._uniform(position, ACCEPT), self._uniform(position, RESIDUAL))
        )

    def _uniform(self, position: int, lane: int) -> float:
        return sampling.uniform(self._drawing.seed, position, lane)

    def _distribution(self, logits: Logits) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return sampling.distribution(logits, self._drawing.temperature, self._drawing.top_k, self._drawing.top_p)


def accept_or_draw(draft: int, p: NDArray[np.float64], q: NDArray[np.float64], u: tuple[float, float]) -> int:
    """Speculative sampling of one token: ``draft`` was drawn from ``q``; the result is distributed as ``p``.

    ``p``, ``q`` (n_vocab,); ``u`` two numbers in [0, 1), for the decision and for the draw after a rejection.
    """
    if u[0] * q[draft] < p[draft]:
        return draft
    residual = np.maximum(p - q, 0.0)
    ids = np.flatnonzero(residual)
    if not len(ids):  # p = q but for rounding
        return draft
    return sampling.pick(ids, residual[ids], u[1])


def finite_best(logits: Logits) -> int:
    """The token of the largest logit. Raises EngineError if a logit is not a number."""
    best = sampling.greedy(logits)
    if not np.isfinite(logits[best]):  # argmax stops at the first NaN, so this sees one anywhere
        raise EngineError("the model's logits are not finite numbers; the model file may be damaged")
    return best


def _dense(ids: NDArray[np.int64], probs: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    dense = np.zeros(n)
    dense[ids] = probs
    return dense
