"""How often an exit's guess is the full model's next token, on replies of its own to prompts it was not fitted on.

Guesses come from the runtime's own draft head with the translator as stored. While drafts agree, the cache below the
exit is what it is here, so the same hits also say how many of a run of drafts a verification would accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine.model import Model

from .collect import Positions
from .fit import Translator
from .head import Head
from .ladder import Ladder, Tokens

RESAMPLES = 2000
SEED = 20260923
DRAFT_LEN = 4

Hits = NDArray[np.bool_]


@dataclass(frozen=True)
class Agreement:
    """A share of positions, and the interval that holds 95 % of its resamples by prompt."""

    share: float
    low: float
    high: float
    accepted: float
    """Mean number of accepted tokens in a round of four drafts."""


def native_guesses(
    model: Model, found: Mapping[int, Translator], draft_vocab: int, prefix: Sequence[int], held_out: Positions
) -> Tokens:
    """Guesses (n, exits) at all held-out positions from the draft heads of llama.cpp; ``prefix`` goes before each."""
    streams = held_out.streams()
    ladder = Ladder(model, sorted(found), len(prefix) + max(map(len, streams)))
    try:
        ladder.use_heads({k: (each.matrix, each.bias) for k, each in found.items()}, draft_vocab)
        guesses = []
        for stream in streams:
            ladder.trim(0)
            guesses.append(ladder.guesses([*prefix, *stream.tolist()])[len(prefix) :])
        return np.concatenate(guesses)
    finally:
        ladder.close()


def guesses(translator: Translator | None, held_out: Positions, at: int, head: Head) -> Tokens:
    """Guesses (n,) at the exit of index ``at`` in plain numbers; without a translator, those of the bare exit."""
    found = []
    for start in range(0, len(held_out), 1024):
        states = held_out.states[start : start + 1024, at].astype(np.float32)
        found.append(np.argmax(head.scores(states if translator is None else translator(states)), axis=1))
    return np.concatenate(found).astype(np.int32)


def agreement(guessed: Tokens, held_out: Positions) -> Agreement:
    """Over reply positions only. Choices that cannot be drafted count as misses."""
    replies = held_out.reply
    hits, items = (guessed == held_out.choices)[replies], held_out.item[replies]
    by_prompt = [hits[items == item] for item in np.unique(items)]
    right = np.array([each.sum() for each in by_prompt])
    size = np.array([len(each) for each in by_prompt])
    drawn = np.random.default_rng(SEED).integers(0, len(size), (RESAMPLES, len(size)))
    resampled = right[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    rounds = [accepted for each in by_prompt for accepted in accepted_by_round(each, DRAFT_LEN)]
    return Agreement(
        share=round(float(right.sum() / size.sum()), 4),
        low=round(float(low), 4),
        high=round(float(high), 4),
        accepted=round(float(np.mean(rounds)), 3),
    )


def accepted_by_round(hits: Hits, draft_len: int) -> list[int]:
    """Accepted drafts of each round over one reply: hits up to the first miss. The token after them is the model's."""
    found, at = [], 0
    while at < len(hits):
        drafts = hits[at : at + draft_len]
        accepted = int(np.argmin(drafts)) if not drafts.all() else len(drafts)
        found.append(accepted)
        at += accepted + 1
    return found
