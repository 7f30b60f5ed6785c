"""Dialogues as one stream of tokens in a model's own chat layout, and rows of equal length cut from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine.prompt import PromptBuilder
from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import DataError
from pads_runtime.frames import Message, Role

from .sources import Dialogue

Tokens = NDArray[np.int32]
_NO_LIMIT = 1 << 30


class Tokenizer(Protocol):
    """A model's vocabulary, as :class:`pads_runtime.engine.prompt.Vocabulary`, with the way back and the layout."""

    @property
    def specials(self) -> dict[str, int]:
        """The texts that stand for one token of their own in a template."""
        ...

    @property
    def bos(self) -> int | None:
        """The token every prompt of this model begins with, if it has one."""
        ...

    @property
    def template(self) -> ChatTemplate:
        """The model's chat template."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...]:
        """The tokens of ordinary text."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; where a control token stands, a line break."""
        ...


@dataclass(frozen=True)
class Stream:
    """Dialogues one after the other, without the system turn that opens each of them in a prompt."""

    prefix: tuple[int, ...]
    """The system turn's tokens, with which every row begins."""
    tokens: Tokens

    def rows(self, length: int) -> int:
        """How many rows of ``length`` tokens there are; the last tokens that fill none are left over."""
        return len(self.tokens) // self.body(length)

    def body(self, length: int) -> int:
        """Tokens of the stream in a row. Raises DataError if the prefix leaves no room."""
        if length <= len(self.prefix) + 1:
            raise DataError(f"rows of {length} tokens: the system turn alone has {len(self.prefix)}; use longer ones")
        return length - len(self.prefix)

    def row(self, index: int, length: int) -> Tokens:
        """The prefix, then the ``index``-th piece of the stream."""
        body = self.body(length)
        piece = self.tokens[index * body : (index + 1) * body]
        return np.concatenate([np.array(self.prefix, np.int32), piece])


def stream_of(dialogues: Iterable[Dialogue], tokenizer: Tokenizer, system_prompt: str) -> Stream:
    """All dialogues in order. A template that does not begin with the system turn keeps it in each dialogue."""
    builder = PromptBuilder(tokenizer, tokenizer.template, _NO_LIMIT)
    system = Message(Role.SYSTEM, system_prompt)
    prefix: tuple[int, ...] = ()
    parts: list[Tokens] = []
    for first, tokens in _conversations(dialogues, builder, system):
        if not parts:
            prefix = first if tokens[: len(first)] == first else ()
        parts.append(np.array(tokens[len(prefix) :] if tokens[: len(prefix)] == prefix else tokens, np.int32))
    return Stream(prefix, np.concatenate(parts) if parts else np.zeros(0, np.int32))


def _conversations(
    dialogues: Iterable[Dialogue], builder: PromptBuilder, system: Message
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    alone = builder.whole([system])
    for dialogue in dialogues:
        yield alone, builder.whole([system, *dialogue.messages])
