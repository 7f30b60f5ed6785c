"""A chat model over llama.cpp with a prefix cache and branches: implements ``ReplyEngine`` at one depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config import EngineSettings
from ..errors import ConfigError, EngineError, ModelError
from ..frames import Message, ReplyStep, WorkCounts
from . import sampling
from .cache import TokenCache, context_length
from .model import Model
from .prompt import PromptBuilder
from .template import ChatTemplate
from .utf8 import take_text

_MARKS_KEPT = 64


@dataclass(frozen=True, slots=True)
class OpenReply:
    """Where an open reply stands. Frozen, so that a mark can hold it and a rollback bring it back."""

    seed: int
    next: int | None
    """The token after the prompt, drawn by ``open`` and not yet served."""
    last: int | None = None
    """The token served last, which the next step runs to draw the one after it."""
    served: int = 0
    pending: bytes = b""
    """Bytes of an unfinished character."""
    spoken: bool = False
    """Whether any text has been served; white space before it is dropped."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What ``rollback`` returns to."""

    tokens: tuple[int, ...]
    reply: OpenReply | None


class LlamaEngine:
    """A ``ReplyEngine`` on one model and one context. Owned by one thread, except for ``abort``.

    Invariants: the ledger and the native cache agree after every call, also one that raises; a reply is a function of
    (messages, seed, settings); ``follow`` and ``open`` end an open reply.
    """

    def __init__(self, model: Model, settings: EngineSettings, owns_model: bool = False) -> None:
        self._model = model
        self._owns_model = owns_model
        self._settings = settings
        n_ctx = context_length(model, settings)
        if settings.max_reply_tokens >= n_ctx:
            raise ConfigError(
                f"engine.max_reply_tokens = {settings.max_reply_tokens} leaves no room for a prompt in a context of "
                f"{n_ctx} tokens"
            )
        self._prompts = PromptBuilder(model, _template(model), n_ctx - settings.max_reply_tokens)
        self._cache = TokenCache(model, settings)
        self._reply: OpenReply | None = None
        self._marks: dict[int, Mark] = {}
        self._next_mark = 0

    @classmethod
    def load(cls, path: Path, settings: EngineSettings) -> LlamaEngine:
        """Load a GGUF chat model. Raises InputError, ModelCorrupt, ModelError, SetupError or EngineError."""
        model = Model(path)
        try:
            return cls(model, settings, owns_model=True)
        except BaseException:
            model.close()
            raise

    @property
    def n_vocab(self) -> int:
        """Tokens in the vocabulary."""
        return self._model.n_vocab

    @property
    def n_layer(self) -> int:
        """Transformer layers."""
        return self._model.n_layer

    @property
    def n_ctx(self) -> int:
        """Context in tokens: the setting, or what the model was trained for if that is less."""
        return self._cache.n_ctx

    @property
    def description(self) -> str:
        """The model in one line."""
        return self._model.description

    @property
    def cached_tokens(self) -> tuple[int, ...]:
        """The tokens whose keys and values are in the cache."""
        return self._cache.tokens

    def token_count(self, text: str) -> int:
        """Tokens of a plain text. Raises InputError if it is not Unicode."""
        return len(self._model.tokenize(text))

    def follow(self, messages: Sequence[Message]) -> WorkCounts:
        """Prefill as far as the open turn is stable. See ReplyEngine. A last word that may still grow is held back."""
        self._reply = None
        self._cache.abort_flag.check()
        return self._fill(self._prompts.stable(messages))

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        """Complete the prompt and draw the first token. See ReplyEngine."""
        self._reply = None
        self._cache.abort_flag.check()
        tokens = self._prompts.full(messages)
        # The last token is always run again, because its logits may be those of another prompt by now.
        self._cache.trim(min(self._cache.common(tokens), len(tokens) - 1))
        counts = self._fill(tokens, logits=True)
        self._reply = OpenReply(seed, self._draw(seed, 0))
        return counts

    def step(self) -> ReplyStep:
        """Serve one token. See ReplyEngine. Raises EngineError if no reply is open."""
        reply = self._reply
        if reply is None:
            raise EngineError("no reply is open: call open before step")
        self._cache.abort_flag.check()
        counts = WorkCounts()
        token = reply.next
        if token is None:
            assert reply.last is not None
            self._cache.extend((reply.last,), logits=True)
            counts = WorkCounts(decode_steps=1)
            token = self._draw(reply.seed, reply.served)
        if self._model.ends_reply(token):
            self._reply = None
            return ReplyStep((), "", True, counts)
        text, pending = take_text(reply.pending, self._model.piece(token))
        if not reply.spoken:
            text = text.lstrip()
        served = reply.served + 1
        done = served >= self._settings.max_reply_tokens
        after = replace(reply, next=None, last=token, served=served, pending=pending, spoken=reply.spoken or bool(text))
        self._reply = None if done else after
        return ReplyStep((token,), text, done, counts)

    def mark(self) -> int:
        """Remember the cache and the open reply. Only the last 64 marks are kept."""
        self._next_mark += 1
        self._marks[self._next_mark] = Mark(self._cache.tokens, self._reply)
        while len(self._marks) > _MARKS_KEPT:
            del self._marks[min(self._marks)]
        return self._next_mark

    def rollback(self, mark: int) -> None:
        """Return to ``mark`` and clear an abort. Later marks are forgotten.

        What was cached at the mark and has been given up since (another transcript) is not computed again here.
        """
        if mark not in self._marks:
            raise EngineError(f"mark {mark} is unknown: taken from another engine, rolled back past, or too old")
        wanted = self._marks[mark]
        self._marks = {number: kept for number, kept in self._marks.items() if number <= mark}
        self._cache.trim(self._cache.common(wanted.tokens))
        self._reply = wanted.reply if len(self._cache) == len(wanted.tokens) else None
        self._cache.abort_flag.clear()

    def abort(self) -> None:
        """From any thread: stop the running call. See ReplyEngine."""
        self._cache.abort_flag.raise_()

    def close(self) -> None:
        """Free the context, and the model if ``load`` read it. Idempotent; no call may be running."""
        self._reply = None
        self._cache.close()
        if self._owns_model:
            self._model.close()

    def _fill(self, tokens: tuple[int, ...], logits: bool = False) -> WorkCounts:
        common = self._cache.common(tokens)
        if common < len(tokens):
            self._cache.trim(common)
            self._cache.extend(tokens[common:], logits)
        return WorkCounts(reused=common, prefilled=len(tokens) - common)

    def _draw(self, seed: int, position: int) -> int:
        logits = self._cache.logits()
        best = sampling.greedy(logits)
        if not np.isfinite(logits[best]):  # argmax stops at the first NaN, so this sees one anywhere
            raise EngineError("the model's logits are not finite numbers; the model file may be damaged")
        s = self._settings
        if s.temperature == 0:
            return best
        return sampling.sample(logits, s.temperature, s.top_k, s.top_p, sampling.uniform(seed, position))


def _template(model: Model) -> ChatTemplate:
    source = model.metadata("tokenizer.chat_template")
    if source is None:
        raise ModelError(f"model '{model.path}' has no chat template; choose an instruct or chat model")
    return ChatTemplate(source, model.token_name("bos"), model.token_name("eos"))
