"""A chat model over llama.cpp with a prefix cache, branches and two depths: implements ``ReplyEngine``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..config import EngineSettings
from ..errors import ConfigError, EngineDead, EngineError, ModelError
from ..frames import Message, ReplyStep, WorkCounts
from .cache import TokenCache, context_length
from .depth import DepthController, DepthPlan
from .exits import Exits, fixed_depth
from .model import Model
from .policies import POLICIES
from .prompt import PromptBuilder
from .rules import Coupled, Drawing, Leviathan, Rule
from .speculate import Round, Sureness, confident_round, draft_round, plain_round
from .template import ChatTemplate
from .translators import Translators
from .utf8 import take_text

_MARKS_KEPT = 64
_UNVERIFIED_AT_MOST = 8
"""Tokens that may leave at the exit in a row before the deep pass catches up."""


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
    unverified: int = 0
    """Tokens in a row, up to the last, that left at the exit."""
    approximate: bool = False
    """Whether any token left at the exit."""
    p_deep: float = 1.0
    """P(question or directive) of the user's last turn, if the exit policy asks."""


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

    def __init__(
        self,
        model: Model,
        settings: EngineSettings,
        owns_model: bool = False,
        controller: DepthController | None = None,
        translators: Translators | None = None,
        p_deep: Callable[[str], float] | None = None,
    ) -> None:
        """``controller`` chooses exit and draft length of each round, if ``engine.exit_layer`` allows any; without one
        they are as set, and ``auto`` is plain decoding. ``translators`` improve drafts. ``p_deep`` classifies the last
        turn, in the engine's thread, for ``engine.exit_policy: act``, which needs it."""
        self._model = model
        self._owns_model = owns_model
        self._settings = settings
        n_ctx = context_length(model, settings)
        if settings.max_reply_tokens >= n_ctx:
            raise ConfigError(
                f"engine.max_reply_tokens = {settings.max_reply_tokens} leaves no room for a prompt in a context of "
                f"{n_ctx} tokens"
            )
        if settings.by_act and p_deep is None:
            raise ConfigError("engine.exit_policy: act needs a dialogue-act classifier, and there is none; use top")
        self._p_deep = p_deep if settings.by_act else None
        self._policy = POLICIES[settings.exit_policy](settings.confident_threshold)
        self._prompts = PromptBuilder(model, _template(model), n_ctx - settings.max_reply_tokens)
        self._depth = (controller if settings.exit_layer != "none" else None) or fixed_depth(settings)
        self._cache = TokenCache(model, settings)
        try:
            self._exits = Exits(model, settings, self._cache, translators) if self._depth is not None else None
        except BaseException:
            self._cache.close()
            raise
        self._reply: OpenReply | None = None
        self._marks: dict[int, Mark] = {}
        self._next_mark = 0

    @classmethod
    def load(
        cls,
        path: Path,
        settings: EngineSettings,
        controller: DepthController | None = None,
        translators: Translators | None = None,
        p_deep: Callable[[str], float] | None = None,
    ) -> LlamaEngine:
        """Load a GGUF chat model. Raises InputError, ModelCorrupt, ModelError, SetupError, ConfigError, EngineError."""
        model = Model(path)
        try:
            return cls(model, settings, True, controller, translators, p_deep)
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
        return self._fill(self._prompts.stable(messages), exit_layer=self._exit_to_follow())

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        """Complete the prompt and draw the first token. See ReplyEngine."""
        self._reply = None
        self._cache.abort_flag.check()
        tokens = self._prompts.full(messages)
        # The last token is always run again, because its logits may be those of another prompt by now.
        self._cache.trim(min(self._cache.common(tokens), len(tokens) - 1))
        counts = self._fill(tokens, logits=True)
        p_deep = self._p_deep(messages[-1].text) if self._p_deep is not None else 1.0
        self._reply = OpenReply(seed, self._rule(seed).serve(self._cache.logits(), 0, None), p_deep=p_deep)
        return counts

    def step(self) -> ReplyStep:
        """Serve the next token, or all that one round verifies. See ReplyEngine.

        Raises EngineError if no reply is open. After an error the cache is as it was before the step.
        """
        reply = self._reply
        if reply is None:
            raise EngineError("no reply is open: call open before step")
        self._cache.abort_flag.check()
        if reply.next is not None:
            return self._serve(reply, Round((reply.next,), WorkCounts()), None)
        plan = self._depth.plan() if self._depth is not None else None
        base = len(self._cache)
        try:
            served = self._round(reply, plan)
        except EngineDead:
            raise
        except EngineError:
            self._cache.trim(base)
            raise
        if self._depth is not None and plan is not None:
            self._depth.learn(plan, served.counts.drafted, served.counts.accepted)
        return self._serve(reply, served, plan)

    def _round(self, reply: OpenReply, plan: DepthPlan | None) -> Round:
        """Run the token served last, and what the plan drafts after it."""
        assert reply.last is not None
        cache, rule, at = self._cache, self._rule(reply.seed), reply.served
        if plan is None or plan.exit_layer is None or self._exits is None:
            return plain_round(cache, reply.last, rule, at)
        self._exits.prepare(plan.exit_layer)
        if self._settings.serve == "confident":
            room = min(_UNVERIFIED_AT_MOST, cache.pass_rows - 1) - reply.unverified
            sure = Sureness(self._policy, reply.p_deep, room)
            return confident_round(cache, reply.last, plan.exit_layer, rule, at, sure)
        room = min(self._settings.max_reply_tokens - reply.served, cache.pass_rows) - 1
        plan = replace(plan, draft_len=min(plan.draft_len, room))
        if plan.plain:
            return plain_round(cache, reply.last, rule, at)
        return draft_round(cache, reply.last, plan, rule, at, self._model.ends_reply)

    def _serve(self, reply: OpenReply, served: Round, plan: DepthPlan | None) -> ReplyStep:
        tokens: tuple[int, ...] = ()
        text, pending, spoken, done = "", reply.pending, reply.spoken, False
        for token in served.tokens:
            if self._model.ends_reply(token):
                done = True
                break
            new, pending = take_text(pending, self._model.piece(token))
            text += new if spoken else new.lstrip()
            spoken = bool(text) or spoken
            tokens = (*tokens, token)
        count = reply.served + len(tokens)
        done = done or count >= self._settings.max_reply_tokens
        approximate = reply.approximate or served.approximate
        self._reply = (
            None
            if done
            else OpenReply(
                seed=reply.seed,
                next=None,
                last=tokens[-1],
                served=count,
                pending=pending,
                spoken=spoken,
                unverified=reply.unverified + 1 if served.approximate else 0,
                approximate=approximate,
                p_deep=reply.p_deep,
            )
        )
        return ReplyStep(tokens, text, done, served.counts, plan, approximate)

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

    def _exit_to_follow(self) -> int | None:
        if self._settings.follow != "shallow" or self._depth is None or self._exits is None:
            return None
        asked = self._settings.exit_layer
        exit_layer = asked if isinstance(asked, int) else self._depth.plan().exit_layer
        if exit_layer is not None:
            self._exits.prepare(exit_layer)
        return exit_layer

    def _fill(self, tokens: tuple[int, ...], logits: bool = False, exit_layer: int | None = None) -> WorkCounts:
        cache = self._cache
        common = cache.common(tokens)
        new = len(tokens) - common
        if not new:
            return WorkCounts(reused=common)
        cache.trim(common)
        waiting = cache.pending
        if exit_layer is None:
            cache.extend(tokens[common:], logits)
            return WorkCounts(reused=common, prefilled=new, deepened=waiting)
        cache.extend_shallow(tokens[common:], exit_layer, logits)
        deepened = waiting if cache.deep >= common else 0  # they waited at another exit
        return WorkCounts(reused=common, followed=new, deepened=deepened)

    def _rule(self, seed: int) -> Rule:
        s = self._settings
        drawing = Drawing(seed, s.temperature, s.top_k, s.top_p)
        return Leviathan(drawing) if s.sampling_rule == "leviathan" and s.temperature else Coupled(drawing)


def _template(model: Model) -> ChatTemplate:
    source = model.metadata("tokenizer.chat_template")
    if source is None:
        raise ModelError(f"model '{model.path}' has no chat template; choose an instruct or chat model")
    return ChatTemplate(source, model.token_name("bos"), model.token_name("eos"))
