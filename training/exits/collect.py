"""Collects what a model thinks at each exit and in the end: over its own greedy replies, and over text.

Everything is kept in a work folder in chunks, each written whole or not at all, so that a run that was stopped goes on
where it was.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine.model import Model
from pads_runtime.engine.prompt import PromptBuilder
from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import ModelError
from pads_runtime.frames import Message

from .ladder import Floats, Ladder, Rows, Tokens

CHUNK = 20
"""Conversations in a chunk."""
_FLOAT16_MAX = 65504.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Positions:
    """Positions of many conversations, one after the other, without the tokens that all of them begin with."""

    states: NDArray[np.float16]
    """(n, exits, n_embd)"""
    outputs: NDArray[np.float16]
    """(n, n_embd), after the output norm"""
    choices: Tokens
    """(n,): the full model's next token"""
    tokens: Tokens
    """(n,): the token at the position"""
    item: Tokens
    """(n,): which conversation"""
    reply: NDArray[np.bool_]
    """(n,): the next token is one of the model's own reply"""

    def __len__(self) -> int:
        return len(self.choices)

    def where(self, rows: NDArray[np.bool_]) -> Positions:
        """The positions for which ``rows`` (n,) is true."""
        return Positions(**{name: value[rows] for name, value in vars(self).items()})

    def streams(self) -> list[Tokens]:
        """The tokens of each conversation."""
        return np.split(self.tokens, np.flatnonzero(np.diff(self.item)) + 1)

    def replies(self) -> set[tuple[int, ...]]:
        """The tokens of the model's replies, equal ones once."""
        starts = np.flatnonzero(np.diff(self.item)) + 1
        parts = zip(np.split(self.choices, starts), np.split(self.reply, starts), strict=True)
        return {tuple(choices[reply].tolist()) for choices, reply in parts if reply.any()}

    @classmethod
    def joined(cls, parts: Sequence[Positions]) -> Positions:
        """All of ``parts``, at least one, in order."""
        return cls(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])})


class Collector:
    """Runs conversations on one model. ``close`` frees its context, not the model."""

    def __init__(self, model: Model, exits: Sequence[int], max_reply_tokens: int, n_ctx: int, threads: int) -> None:
        source = model.metadata("tokenizer.chat_template")
        if source is None:
            raise ModelError(f"model '{model.path}' has no chat template; choose a chat model")
        template = ChatTemplate(source, model.token_name("bos"), model.token_name("eos"))
        n_ctx = min(n_ctx, model.n_ctx_train or n_ctx)
        self._prompts = PromptBuilder(model, template, n_ctx - max_reply_tokens)
        self._model = model
        self._max_reply_tokens = max_reply_tokens
        self._prefix: tuple[int, ...] = ()
        self._ladder = Ladder(model, exits, n_ctx, threads)

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt's tokens, as the engine would run them."""
        return self._prompts.full(messages)

    def begin_with(self, prefix: Sequence[int]) -> None:
        """Run the tokens that every prompt starts with once; they are not collected."""
        self._prefix = tuple(prefix)
        self._ladder.trim(0)
        self._ladder.extend(self._prefix)

    def positions(self, messages: Sequence[Message], item: int, replies: bool) -> Positions:
        """The positions of one prompt and, if ``replies``, of the model's own greedy reply to it."""
        self._ladder.trim(len(self._prefix))
        tokens = list(self.prompt(messages)[len(self._prefix) :])
        rows = [self._ladder.extend(tokens)]
        first = len(tokens) - 1
        served = 0
        while replies:
            token = int(rows[-1].choices[-1])
            served += 1
            if self._model.ends_reply(token) or served >= self._max_reply_tokens:
                break
            tokens.append(token)
            rows.append(self._ladder.extend([token]))
        found = Rows.joined(rows)
        at = np.arange(len(tokens))
        return Positions(
            states=_half(found.states),
            outputs=_half(found.outputs),
            choices=found.choices,
            tokens=np.array(tokens, np.int32),
            item=np.full(len(tokens), item, np.int32),
            reply=(at >= first) & replies,
        )

    def close(self) -> None:
        """Free the context. Idempotent."""
        self._ladder.close()


def chunks(
    collector: Collector, items: Sequence[tuple[Message, ...]], name: str, folder: Path, say: Say
) -> Iterator[Positions]:
    """The positions of ``items``, chunk by chunk; ``name`` begins with "text" if the model is not to reply.

    Chunks that are in ``folder`` already, whole, are read and not made again.
    """
    replies = not name.startswith("text")
    count = -(-len(items) // CHUNK)
    for number in range(count):
        path = folder / f"{name}-{number:04}.npz"
        wanted = range(number * CHUNK, min((number + 1) * CHUNK, len(items)))
        kept = _read(path)
        if kept is None or len(np.unique(kept.item)) != len(wanted):
            kept = Positions.joined([collector.positions(items[i], i, replies) for i in wanted])
            _write(kept, path)
            say(f"{name}: {wanted.stop} of at most {len(items)} conversations")
        yield kept


def _half(values: Floats) -> NDArray[np.float16]:
    return np.clip(values, -_FLOAT16_MAX, _FLOAT16_MAX).astype(np.float16)


def _read(path: Path) -> Positions | None:
    """A chunk, or None if it is not there or not whole."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return Positions(**{name: file[name] for name in Positions.__dataclass_fields__})
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def _write(positions: Positions, path: Path) -> None:
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        np.savez(file, **vars(positions))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
