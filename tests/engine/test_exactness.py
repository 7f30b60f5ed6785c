"""A reply is a function of (messages, seed): however its prompt came into the cache, the logits are the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.frames import Message

Make = Callable[..., LlamaEngine]
Talk = Callable[..., list[Message]]

STEPS = 12
HISTORY = ("I would like to go to the sea tomorrow.", "That sounds lovely, shall I look for a train?")
SENTENCE = "The train to the coast leaves at seven in the morning, and I have not packed anything yet, so hurry. "
# Prompts that end just before a boundary, so that the reply crosses it.
LENGTHS = [
    pytest.param(150, id="within 256 cells"),
    pytest.param(248, id="across 256 cells", marks=pytest.mark.slow),
    pytest.param(504, id="across 512 cells", marks=pytest.mark.slow),
    pytest.param(1016, id="across 1024 cells", marks=pytest.mark.slow),
]
pytestmark = [pytest.mark.parametrize("length", LENGTHS), pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _exact_build(length: int) -> None:
    if length + STEPS > 256 and not row_exact():
        pytest.skip("this llama.cpp is not row-exact beyond 256 cells: build ours with ./scripts/setup")


@pytest.fixture
def messages(length: int, engine: LlamaEngine, talk: Talk) -> list[Message]:
    """A conversation whose prompt has ``length`` tokens."""
    sentence = SENTENCE.split()
    words = [sentence[i % len(sentence)] for i in range(length)]
    while len(prompt(engine, talk(*HISTORY, " ".join(words)))) > length:
        words.pop()
    return talk(*HISTORY, " ".join(words))


def prompt(engine: LlamaEngine, messages: list[Message]) -> tuple[int, ...]:
    return engine._prompts.full(messages)


def reply_bits(engine: LlamaEngine, messages: list[Message]) -> list[bytes]:
    """The logits after the prompt and after each token of the reply, bit for bit."""
    engine.open(messages, 3)
    rows = [engine._cache.logits().tobytes()]
    for _ in range(STEPS):
        if engine.step().done:
            break
        rows.append(engine._cache.logits().tobytes())
    return rows


@pytest.fixture(scope="module")
def computed() -> dict[int, list[bytes]]:
    return {}


@pytest.fixture
def undisturbed(
    length: int, computed: dict[int, list[bytes]], make_engine: Make, messages: list[Message]
) -> list[bytes]:
    """The reply of an engine that has done nothing else; computed once for each length."""
    if length not in computed:
        computed[length] = reply_bits(make_engine(), messages)
    return computed[length]


def partials(messages: list[Message]) -> list[list[Message]]:
    """The last message as a recognizer hears it: a few more words each time, now and then a wrong one."""
    words = messages[-1].text.split()
    heard = []
    for n in range(1, len(words), max(3, len(words) // 7)):
        guess = words[:n] if n % 2 else [*words[: n - 1], "banana", "split"]
        heard.append([*messages[:-1], Message(messages[-1].role, " ".join(guess))])
    return heard


def test_streaming_prefill_equals_whole_prefill(
    make_engine: Make, messages: list[Message], undisturbed: list[bytes]
) -> None:
    engine = make_engine()
    for partial in partials(messages):
        engine.follow(partial)
    assert reply_bits(engine, messages) == undisturbed


def test_token_by_token_equals_whole_prefill(
    make_engine: Make, messages: list[Message], undisturbed: list[bytes]
) -> None:
    engine = make_engine()
    tokens = prompt(engine, messages)
    engine._cache.extend(tokens[:-40], logits=False)
    for token in tokens[-40:]:
        engine._cache.extend((token,), logits=False)
    assert engine.open(messages, 3).prefilled == 1
    assert reply_bits(engine, messages) == undisturbed


def test_cached_equals_uncached(make_engine: Make, messages: list[Message], undisturbed: list[bytes]) -> None:
    engine = make_engine()
    first = reply_bits(engine, messages)
    assert engine.open(messages, 3).prefilled == 1
    assert first == reply_bits(engine, messages) == undisturbed


def test_a_reply_after_rollbacks_equals_an_undisturbed_one(
    make_engine: Make, messages: list[Message], undisturbed: list[bytes]
) -> None:
    engine = make_engine(max_reply_tokens=24)
    for partial in partials(messages)[:4]:
        engine.follow(partial)
        mark = engine.mark()
        engine.open(partial, 9)
        for _ in range(5):
            if engine.step().done:
                break
        engine.rollback(mark)
    assert reply_bits(engine, messages) == undisturbed


def test_one_thread_equals_two(make_engine: Make, messages: list[Message], undisturbed: list[bytes]) -> None:
    assert reply_bits(make_engine(threads=1), messages) == undisturbed


def test_another_context_and_batch_size_equal_the_default(
    make_engine: Make, messages: list[Message], undisturbed: list[bytes]
) -> None:
    assert reply_bits(make_engine(n_ctx=1280, n_batch=7), messages) == undisturbed


def test_the_comparison_sees_a_difference_of_one_word(
    make_engine: Make, messages: list[Message], undisturbed: list[bytes]
) -> None:
    other = [*messages[:-1], Message(messages[-1].role, messages[-1].text.replace("seven", "eight", 1))]
    bits = reply_bits(make_engine(), other)
    assert bits != undisturbed
    assert np.isfinite(np.frombuffer(bits[0], np.float32)).all()
