"""The 40 evaluation items from AMI meeting EN2001a, by a written rule.

The turns are those of :mod:`training.corpora.ami_turns`. Two turns in a row, so of different speakers, are a candidate
if

1. the prompt has 8 to 60 words and the response at least 8: shorter ones ("yeah, that's right") occur in any text, and
   a search for them would prove nothing;
2. the response begins not earlier than 1 s before the prompt ends and not later than 2 s after: it answers it;
3. no other candidate has the same words as prompt or as response.

From the candidates in order of time, each turn used once, 40 are taken with equal steps between, the first and the last
among them. The meeting is never trained on (:data:`training.corpora.sources.DEFAULT_EXCLUDED`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.errors import DataError
from pads_runtime.gate.premise import canonical

from .ami_turns import Turn, turns_of
from .ami_words import read_words

MEETING = "EN2001a"
ITEMS = 40
PROMPT_WORDS = (8, 60)
LEAST_RESPONSE_WORDS = 8
EARLIEST_S, LATEST_S = -1.0, 2.0


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt with the response that was given; seconds of the meeting."""

    number: int
    """1 to 40, in order of time."""
    prompt: str
    """What the one speaker said, as the runtime shows it to the model: canonical words, no punctuation."""
    response: str
    """What the next speaker answered, as transcribed."""
    meeting: str
    prompt_speaker: str
    response_speaker: str
    prompt_start_s: float
    prompt_end_s: float
    response_start_s: float
    response_end_s: float


def read_items(source: Path) -> tuple[Item, ...]:
    """The items out of the AMI package at ``source`` (folder or tar archive).

    Raises DataError if it is missing or laid out otherwise, or holds too few candidates.
    """
    words = read_words(source, lambda meeting: meeting == MEETING).get(MEETING)
    if not words:
        raise DataError(f"AMI: '{source}' has no words of meeting {MEETING}; the evaluation items come from there")
    return items_of(turns_of(words))


def items_of(turns: Sequence[Turn]) -> tuple[Item, ...]:
    """The items out of the meeting's turns. Raises DataError if there are fewer than 40 candidates."""
    candidates = _candidates(turns)
    if len(candidates) < ITEMS:
        raise DataError(f"AMI: meeting {MEETING} has {len(candidates)} pairs of turns that fit, {ITEMS} are needed")
    step = (len(candidates) - 1) / (ITEMS - 1)
    return tuple(_item(i + 1, *candidates[round(i * step)]) for i in range(ITEMS))


def _candidates(turns: Sequence[Turn]) -> list[tuple[Turn, Turn]]:
    fitting = [pair for pair in itertools.pairwise(turns) if _fits(*pair)]
    prompts = Counter(canonical(prompt.text) for prompt, _ in fitting)
    responses = Counter(canonical(response.text) for _, response in fitting)
    taken: list[tuple[Turn, Turn]] = []
    for prompt, response in fitting:
        alone = prompts[canonical(prompt.text)] == 1 and responses[canonical(response.text)] == 1
        if alone and not (taken and taken[-1][1] is prompt):
            taken.append((prompt, response))
    return taken


def _fits(prompt: Turn, response: Turn) -> bool:
    fewest, most = PROMPT_WORDS
    after_s = response.start_s - prompt.end_s
    return (
        fewest <= prompt.words <= most and response.words >= LEAST_RESPONSE_WORDS and EARLIEST_S <= after_s <= LATEST_S
    )


def _item(number: int, prompt: Turn, response: Turn) -> Item:
    return Item(
        number,
        canonical(prompt.text),
        response.text,
        MEETING,
        prompt.speaker,
        response.speaker,
        prompt.start_s,
        prompt.end_s,
        response.start_s,
        response.end_s,
    )
