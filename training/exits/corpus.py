"""Conversations out of DailyDialog in the form the engine sees them, and the proof that none is on both sides.

What the user said is in canonical spoken form, as the runtime gives it to the model; what the agent said is as written.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pads_runtime.errors import DataError
from pads_runtime.frames import Message, Role
from pads_runtime.gate.premise import canonical

from ..acts.corpus import Utterance, read_corpus, split_of

SEED = 20260923
MOST_EXCHANGES = 2
"""Earlier exchanges (user and agent) that a prompt may have before its last user turn."""
_CLITIC = re.compile(r"\s*['\u2019]\s*(?=(?:s|m|re|ll|ve|d|t)\b)", re.IGNORECASE)
_BEFORE_MARK = re.compile(r"\s+(?=[.,!?;:%)])")


@dataclass(frozen=True)
class Conversations:
    """Prompts, each a conversation that ends with the user."""

    train: tuple[tuple[Message, ...], ...]
    held_out: tuple[tuple[Message, ...], ...]
    dropped: int
    """Training prompts left out because one of their turns ends a held-out prompt."""


def read_conversations(folder: Path, system_prompt: str, held_out: int) -> Conversations:
    """Prompts from the training split, and ``held_out`` from the test split; always in the same, shuffled, order.

    Raises DataError if the corpus is missing, laid out in another way or too small.
    """
    utterances = read_corpus(folder)
    system = Message(Role.SYSTEM, system_prompt)
    test = list(_prompts(split_of(utterances, "test"), system))[:held_out]
    if len(test) < held_out:
        raise DataError(f"DailyDialog in '{folder}': {len(test)} test dialogues, {held_out} are needed")
    ends = {canonical(prompt[-1].text) for prompt in test}
    train = list(_prompts(split_of(utterances, "train"), system))
    kept = [prompt for prompt in train if not any(canonical(m.text) in ends for m in prompt[1:])]
    return Conversations(tuple(kept), tuple(test), len(train) - len(kept))


def written(text: str) -> str:
    """The corpus puts blanks around every mark ("I ' m fine ."); this takes them out."""
    return _BEFORE_MARK.sub("", _CLITIC.sub("'", text)).strip()


def _prompts(utterances: Sequence[Utterance], system: Message) -> Iterator[tuple[Message, ...]]:
    """One prompt a dialogue: a user turn in it and some of what came before."""
    rng = random.Random(SEED)
    dialogues = [[u.text for u in group] for _, group in itertools.groupby(utterances, key=lambda u: u.dialogue)]
    rng.shuffle(dialogues)
    for texts in dialogues:
        last = rng.randrange(0, len(texts), 2)
        first = last - 2 * min(rng.randint(0, MOST_EXCHANGES), last // 2)
        messages = [_message(texts[i], agent=bool(i % 2)) for i in range(first, last + 1)]
        if all(message.text for message in messages):
            yield (system, *messages)


def _message(text: str, agent: bool) -> Message:
    return Message(Role.AGENT, written(text)) if agent else Message(Role.USER, canonical(written(text)))


def check_no_leak(held_out: Iterable[Sequence[int]], streams: Iterable[NDArray[np.int32]]) -> int:
    """Look for each held-out last turn (its tokens, with the frame) in what is trained on; returns how many there are.

    Raises DataError if one is found: figures on it would be figures on the training data.
    """
    joined = np.concatenate([np.append(stream, np.int32(-1)) for stream in streams]).astype(np.int32)
    haystack, looked = joined.tobytes(), 0
    for looked, turn in enumerate(held_out, start=1):
        needle = np.asarray(turn, np.int32).tobytes()
        found = haystack.find(needle)
        while found >= 0 and found % 4:
            found = haystack.find(needle, found + 1)
        if found >= 0:
            raise DataError(
                f"leak: the last turn of held-out prompt {looked} is in the training data; nothing is fitted"
            )
    return looked
