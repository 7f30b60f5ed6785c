"""Marks, rollbacks, aborts and failures with two frontiers: what is cached, what is pending, what is served after."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.errors import ContextFull, EngineAborted, EngineDead, EngineError
from pads_runtime.frames import Message

Make = Callable[..., LlamaEngine]
Talk = Callable[..., list[Message]]
Answer = Callable[..., tuple[tuple[int, ...], str]]

LONG = "Please tell me more about the weather in the north of the country, and about the sea. " * 4
TWO: dict[str, Any] = {"exit_layer": 20, "draft_len": 3, "follow": "shallow"}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _patched_build() -> None:
    if not row_exact():
        pytest.skip("this llama.cpp has one depth only: build ours with ./scripts/setup")


def agrees(engine: LlamaEngine) -> bool:
    cache = engine._cache
    end: int = cache._llama.llama_memory_seq_pos_max(cache._memory, 0)
    return end == len(cache) - 1 and 0 <= cache.pending <= len(cache)


class Abort:
    """Raises the engine's flag after ``nodes`` graph nodes, counted over all passes while this is in force."""

    def __init__(self, engine: LlamaEngine, nodes: int) -> None:
        self.engine, self.seen = engine, 0

        def reached(_: ctypes.c_void_p) -> bool:
            self.seen += 1
            if self.seen == nodes:
                engine.abort()
            return self.seen >= nodes

        llama = engine._cache._llama
        self._callback = llama.ggml_abort_callback(reached)
        llama.llama_set_abort_callback(engine._cache._context, self._callback, None)

    def __enter__(self) -> Abort:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine._cache.abort_flag.install(self.engine._cache._context)


def nodes_of(engine: LlamaEngine, work: Callable[[], object]) -> int:
    """Graph nodes that ``work`` takes."""
    with Abort(engine, 1 << 30) as counting:
        work()
    return counting.seen


def tokens_of(engine: LlamaEngine) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    while True:
        step = engine.step()
        tokens += step.tokens
        if step.done:
            return tokens


def test_a_round_aborted_at_any_node_serves_nothing_and_redoes_the_same(make_engine: Make, talk: Talk) -> None:
    engine = make_engine(**TWO)
    messages = talk("Tell me a joke.")
    engine.open(messages, 1)
    engine.step()
    mark, cached = engine.mark(), engine.cached_tokens
    nodes = nodes_of(engine, engine.step)
    engine.rollback(mark)
    expected = tokens_of(engine)
    for at in np.random.default_rng(5).integers(1, nodes, 6).tolist():
        engine.rollback(mark)
        with Abort(engine, at), pytest.raises(EngineAborted):
            engine.step()
        assert engine.cached_tokens == cached, at
        assert engine._cache.pending == 0
        assert agrees(engine)
    engine.rollback(mark)
    assert tokens_of(engine) == expected


@pytest.mark.slow
def test_a_shallow_prefill_and_its_deepening_aborted_at_any_node_redo_the_same(
    make_engine: Make, talk: Talk, answer: Answer
) -> None:
    engine = make_engine(**TWO)
    expected = answer(make_engine(), talk(LONG))
    start = engine.mark()
    engine.follow(talk("Hello, I have a question for you"))
    prefix, pending = engine.cached_tokens, engine._cache.pending
    assert pending == len(prefix)

    def work() -> None:
        engine.follow(talk(LONG))
        engine.open(talk(LONG), 1)

    mark = engine.mark()
    nodes = nodes_of(engine, work)
    for at in np.random.default_rng(6).integers(1, nodes, 4).tolist():
        engine.rollback(start)
        engine.follow(talk("Hello, I have a question for you"))
        mark = engine.mark()
        with Abort(engine, at), pytest.raises(EngineAborted):
            work()
        assert agrees(engine)
        engine.rollback(mark)
        assert agrees(engine)
        assert engine.cached_tokens == prefix[: len(engine.cached_tokens)]
        assert answer(engine, talk(LONG)) == expected, at


