"""Pauses of annotated talk: how long people fall silent without anyone else taking over. Pure.

A pause is the silence between two successive elements of one speaker that nobody else's element reaches into. What
counts as an element is the rule's to say, the same for both sides.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pads_runtime.corpora.ami import KINDS, AmiCorpus, Kind
from pads_runtime.corpora.switchboard import Conversation
from pads_runtime.errors import DataError

from .timing import percentile

SHORTEST_S, LONGEST_S = 0.1, 5.0
"""Of AMI, whose forced alignment hides shorter ones; longer ones are no pauses in a turn."""

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rule:
    """What counts as speech."""

    name: str
    kinds: frozenset[Kind]
    meaning: str


AMI_RULES = (
    Rule("words_only", frozenset({"w"}), "whole words; cut-off words, punctuation and sounds count as silence"),
    Rule("every_timed_element", KINDS, "words, cut-off words, punctuation, vocal sounds, gaps"),
    Rule("words_and_cut_off_words", frozenset({"w", "trunc"}), "what was spoken, finished or not"),
)


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of one corpus under one rule."""

    corpus: str
    rule: str
    meaning: str
    talks: int
    lengths_s: tuple[float, ...]
    """Sorted."""

    def share_at_least(self, seconds: float) -> float:
        """Part of the pauses that are no shorter than ``seconds``; nan if there are none."""
        count = len(self.lengths_s)
        return (count - bisect.bisect_left(self.lengths_s, seconds)) / count if count else float("nan")

    def as_json(self) -> dict[str, object]:
        """Count and percentiles in seconds; None where there is no pause."""
        points = {
            f"p{q}_s": percentile(self.lengths_s, q) if self.lengths_s else None for q in (10, 25, 50, 75, 90, 95)
        }
        rounded = {name: None if value is None else round(value, 4) for name, value in points.items()}
        return {
            "corpus": self.corpus,
            "rule": self.rule,
            "meaning": self.meaning,
            "talks": self.talks,
            "pauses": len(self.lengths_s),
            **rounded,
        }


def gaps(own: Sequence[Span], others: Iterable[Span]) -> Iterator[float]:
    """Silences between successive spans of ``own`` (sorted by start) that no span of ``others`` reaches into.

    A span that only touches the silence does not reach into it; one without length does if it lies inside.
    """
    sorted_others = sorted(others)
    starts = [start for start, _ in sorted_others]
    latest_end = list(itertools.accumulate((end for _, end in sorted_others), max))
    for (_, left), (right, _) in itertools.pairwise(own):
        if right > left:
            before = bisect.bisect_left(starts, right)
            if before == 0 or latest_end[before - 1] <= left:
                yield right - left


def between_speakers(sides: Mapping[str, Sequence[Span]]) -> Iterator[float]:
    """The gaps of every speaker of one talk, the others being everyone else."""
    for speaker, own in sides.items():
        yield from gaps(own, (span for other, spans in sides.items() if other != speaker for span in spans))


def ami_pauses(corpus: AmiCorpus, rules: Sequence[Rule] = AMI_RULES) -> list[Pauses]:
    """Pauses of ``SHORTEST_S`` to ``LONGEST_S`` under each rule, over all meetings, mistimed ones included.

    Lengths are differences of the corpus's seconds as they come: one written as exactly 0.10 is in or out by rounding.
    Raises DataError if there is not one pause.
    """
    found: dict[str, list[float]] = {rule.name: [] for rule in rules}
    talks = len(corpus.meetings)
    for name in corpus.meetings:
        meeting = corpus.meeting(name)
        for rule in rules:
            sides = {speaker: meeting.spans(speaker, rule.kinds) for speaker in meeting.elements}
            found[rule.name] += (s for s in between_speakers(sides) if SHORTEST_S <= s <= LONGEST_S)
    if not any(found.values()):
        raise DataError(
            f"not one pause in the {len(corpus.meetings)} meetings of '{corpus.path}': are the words empty?"
        )
    talks = len(corpus.meetings)
    return [Pauses("ami", rule.name, rule.meaning, talks, tuple(sorted(found[rule.name]))) for rule in rules]


def switchboard_pauses(calls: Iterable[Conversation]) -> Pauses:
    """All gaps of Switchboard's sides. Raises DataError if there is not one."""
    lengths: list[float] = []
    talks = 0
    for call in calls:
        talks += 1
        lengths += (ms / 1000.0 for ms in between_speakers(call.sides))
    if not lengths:
        raise DataError("not one pause in Switchboard: is the table empty?")
    meaning = "words of both sides as they are aligned; noise and laughter count as silence; of any length"
    return Pauses("switchboard", "words_only", meaning, talks, tuple(sorted(lengths)))
