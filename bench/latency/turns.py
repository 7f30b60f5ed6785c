"""The user's turns: requests and remarks with a pause of chosen length injected inside, or with none. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pads_runtime.demo import TurnScript

SWEPT_S = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
"""Injected lengths, from a hole within a word to a second thought."""

SWITCHBOARD_S = (
    0.07, 0.109, 0.132, 0.158, 0.181, 0.211, 0.241, 0.278, 0.313, 0.35,
    0.388, 0.429, 0.471, 0.52, 0.575, 0.641, 0.724, 0.84, 1.018, 1.43,
)  # fmt: skip
"""The 2.5th, 7.5th ... 97.5th percentile of 283,072 gaps between words of one speaker, by ``bench pauses``."""

WHOLE, PART, NONE = "after a whole request", "inside a clause", "none"

_REQUESTS = (
    ("Can you tell me something about the sea?", "I mean the animals that live in it."),
    ("What should I cook for dinner?", "Something quick and easy."),
    ("How do I keep my plants alive?", "They stand by the window."),
    ("Can you explain how a bicycle stays up?", "My son asked me yesterday."),
    ("What is a good book for a long train ride?", "I like old stories."),
    ("Tell me how to clean a wooden table.", "It has coffee stains."),
)
_CLAUSES = (
    ("I was wondering if you could", "help me learn the piano."),
    ("What do you think about", "working in the garden in winter?"),
    ("Could you tell me why", "the sky is red in the evening?"),
    ("How long does it take to", "walk around a small lake?"),
    ("I would like to know where", "coffee was first grown."),
    ("Please give me the name of", "a bird that sings at night."),
)
_PLAIN = (
    "How do I make a good cup of tea?",
    "That sounds nice.",
    "What is the largest planet in the solar system?",
    "Give me one tip for sleeping well.",
    "I think it will rain tomorrow.",
    "Why do cats like boxes?",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn; ``pause_s`` is 0 where there is none."""

    first: str
    rest: str
    pause_s: float
    place: str
    """Where the pause is: WHOLE, PART or NONE."""
    drawn: bool = False
    """Whether its length was drawn from the measured distribution instead of swept."""

    @property
    def script(self) -> TurnScript:
        """For the scripted user."""
        return TurnScript(say=(self.first, self.pause_s, self.rest) if self.rest else (self.first,))


def turns(count: int, seed: int) -> list[Turn]:
    """``count`` turns in a fixed order: of six, two with a swept pause, two with a drawn one, two without.

    Lengths go round; both places meet every length when there are enough turns.
    """
    rng = np.random.default_rng(seed)
    swept = itertools.cycle(SWEPT_S)
    drawn = itertools.cycle(rng.permutation(SWITCHBOARD_S).tolist())
    requests, clauses, plain = itertools.cycle(_REQUESTS), itertools.cycle(_CLAUSES), itertools.cycle(_PLAIN)
    made: list[Turn] = []
    while len(made) < count:
        for lengths, is_drawn in ((swept, False), (drawn, True)):
            made.append(Turn(*next(requests), next(lengths), WHOLE, is_drawn))
            made.append(Turn(*next(clauses), next(lengths), PART, is_drawn))
            made.append(Turn(next(plain), "", 0.0, NONE))
    return made[:count]


def blocks(items: Sequence[Turn], size: int) -> list[list[Turn]]:
    """Talks of ``size`` turns, so that strategies can take turns on the machine.

    In each the long pauses come last: a turn that is cut off there changes the history of few others.
    """
    cut = (items[start : start + size] for start in range(0, len(items), size))
    return [sorted(block, key=lambda turn: turn.pause_s) for block in cut]
