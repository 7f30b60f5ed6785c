"""The leak check: is anything of the evaluation items in what a model is trained on?

The token stream is turned back into text and both sides into bare words (letters and digits, lower case), so case,
punctuation, the chat layout and the borders of tokens cannot hide a prompt or a response.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pads_runtime.errors import DataError

from .ami_items import Item
from .stream import Tokenizer, Tokens

_WORD = re.compile(r"[^\W_]+")
_PIECE = 200_000
"""Tokens turned back into text at a time."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """Numbers of the items whose prompt or response was found, out of how many."""

    items: int
    prompts: tuple[int, ...]
    responses: tuple[int, ...]

    @property
    def found(self) -> int:
        """How many items leaked in any way."""
        return len({*self.prompts, *self.responses})

    def __str__(self) -> str:
        return f"{len(self.prompts)} of {self.items} prompts and {len(self.responses)} of {self.items} responses"


def leaks(items: Sequence[Item], tokens: Tokens, tokenizer: Tokenizer) -> Leaks:
    """Look for every prompt and response of ``items`` in a stream of tokens."""
    hay = bare(_text(tokens, tokenizer))
    return Leaks(
        len(items),
        tuple(item.number for item in items if bare(item.prompt) in hay),
        tuple(item.number for item in items if bare(item.response) in hay),
    )


def check_no_leaks(items: Sequence[Item], tokens: Tokens, tokenizer: Tokenizer, when: str) -> Leaks:
    """As :func:`leaks`; raises DataError if there is one: figures on the items would be figures on training data."""
    found = leaks(items, tokens, tokenizer)
    if found.found:
        raise DataError(
            f"leak, {when}: the training data holds {found} of the evaluation set; leave out the meeting they come "
            f"from ({items[0].meeting}) with --ami-exclude-meetings"
        )
    return found


def bare(text: str) -> str:
    """Its words alone, with one blank around each."""
    return f" {' '.join(_WORD.findall(text.casefold().replace(chr(0x2019), chr(39)).replace(chr(39), '')))} "


def _text(tokens: Tokens, tokenizer: Tokenizer) -> str:
    return "".join(tokenizer.decode(tokens[i : i + _PIECE].tolist()) for i in range(0, len(tokens), _PIECE))
