"""One participant of an annotated meeting as the user of a talk: when there is voice, what is said, where turns end."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..corpora.ami import Element, Meeting
from ..frames import Word

FLOOR_WORDS = 3
"""Fewer words in a row do not take the floor: a listener's "yeah" ends nobody's turn."""
FLOOR_GAP_S = 0.5
"""Time without a word that ends such a row."""
EARLY_S = 1.0
"""Who answers may begin so long before the other has ended."""
_VOICED = frozenset(("w", "trunc", "vocalsound"))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Voice from ``start_s`` to ``end_s``, seconds of the meeting, and what came of the silence behind it."""

    start_s: float
    end_s: float
    turn_ends: bool
    """Whether someone else took the floor before this participant spoke again."""


@dataclass(frozen=True)
class Party:
    """What one participant did in one meeting."""

    meeting: str
    speaker: str
    words: tuple[Word, ...]
    """In order of their start; words cut short are among them."""
    stretches: tuple[Stretch, ...]

    @property
    def end_s(self) -> float:
        """When the last voice ends; 0 without any."""
        return self.stretches[-1].end_s if self.stretches else 0.0


def party_of(meeting: Meeting, speaker: str, shortest_silence_s: float) -> Party:
    """``speaker`` in ``meeting``. Shorter silences than ``shortest_silence_s`` are part of the voice around them.

    Voice is every timed word, cut word and vocal sound. A turn ends where another speaker, before this one speaks
    again, begins at least three words in a row (0.5 s without a word end a row), 1 s before the voice's end at the
    earliest. The silence after the last voice of the meeting ends a turn.
    """
    own = _timed(meeting.elements[speaker])
    words = tuple(Word(_plain(e.text), a, b) for e, a, b in own if e.kind in ("w", "trunc") and _plain(e.text))
    voice = _joined(((a, b) for e, a, b in own if e.kind in _VOICED), shortest_silence_s)
    floors = sorted(start for name in meeting.elements if name != speaker for start in _floors(meeting.elements[name]))
    nexts = [*(start for start, _ in voice[1:]), math.inf][: len(voice)]
    stretches = tuple(
        Stretch(start, end, next_s == math.inf or _within(floors, end - EARLY_S, next_s))
        for (start, end), next_s in zip(voice, nexts, strict=True)
    )
    return Party(meeting.name, speaker, words, stretches)


def _timed(elements: Iterable[Element]) -> list[tuple[Element, float, float]]:
    timed = [(e, e.start_s, e.end_s) for e in elements if e.start_s is not None and e.end_s is not None]
    return sorted(((e, a, b) for e, a, b in timed if b > a), key=lambda row: (row[1], row[2]))


def _plain(text: str) -> str:
    return " ".join(text.replace("_", " ").split())


def _joined(spans: Iterable[tuple[float, float]], shortest_s: float) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        if joined and start - joined[-1][1] < shortest_s:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _floors(elements: Iterable[Element]) -> list[float]:
    """Where each row of enough words begins."""
    rows: list[list[tuple[float, float]]] = []
    for element, start, end in _timed(elements):
        if element.kind != "w":
            continue
        if rows and start - rows[-1][-1][1] < FLOOR_GAP_S:
            rows[-1].append((start, end))
        else:
            rows.append([(start, end)])
    return [row[0][0] for row in rows if len(row) >= FLOOR_WORDS]


def _within(sorted_s: Sequence[float], after_s: float, before_s: float) -> bool:
    at = bisect_left(sorted_s, after_s)
    return at < len(sorted_s) and sorted_s[at] < before_s
