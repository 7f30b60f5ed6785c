"""From an exit's guesses at each position of a reply to what rounds of drafts would have come to. Pure.

While drafts agree with the reply, the exit sees what it sees here: the reply's own tokens. So the guesses along the
reply say, for every draft length at once, how many drafts of each round the whole model accepts, and none of them needs
to be decoded again. What an exit drafts after its first wrong guess is thrown away and only counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Line:
    """One exit along one reply. Position 0 is the reply's second token: the first comes with the prompt."""

    hits: Flags
    """(n,): the guess is what the whole model says"""
    ends: Flags
    """(n,): the guess would end the reply, so nothing is drafted after it"""
    may_serve: int
    """Most tokens that a reply may have after its first."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """Drafts of some rounds, and how many of them were accepted."""

    drafted: int = 0
    accepted: int = 0
    rounds: int = 0

    def __add__(self, other: Drafted) -> Drafted:
        return Drafted(self.drafted + other.drafted, self.accepted + other.accepted, self.rounds + other.rounds)


def drafted(line: Line, draft_len: int) -> Drafted:
    """The rounds of a reply: each drafts ``draft_len`` tokens, less before the reply's cap, and nothing after an end.

    A round serves its accepted drafts and one token more. Rounds that may not draft are not counted. Guesses that would
    end the reply are known up to the first wrong one; where a later one would have stopped the engine, it drafts less
    than is counted here.
    """
    total, at = Drafted(), 0
    while at < len(line.hits):
        room = min(draft_len, line.may_serve - at - 1)
        if room < 1:
            at += 1
            continue
        right = _run(line.hits[at : at + room])
        stops = np.flatnonzero(line.ends[at : at + min(right + 1, room)])
        total += Drafted(int(stops[0]) + 1 if len(stops) else room, right, 1)
        at += right + 1
    return total


def all_drafted(lines: Sequence[Line], draft_len: int) -> list[Drafted]:
    """The same for each reply."""
    return [drafted(line, draft_len) for line in lines]


def _run(hits: Flags) -> int:
    """How many of the first hits are true in a row."""
    return len(hits) if hits.all() else int(np.argmin(hits))
