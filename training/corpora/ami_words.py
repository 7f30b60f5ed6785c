"""The words of the AMI Meeting Corpus with the punctuation behind them; see :mod:`pads_runtime.corpora.ami`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.corpora.ami import AmiCorpus, Element


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word with the punctuation that the transcriber put after it; seconds of the meeting."""

    speaker: str
    start_s: float
    end_s: float
    text: str


def read_words(source: Path, wanted: Callable[[str], bool] = lambda meeting: True) -> dict[str, tuple[Word, ...]]:
    """The words of every meeting that ``wanted`` agrees to, by name, each meeting's in order of their start.

    Words cut short (``trunc``), sounds and untimed words are left out; ``X_M_L_`` is written XML. Raises DataError
    naming the file if ``source`` is missing, holds no words files, or one of them is not NXT.
    """
    corpus = AmiCorpus(source)
    return {
        name: tuple(
            sorted(
                (w for speaker, said in corpus.meeting(name).elements.items() for w in _words(speaker, said)),
                key=lambda w: (w.start_s, w.speaker, w.end_s),
            )
        )
        for name in corpus.meetings
        if wanted(name)
    }


def meetings(source: Path) -> tuple[str, ...]:
    """The names of all meetings with words, in order. Raises DataError as :func:`read_words` does."""
    return AmiCorpus(source).meetings


def _words(speaker: str, said: Iterable[Element]) -> list[Word]:
    words: list[Word] = []
    for element in said:
        text = element.text.strip()
        if element.kind == "punc" and text:
            if words and not words[-1].text.endswith(text):
                words[-1] = Word(speaker, words[-1].start_s, words[-1].end_s, words[-1].text + text)
        elif element.kind == "w" and text and element.start_s is not None and element.end_s is not None:
            words.append(Word(speaker, element.start_s, element.end_s, text.replace("_", "")))
    return [word for word in words if word.text]
