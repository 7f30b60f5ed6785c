"""What a prepared reply assumes, and the one form of a transcript that the language model is given.

A recogniser revises case and punctuation from one reading to the next while the words stay the same. The model is
therefore shown :func:`canonical` text only, which is made from the normalised words alone: two transcripts with the
same words give the same prompt, so a reply prepared on "book it" *is* the reply to "Book it.".
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ..frames import Message

_INNER = "'.,:/-"
"""Marks that belong to a word or number when they stand alone inside it."""
_RUN_OF_INNER = re.compile(rf"[{_INNER}]{{2,}}")
_FIRST_PERSON = re.compile(r"\bi(?=$|\s|'(?:m|ll|ve|d|re|s)\b)")


def normalise(text: str) -> str:
    """Words in lower case with one blank between them; apostrophes and marks inside a word or number stay."""
    folded = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    folded = unicodedata.normalize("NFKC", folded)  # folding takes some letters apart
    spaced = "".join(char if char in _INNER or _spells(char) else " " for char in folded)
    words = (word.strip(_INNER) for word in _RUN_OF_INNER.sub(" ", spaced).split())
    return " ".join(word for word in words if word)


def _spells(char: str) -> bool:
    """Letters, digits, and the accents and vowel signs that many scripts write as characters of their own."""
    return char.isalnum() or unicodedata.category(char).startswith("M")


def canonical(text: str) -> str:
    """The normalised words with a capital first letter and a capital "I": the user's row as the model reads it."""
    words = normalise(text)
    written = _FIRST_PERSON.sub("I", words)
    capital = written[:1].upper() + written[1:]
    return capital if normalise(capital) == words else written  # a dotless i, say, has another letter's capital


@dataclass(frozen=True, slots=True)
class Premise:
    """The user's words (in prompt form), the history and the settings that a reply was made from."""

    text: str
    history: tuple[Message, ...]
    settings: str

    @classmethod
    def spoken(cls, transcript: str, history: tuple[Message, ...], settings: str) -> Premise:
        """The premise of a spoken turn; ``settings`` identifies model, prompt and sampling."""
        return cls(canonical(transcript), history, settings)


def words_after(head: str, text: str) -> str | None:
    """The words of ``text`` that follow those of ``head``, normalised; None if it does not begin with them."""
    first, all_ = normalise(head), normalise(text)
    if not first or not (all_ + " ").startswith(first + " "):
        return None
    return all_[len(first) :].strip()
