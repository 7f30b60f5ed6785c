"""The embedded model, loaded once, and engines on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.errors import PadsError
from pads_runtime.frames import Message, Role
from pads_runtime.models import Registry

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def model_path() -> Path:
    try:
        return Registry.load().path(MODEL)
    except PadsError as exc:
        pytest.skip(f"the embedded language model is not on this machine: {exc}")


@pytest.fixture(scope="session")
def model(model_path: Path) -> Iterator[Model]:
    model = Model(model_path)
    yield model
    model.close()


@pytest.fixture
def make_engine(model: Model) -> Iterator[Callable[..., LlamaEngine]]:
    """Makes an engine with an empty cache: ``make_engine(temperature=0.8)``. All are closed at the end."""
    made: list[LlamaEngine] = []

    def make(**settings: Any) -> LlamaEngine:
        made.append(LlamaEngine(model, EngineSettings(**({"max_reply_tokens": 16} | settings))))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine: Callable[..., LlamaEngine]) -> LlamaEngine:
    """A greedy engine with an empty cache and short replies."""
    return make_engine()


@pytest.fixture(scope="session")
def talk() -> Callable[..., list[Message]]:
    """A history with the product's system prompt: ``talk("hello", "hi there", "and you?")``, user and agent in turn."""

    def build(*texts: str) -> list[Message]:
        history = [Message(Role.SYSTEM, EngineSettings().system_prompt)]
        return history + [Message(Role.AGENT if i % 2 else Role.USER, text) for i, text in enumerate(texts)]

    return build


@pytest.fixture(scope="session")
def answer() -> Callable[..., tuple[tuple[int, ...], str]]:
    """Opens a reply and serves it to the end: its tokens and its text."""

    def run(engine: LlamaEngine, messages: list[Message], seed: int = 1) -> tuple[tuple[int, ...], str]:
        engine.open(messages, seed)
        return finish(engine)

    return run


def finish(engine: LlamaEngine) -> tuple[tuple[int, ...], str]:
    tokens: tuple[int, ...] = ()
    text = ""
    while True:
        step = engine.step()
        tokens, text = tokens + step.tokens, text + step.text
        if step.done:
            return tokens, text
