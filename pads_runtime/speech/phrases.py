"""Streamed text cut into phrases for the synthesiser: the first as early as it can be said, later ones by sentence.

What is a boundary depends on the text alone, never on how it was cut into tokens: a mark is judged once its run is
over and the next visible character has arrived (or at ``flush``), and never again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from ..config import SpeechSettings
from .abbreviations import is_abbreviation
from .text import speakable

_CLOSERS = "\"')\\]}”’»*_`"  # noqa: RUF001
_MARK = re.compile(rf"[.!?…]+[{_CLOSERS}]*|[。！？]+|[,;:]+[{_CLOSERS}]*|[—–-]+|\n")  # noqa: RUF001
_VISIBLE = re.compile(r"\S")
_NO_START = frozenset(".!?…,;:)]}%")
"""After a blank these continue what came before: they begin nothing."""


class Boundary(Enum):
    """What a mark in the text turned out to be."""

    SENTENCE = auto()
    CLAUSE = auto()
    UNKNOWN = auto()
    """The characters that decide have not arrived."""


class PhraseSplitter:
    """Collects one reply's text and gives it back phrase by phrase.

    The phrases in order are the text but for blanks (and a tail that has no sound). None is empty or unspeakable. A
    phrase never ends inside a number, an abbreviation, an address or an ellipsis; one longer than
    ``max_phrase_chars`` ends at its last clause or word, unless it is a single word.
    """

    def __init__(self, settings: SpeechSettings | None = None) -> None:
        self._settings = settings or SpeechSettings()
        self._text = ""
        self._first = True

    def push(self, text: str) -> list[str]:
        """Take the next piece of text; returns the phrases that are now complete."""
        self._text = (self._text + text).lstrip()
        return list(self._take(final=False))

    def flush(self) -> list[str]:
        """The text is over: returns what is left, and begins anew."""
        phrases = list(self._take(final=True))
        if speakable(self._text):
            phrases.append(self._text.strip())
        self._text, self._first = "", True
        return phrases

    def _take(self, final: bool) -> Iterator[str]:
        while (end := self._next_end(final)) is not None:
            phrase, self._text = self._text[:end].strip(), self._text[end:].lstrip()
            self._first = False
            yield phrase

    def _next_end(self, final: bool) -> int | None:
        """Where the first phrase of the held text ends; None if that is not known yet."""
        longest = self._settings.max_phrase_chars
        last_clause = 0
        for end, kind in boundaries(self._text, final):
            if end > longest:
                break
            if kind is Boundary.UNKNOWN:
                return None
            if not speakable(self._text[:end]):
                continue
            if kind is Boundary.SENTENCE or (self._first and self._has_enough_words(end)):
                return end
            last_clause = end
        if len(self._text.rstrip()) <= longest:
            return None
        if last_clause >= longest // 2:
            return last_clause
        return self._word_end(longest)

    def _has_enough_words(self, end: int) -> bool:
        words = [word for word in self._text[:end].split() if any(map(str.isalnum, word))]
        return len(words) >= self._settings.first_phrase_words

    def _word_end(self, longest: int) -> int | None:
        """The last blank within ``longest``, else the first one after it, with something to say before it."""
        blanks = [match.start() for match in re.finditer(r"\s", self._text)]
        within = [at for at in blanks if at <= longest]
        beyond = [at for at in blanks if at > longest]
        for at in [*reversed(within), *beyond]:
            if speakable(self._text[:at]):
                return at
        return None


def boundaries(text: str, final: bool) -> Iterator[tuple[int, Boundary]]:
    """Ends of sentences and clauses in ``text``, in order; UNKNOWN is the last one, where more text is needed.

    The end of the text itself is not reported. ``final`` says that no more text will come.
    """
    for mark in _MARK.finditer(text):
        following = _VISIBLE.search(text, mark.end())
        if following is None:
            if not final:
                yield mark.end(), Boundary.UNKNOWN
            return
        kind = _judge(text, mark, following.start())
        if kind is not None:
            yield mark.end(), kind


def _judge(text: str, mark: re.Match[str], next_at: int) -> Boundary | None:
    run, blank, following = mark.group(), text[mark.end() : next_at], text[next_at]
    if run == "\n":
        return Boundary.CLAUSE if following.islower() else Boundary.SENTENCE
    if run[0] in "。！？":  # noqa: RUF001
        return Boundary.SENTENCE
    if run[0] in "—–-":  # noqa: RUF001
        return _judge_dash(text, mark, blank, following)
    if not blank or following in _NO_START:
        return None
    if run[0] in ",;:":
        if text[mark.start() - 1 : mark.start()].isdigit() and following.isdigit():
            return None
        return Boundary.SENTENCE if "\n" in blank else Boundary.CLAUSE
    return _judge_stop(text, mark, blank, following)


def _judge_stop(text: str, mark: re.Match[str], blank: str, following: str) -> Boundary | None:
    """A run of . ! ? or … before a blank."""
    before = text[: mark.start()]
    word = before.split()[-1] if before and not before[-1].isspace() else ""
    dots = mark.group().rstrip(_CLOSERS)
    if dots == "." and (is_abbreviation(word, following) or _is_list_mark(before, word)):
        return None
    if "\n" in blank or not following.islower():
        return Boundary.SENTENCE
    # A short unknown word before "." and a small letter may be an abbreviation that is in no list.
    return Boundary.CLAUSE if dots != "." or len(word) > 3 else None


def _judge_dash(text: str, mark: re.Match[str], blank: str, following: str) -> Boundary | None:
    before = text[: mark.start()]
    if not before.strip() or following in _NO_START:
        return None
    if before.rstrip()[-1].isdigit() and following.isdigit():
        return None
    if mark.group() == "—" or (blank and before[-1].isspace()):
        starts_line = "\n" in before[len(before.rstrip()) :]
        return None if starts_line else Boundary.CLAUSE
    return None


def _is_list_mark(before: str, word: str) -> bool:
    """Whether ``word`` is the number or letter of a list item: it opens its line."""
    line = before.rpartition("\n")[2]
    return line.strip("*_#>-• \t") == word and (word.isdigit() or (len(word) == 1 and word.isalpha() and word != "I"))