def test_rollback_before_the_deep_frontier_and_after_it(make_engine: Make, talk: Talk, answer: Answer) -> None:
    engine = make_engine(**TWO)
    engine.follow(talk("I would like to book a room"))
    shallow_only = engine.mark()
    engine.open(talk("I would like to book a room"), 1)
    engine.follow(talk("I would like to book a room for two people next"))
    half = engine.mark()
    deep, pending = engine._cache.deep, engine._cache.pending
    assert deep > 0 and pending > 0
    engine.open(talk("I would like to book a room for two people next week"), 1)
    engine.step()
    engine.rollback(half)
    assert len(engine._cache) == deep + pending and agrees(engine)
    engine.rollback(shallow_only)
    assert agrees(engine)
    last = talk("I would like to cook a broom.")
    assert answer(engine, last) == answer(make_engine(), last)


def test_exits_may_change_while_tokens_are_pending(make_engine: Make) -> None:
    engine, plain = make_engine(**TWO), make_engine()
    cache = engine._cache
    cache.extend_shallow(range(100, 120), 5, logits=False)
    cache.extend_shallow(range(120, 130), 20, logits=False)
    assert (cache.deep, cache.pending) == (20, 10)
    cache.extend_shallow(range(130, 133), 20, logits=False)
    cache.trim(31)
    cache.extend((7,), logits=True)
    plain._cache.extend((*range(100, 131), 7), logits=True)
    assert cache.logits().tobytes() == plain._cache.logits().tobytes()
    assert cache.tokens == plain._cache.tokens and cache.pending == 0


def test_pending_tokens_are_deepened_in_a_full_context_and_no_more_are_taken(make_engine: Make) -> None:
    engine = make_engine(n_ctx=256, **TWO)
    cache = engine._cache
    cache.extend_shallow([5] * cache.n_ctx, 20, logits=False)
    with pytest.raises(ContextFull):
        cache.extend_shallow((5,), 20, logits=False)
    cache.deepen()
    assert cache.deep == cache.n_ctx and agrees(engine)


def test_a_failed_shallow_pass_keeps_what_was_pending(make_engine: Make, talk: Talk, answer: Answer) -> None:
    engine = make_engine(**TWO)
    engine.follow(talk("Hello there, my friend"))
    cached = engine.cached_tokens
    with pytest.raises(EngineError, match=rf"llama.cpp failed at token {len(cached)} \(code -1\)"):
        engine._cache.extend_shallow((5, engine.n_vocab + 5), 20, logits=True)
    assert engine.cached_tokens == cached and engine._cache.pending == len(cached)
    assert agrees(engine)
    assert answer(engine, talk("Hello there, my friend!")) == answer(make_engine(), talk("Hello there, my friend!"))


def test_a_deep_pass_that_fails_in_a_round_serves_nothing_and_the_round_can_be_repeated(
    make_engine: Make, talk: Talk, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(**TWO)
    expected = answer(engine, talk("Hello!"))[0]
    engine.open(talk("Hello!"), 1)
    tokens, cached = engine.step().tokens, engine.cached_tokens
    with monkeypatch.context() as broken:
        broken.setattr(engine._cache, "_run_deep", _fail)
        with pytest.raises(EngineError, match="planted"):
            engine.step()
    assert engine.cached_tokens == cached and engine._cache.pending == 0
    assert tokens + tokens_of(engine) == expected


def _fail(rows: int, logits: bool) -> None:
    raise EngineError("planted")


def test_an_engine_that_cannot_take_its_drafts_back_is_dead(
    make_engine: Make, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(exit_layer=1, draft_len=3)
    engine.open(talk("Hello!"), 1)
    engine.step()
    monkeypatch.setattr(engine._cache, "_cut", lambda length: False)
    with pytest.raises(EngineDead, match="restart the session"):
        engine.step()
    with pytest.raises(EngineDead):
        engine.open(talk("Hello!"), 1)
