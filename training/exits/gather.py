"""The positions a fit needs, from the work folder as far as they are there: training, held out, and the leak check."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.config import EngineSettings
from pads_runtime.engine.model import Model
from pads_runtime.errors import DataError, SetupError
from pads_runtime.frames import Message

from ..acts.corpus import FILE_NAME
from .collect import Collector, Positions, Say, chunks
from .corpus import SEED, Conversations, check_no_leak, read_conversations

HELD_OUT = 80
"""Prompts of the test split on whose replies the figures are made."""
_N_CTX = 768
_FORMAT = 1


@dataclass(frozen=True)
class Amounts:
    """How much to train on."""

    replies: int
    """Training prompts that the model answers."""
    positions: int
    """Positions of prompts and other text, at least; 0 takes those of the answered prompts only."""


@dataclass(frozen=True)
class Gathered:
    """What is fitted on and what it is scored on."""

    train: Positions
    held_out: Positions
    prefix: tuple[int, ...]
    """The tokens before every conversation."""
    dropped: int
    """Training prompts left out because of a turn in common with a held-out prompt."""
    looked_for: int
    """Held-out turns that the leak check looked for in the training tokens, and found none of."""


def work_folder(cache: Path, model_sha256: str, data: Path, exits: Sequence[int]) -> Path:
    """The folder of everything that a run with these inputs may share with an earlier one."""
    corpus = data / FILE_NAME
    if not corpus.is_file():
        raise DataError(f"DailyDialog: '{corpus}' not found; give the folder that holds {FILE_NAME} with --data")
    settings = EngineSettings()
    key = [
        _FORMAT,
        model_sha256,
        hashlib.sha256(corpus.read_bytes()).hexdigest(),
        list(exits),
        [settings.system_prompt, settings.max_reply_tokens, _N_CTX, HELD_OUT, SEED],
    ]
    return cache / "training" / "exits" / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]


def gather(model: Model, exits: Sequence[int], data: Path, amounts: Amounts, folder: Path, say: Say) -> Gathered:
    """Collect, or read back, all positions. Raises DataError for missing data and for a leak."""
    settings = EngineSettings()
    found = read_conversations(data, settings.system_prompt, HELD_OUT)
    if amounts.replies > len(found.train):
        raise DataError(f"--own-replies {amounts.replies}: the training split has {len(found.train)} prompts")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        collector = Collector(model, exits, settings.max_reply_tokens, _N_CTX, settings.threads)
    except OSError as exc:
        raise SetupError(
            f"work folder '{folder}': {exc.strerror}; set PADS_CACHE to a folder that can be written"
        ) from None
    try:
        prefix = _common_prefix(collector, found)
        collector.begin_with(prefix)
        held_out = Positions.joined(list(chunks(collector, found.held_out, "held-out", folder, say)))
        replies = found.train[: amounts.replies]
        train = list(chunks(collector, replies, "replies", folder, say))
        short = amounts.positions - sum(int((~part.reply).sum()) for part in train)
        more = chunks(collector, found.train[: amounts.replies - 1 : -1], "text", folder, say)
        while short > 0 and (part := next(more, None)) is not None:
            train.append(part)
            short -= len(part)
        joined = Positions.joined(train)
        turns = [_last_turn(collector, prompt, len(prefix)) for prompt in found.held_out]
    except OSError as exc:
        raise SetupError(
            f"work folder '{folder}': {exc.strerror}; make room, then run the same command again"
        ) from None
    finally:
        collector.close()
    return Gathered(joined, held_out, prefix, found.dropped, check_no_leak(turns, joined.streams()))


def _common_prefix(collector: Collector, found: Conversations) -> tuple[int, ...]:
    """The tokens before the first turn: what two prompts with different first turns have in common."""
    first = collector.prompt(found.held_out[0])
    for prompt in found.held_out[1:]:
        other = collector.prompt(prompt)
        same = (i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b)
        first = first[: next(same, min(len(first), len(other)))]
    return first


def _last_turn(collector: Collector, prompt: tuple[Message, ...], prefix: int) -> tuple[int, ...]:
    """The tokens of a prompt's last turn with the frame around it."""
    return collector.prompt((prompt[0], prompt[-1]))[prefix:]
