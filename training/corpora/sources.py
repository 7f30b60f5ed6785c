"""Dialogues to train language models on: DailyDialog and the meetings of AMI, in one form.

Turns alternate between user and agent. The user's are in canonical spoken form, as the runtime shows them to the
model; the agent's as they are written. A meeting has several speakers: it becomes dialogues of a few turns, in which
every other turn is the agent's.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.errors import DataError
from pads_runtime.frames import Message, Role
from pads_runtime.gate.premise import canonical

from ..acts.corpus import read_corpus, split_of
from ..exits.corpus import written
from .ami_items import MEETING
from .ami_turns import Turn, turns_of
from .ami_words import Word, read_words

DEFAULT_EXCLUDED = ("EN2001a", "EN2001d", "EN2002c", "ES2014c", "IN1013", "IS1002c")
"""AMI meetings that are never trained on. The first gives the evaluation items, the others the validation loss."""
TURNS_A_DIALOGUE = 12
_OPTION = "--ami-exclude-meetings"


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Some turns in a row, the first of them the user's."""

    source: str
    """dailydialog or ami"""
    name: str
    """The split or the meeting, and the dialogue's number in it."""
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Corpora:
    """What is trained on and what the validation loss is measured on."""

    train: tuple[Dialogue, ...]
    validation: tuple[Dialogue, ...]
    excluded: tuple[str, ...]
    """AMI meetings kept out of the training data."""


def read_corpora(dailydialog: Path, ami: Path, excluded: Sequence[str] = DEFAULT_EXCLUDED) -> Corpora:
    """To train on: DailyDialog's training split and AMI less ``excluded``. To validate on: DailyDialog's validation
    split and the excluded meetings, except the one the evaluation items come from.

    Raises DataError if a corpus is missing or laid out otherwise, or a name in ``excluded`` is no meeting of it.
    """
    utterances = read_corpus(dailydialog)
    spoken = read_words(ami)
    check_excluded(excluded, tuple(spoken))
    train = [*daily_dialogues(utterances, "train"), *_meetings(spoken, [n for n in spoken if n not in excluded])]
    kept_out = [name for name in sorted(set(excluded)) if name != MEETING]
    validation = [*daily_dialogues(utterances, "validation"), *_meetings(spoken, kept_out)]
    return Corpora(tuple(train), tuple(validation), tuple(sorted(set(excluded))))


def check_excluded(excluded: Sequence[str], meetings: Sequence[str]) -> None:
    """Refuse a name that matches no meeting: mistyped, it would let the meeting into the training data."""
    for name in excluded:
        if name not in meetings:
            near = difflib.get_close_matches(name, meetings, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {len(meetings)}, such as {meetings[0]}"
            raise DataError(f"{_OPTION}: '{name}' is no meeting of this corpus; {hint}")


def daily_dialogues(utterances: Sequence[object], split: str) -> list[Dialogue]:
    """The dialogues of one split of DailyDialog (rows of :func:`training.acts.corpus.read_corpus`), in file order."""
    rows = split_of(utterances, split)  # type: ignore[arg-type]
    found = []
    for number, group in itertools.groupby(rows, key=lambda u: u.dialogue):
        texts = [written(u.text) for u in group]
        found.append(Dialogue("dailydialog", f"{split} {number}", _messages(texts)))
    return [dialogue for dialogue in found if dialogue.messages]


def ami_dialogues(meeting: str, turns: Sequence[Turn]) -> list[Dialogue]:
    """One meeting in dialogues of at most twelve turns."""
    parts = [turns[i : i + TURNS_A_DIALOGUE] for i in range(0, len(turns), TURNS_A_DIALOGUE)]
    found = [Dialogue("ami", f"{meeting} {i}", _messages([t.text for t in part])) for i, part in enumerate(parts)]
    return [dialogue for dialogue in found if dialogue.messages]


def _meetings(spoken: dict[str, tuple[Word, ...]], names: Sequence[str]) -> list[Dialogue]:
    return [dialogue for name in names for dialogue in ami_dialogues(name, turns_of(spoken[name]))]


def _messages(texts: Sequence[str]) -> tuple[Message, ...]:
    """User and agent by turns; up to the first turn without a word."""
    messages = []
    for i, text in enumerate(texts):
        message = Message(Role.AGENT, text) if i % 2 else Message(Role.USER, canonical(text))
        if not message.text:
            break
        messages.append(message)
    return tuple(messages)
