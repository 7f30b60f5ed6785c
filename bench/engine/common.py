"""What the engine's benchmarks share: prompts, engines, a controller that obeys, and how a reply is served."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pads_runtime.config import EngineSettings
from pads_runtime.engine.depth import DepthPlan
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.frames import Message, Role

Say = Callable[[str], None]

REPLY_TOKENS = 64
_TOPICS = (
    "a lighthouse keeper and his dog",
    "a long train ride through the mountains",
    "growing tomatoes on a small balcony",
    "the history of bread",
    "two friends who build a boat",
    "how bees find their way home",
    "a rainy week in Lisbon",
    "an old clock that runs backwards",
    "learning to play the violin late in life",
    "a market on a Saturday morning",
)
_FORMS = (
    "Please write a long story about {}.",
    "Tell me in detail everything you know about {}.",
    "Write a letter of several paragraphs to a friend about {}.",
    "Make a list of ten ideas about {}, and explain each of them at length.",
)
SENTENCE = "The keeper lit the lamp each evening, wrote the weather into his book, and thought of the town. "
QUESTION = "Please write a long story about a lighthouse keeper, his dog and a very cold winter by the northern sea."


def prompts() -> list[str]:
    """Forty requests that are answered at length."""
    return [form.format(topic) for form in _FORMS for topic in _TOPICS]


def talk(text: str) -> list[Message]:
    """One user turn behind the product's system prompt."""
    return [Message(Role.SYSTEM, EngineSettings().system_prompt), Message(Role.USER, text)]


def sized(engine: LlamaEngine, tokens: int, question: str = QUESTION) -> str:
    """Text that ends in ``question`` and has ``tokens`` tokens, or as few less as whole words allow."""
    words = (SENTENCE * (tokens // 10 + 1)).split()
    fits = bisect.bisect_right(
        range(len(words)), tokens, key=lambda n: engine.token_count(_behind(words[:n], question))
    )
    return _behind(words[: max(fits - 1, 0)], question)


def _behind(words: Sequence[str], question: str) -> str:
    return " ".join([*words, question])


@dataclass
class Obeying:
    """A depth controller that does as it is told, and counts what came of it."""

    plan_: DepthPlan = field(default_factory=lambda: DepthPlan(None, 0, "as told"))
    drafted: int = 0
    accepted: int = 0

    def tell(self, exit_layer: int | None, draft_len: int = 0) -> None:
        """Every round from now on."""
        self.plan_ = DepthPlan(exit_layer, draft_len, "as told")

    def plan(self) -> DepthPlan:
        """See DepthController."""
        return self.plan_

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        """See DepthController."""
        self.drafted += drafted
        self.accepted += accepted


@dataclass(frozen=True)
class Bench:
    """The model under test and what the benchmarks were asked for."""

    model: Model
    settings: EngineSettings
    translators: Translators | None
    """Fitted for ``model``, None if this checkout has none."""
    say: Say
    full: bool = False
    stock_python: Path | None = None
    """An interpreter with an unpatched llama-cpp-python of the same release."""

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.model.path

    def engine(self, controller: Any = None, trained: bool = False, **changes: Any) -> LlamaEngine:
        """An engine with an empty cache on the shared weights; ``controller`` makes it one of two depths."""
        asked = {"exit_layer": "auto" if controller is not None else "none", "max_reply_tokens": REPLY_TOKENS}
        settings = EngineSettings(**(self.settings.model_dump() | asked | changes))
        return LlamaEngine(
            self.model, settings, controller=controller, translators=self.translators if trained else None
        )


def serve(engine: LlamaEngine) -> tuple[int, ...]:
    """The rest of the open reply."""
    tokens: list[int] = []
    while True:
        step = engine.step()
        tokens += step.tokens
        if step.done:
            return tuple(tokens)


def reply(engine: LlamaEngine, messages: Sequence[Message], seed: int = 1) -> tuple[int, ...]:
    """A whole reply."""
    engine.open(messages, seed)
    return serve(engine)
