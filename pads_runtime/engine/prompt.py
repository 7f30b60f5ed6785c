"""Messages to prompt tokens: the template around them, the oldest turns dropped when the context would overflow.

Everything here is a function of the messages alone; nothing remembers an earlier call.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import ContextFull, InputError
from ..frames import Message, Role
from .model import Vocabulary
from .template import ChatTemplate

KEEP_FRACTION = 0.5
"""How much of the room is kept when turns are dropped, so that the cached prefix is not lost again at every turn."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of prompt tokens that is tokenized on its own, and the message it belongs to (-1: before the first)."""

    tokens: tuple[int, ...]
    message: int


class PromptBuilder:
    """Builds prompts of at most ``capacity`` tokens, which leaves the room for the reply out of the context."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate, capacity: int) -> None:
        self._vocabulary = vocabulary
        self._template = template
        self._capacity = capacity
        names = sorted(vocabulary.specials, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, names)) + ")" if names else "((?!))")

    def full(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt with the reply header. Raises ContextFull if the last turn alone is too long, InputError for
        an empty list, a last message that is not the user's, or text that is not Unicode."""
        kept = self._kept(_checked(messages))
        return _joined(self._segments(kept, reply_header=True))

    def whole(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """All of a conversation, whoever spoke last, with no reply header and nothing dropped: training reads it so."""
        return _joined(self._segments(list(messages), reply_header=False))

    def stable(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The part of the prompt that stays as it is when words are appended to the last message.

        The last word is held back, because it may still grow ("how" to "however") or take punctuation. Nothing
        depends on this being right: tokens that turn out otherwise are rolled back and prefilled again.
        """
        kept = self._kept(_checked(messages))
        return _joined(self._segments(kept, reply_header=False, closed=False))

    def _kept(self, messages: list[Message]) -> list[Message]:
        segments = self._segments(messages, reply_header=True)
        if sum(len(s.tokens) for s in segments) <= self._capacity:
            return messages
        head, turns = split_turns(messages)
        costs = [0] * (len(messages) + 1)
        for segment in segments:
            costs[segment.message + 1] += len(segment.tokens)
        fixed = sum(costs[: len(head) + 1])
        starts = [len(head) + 1 + sum(len(t) for t in turns[:i]) for i in range(len(turns) + 1)]
        turn_costs = [sum(costs[a:b]) for a, b in itertools.pairwise(starts)]
        dropped = turns_to_drop(turn_costs, fixed, self._capacity, int(self._capacity * KEEP_FRACTION))
        while dropped < len(turns):
            kept = head + [message for turn in turns[dropped:] for message in turn]
            size = sum(len(s.tokens) for s in self._segments(kept, reply_header=True))
            if size <= self._capacity:
                return kept
            dropped += 1
        raise ContextFull(
            f"the last turn needs {size} tokens and the context leaves {self._capacity} for the prompt; "
            "say less at once, or raise engine.n_ctx"
        )

    def _segments(self, messages: list[Message], reply_header: bool, closed: bool = True) -> list[Segment]:
        """The prompt in pieces, cut at special tokens only, so that it is tokenized as the whole would be.

        ``closed`` False ends it at the last stable word of the last message.
        """
        layout = self._template.layout(tuple(m.role for m in messages), reply_header)
        if not closed:
            layout = layout[: len(layout) - layout[::-1].index(len(messages) - 1)]
        segments: list[Segment] = []
        plain, message = "", -1
        for part in layout:
            if isinstance(part, int):
                plain, message = plain + messages[part].text, max(message, part)
                continue
            literal, *rest = self._special.split(part)
            plain += literal
            for name, literal in zip(rest[::2], rest[1::2], strict=True):
                segments.append(Segment(self._vocabulary.tokenize(plain), message))
                segments.append(Segment((self._vocabulary.specials[name],), message))
                plain = literal
        segments.append(Segment(self._vocabulary.tokenize(plain if closed else _without_last_word(plain)), message))
        bos = self._vocabulary.bos
        if bos is not None and _joined(segments)[:1] != (bos,):
            segments.insert(0, Segment((bos,), -1))
        return segments


def split_turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """The leading system messages, and the rest cut where a user message begins a turn."""
    rest = list(messages)
    head: list[Message] = []
    while rest and rest[0].role is Role.SYSTEM:
        head.append(rest.pop(0))
    turns: list[list[Message]] = []
    for message in rest:
        if message.role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    return head, turns


def turns_to_drop(costs: Sequence[int], fixed: int, capacity: int, keep: int) -> int:
    """How many of the oldest turns to leave out, for turns of ``costs`` tokens after ``fixed`` ones.

    Replays the talk turn by turn: whenever the prompt would pass ``capacity`` it is cut down to ``keep``. So the same
    messages always give the same answer, and it stays the same over many turns instead of growing at each. The last
    turn is always kept.
    """
    dropped, size = 0, fixed
    for last, cost in enumerate(costs):
        size += cost
        if size > capacity:
            while dropped < last and size > keep:
                size -= costs[dropped]
                dropped += 1
    return dropped


def _checked(messages: Sequence[Message]) -> list[Message]:
    if not messages or messages[-1].role is not Role.USER:
        raise InputError("a reply needs a conversation that ends with a message of the user")
    return [Message(m.role, m.text.strip()) for m in messages]


def _joined(segments: Iterable[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.tokens)


def _without_last_word(text: str) -> str:
    cut = re.search(r"\S*\s*\Z", text)
    return text[: cut.start()].rstrip() if cut else text
