"""From logits to a token. Pure functions; the random number of a position depends on (seed, position) alone.

Because nothing is carried from one draw to the next, a branch that was prepared and discarded changes no later reply.
Probabilities are float64. Ties are broken by the lower token id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
_WORD = 0xFFFFFFFFFFFFFFFF


def greedy(logits: Logits) -> int:
    """The token of the largest logit, shape (n_vocab,)."""
    return int(np.argmax(logits))


def uniform(seed: int, position: int, lane: int = 0) -> float:
    """A number in [0, 1) that belongs to (seed, position, lane): the counter-based generator Philox 4x64.

    ``lane`` tells apart several draws for one position. (Salmon et al., SC 2011.)
    """
    bits = np.random.Philox(key=_words(seed, seed >> 64), counter=_words(0, position, lane, 0))
    return float(np.random.Generator(bits).random())


def _words(*values: int) -> NDArray[np.uint64]:
    # A plain list with a value of 2**63 or more would go through float64 and lose its low bits.
    return np.array([value & _WORD for value in values], np.uint64)


def distribution(
    logits: Logits, temperature: float, top_k: int, top_p: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What may be drawn: token ids by falling probability, and their probabilities, which sum to 1.

    ``logits`` (n_vocab,), ``temperature`` > 0. First the ``top_k`` likeliest are kept (0: all), then the shortest
    head of them whose probability reaches ``top_p`` (nucleus sampling, Holtzman et al. 2020).
    """
    ids = _top(logits, top_k)
    scaled = logits[ids].astype(np.float64) / temperature
    weights = np.exp(scaled - scaled[0])
    probs = weights / weights.sum()
    if top_p < 1.0:
        keep = int(np.searchsorted(np.cumsum(probs), top_p, side="left")) + 1
        ids, probs = ids[:keep], probs[:keep] / probs[:keep].sum()
    return ids, probs


def pick(ids: NDArray[np.int64], probs: NDArray[np.float64], u: float) -> int:
    """The token at which the cumulative probability passes ``u`` in [0, 1)."""
    cumulative = np.cumsum(probs)
    index = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return int(ids[min(index, len(ids) - 1)])


def sample(logits: Logits, temperature: float, top_k: int, top_p: float, u: float) -> int:
    """Draw one token with the number ``u``; temperature 0 is greedy and does not look at ``u``."""
    if temperature == 0.0:
        return greedy(logits)
    ids, probs = distribution(logits, temperature, top_k, top_p)
    return pick(ids, probs, u)


def _top(logits: Logits, top_k: int) -> NDArray[np.int64]:
    if 0 < top_k < len(logits):
        floor = np.partition(logits, -top_k)[-top_k]
        ids = np.flatnonzero(logits >= floor)
    else:
        ids = np.arange(len(logits))
    order = np.argsort(-logits[ids], kind="stable")
    return ids[order][: top_k or None]
