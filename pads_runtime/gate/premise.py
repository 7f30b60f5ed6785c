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

_WORD = re.compile(r"[^\W_]+(?:['.,:/-][^\W_]+)*", re.UNICODE)
_FIRST_PERSON = re.compile(r"\bi(?=$|\s|'(?:m|ll|ve|d|re|s)\b)")


def normalise(text: str) -> str:
    """Words in lower case with one blank between them; apostrophes and marks inside a word or number stay."""
    folded = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    return " ".join(_WORD.findall(folded))


def canonical(text: str) -> str:
    """The normalised words with a capital first letter and a capital "I": the user's row as the model reads it."""
    words = _FIRST_PERSON.sub("I", normalise(text))
    return words[:1].upper() + words[1:]


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
