"""Who had the floor: an AMI meeting as a sequence of turns, by a rule that needs words and their times only.

1. The words of one speaker form an utterance until 0.5 s pass without a word of theirs.
2. An utterance of fewer than 3 words is left out: listeners' "yeah" and "mm" do not take the floor.
3. Utterances in order of their start; neighbours of the same speaker are one turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .ami_words import Word

UTTERANCE_GAP_S = 0.5
LEAST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said before another took over; seconds of the meeting."""

    speaker: str
    start_s: float
    end_s: float
    words: int
    text: str


def turns_of(words: Iterable[Word]) -> list[Turn]:
    """The turns of one meeting in order of their start; two in a row are always of different speakers."""
    by_speaker: dict[str, list[Word]] = {}
    for word in words:
        by_speaker.setdefault(word.speaker, []).append(word)
    utterances = [run for spoken in by_speaker.values() for run in _utterances(spoken) if len(run) >= LEAST_WORDS]
    utterances.sort(key=lambda run: (run[0].start_s, run[0].speaker))
    turns: list[list[Word]] = []
    for run in utterances:
        if turns and turns[-1][0].speaker == run[0].speaker:
            turns[-1].extend(run)
        else:
            turns.append(list(run))
    return [_turn(run) for run in turns]


def _utterances(words: Sequence[Word]) -> list[list[Word]]:
    runs: list[list[Word]] = []
    for word in words:
        if runs and word.start_s - runs[-1][-1].end_s < UTTERANCE_GAP_S:
            runs[-1].append(word)
        else:
            runs.append([word])
    return runs


def _turn(run: Sequence[Word]) -> Turn:
    text = " ".join(word.text for word in run)
    return Turn(run[0].speaker, run[0].start_s, max(word.end_s for word in run), len(run), text)
