"""Marks, rollbacks, aborts and failures: the ledger and the native cache agree, and the prefix survives."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest

from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.errors import EngineAborted, EngineDead, EngineError
from pads_runtime.frames import Message, ReplyStep

Make = Callable[..., LlamaEngine]
Talk = Callable[..., list[Message]]
Answer = Callable[..., tuple[tuple[int, ...], str]]

LONG = "Please tell me more about the weather in the north of the country, and about the sea. " * 4
"""About 110 tokens with the system prompt, three passes."""


def agrees(engine: LlamaEngine) -> bool:
    """Whether the native cache ends where the ledger does."""
    cache = engine._cache
    return bool(cache._llama.llama_memory_seq_pos_max(cache._memory, 0) == len(cache) - 1)


class AbortAtNode:
    """Raises the engine's flag when llama.cpp has computed ``nodes`` graph nodes; keeps the callback alive."""

    def __init__(self, engine: LlamaEngine, nodes: int) -> None:
        llama, context = engine._cache._llama, engine._cache._context
        self.seen = 0

        def reached(_: ctypes.c_void_p) -> bool:
            self.seen += 1
            if self.seen == nodes:
                engine.abort()
            return self.seen >= nodes

        self._callback = llama.ggml_abort_callback(reached)
        llama.llama_set_abort_callback(context, self._callback, None)

    def remove(self, engine: LlamaEngine) -> None:
        engine._cache.abort_flag.install(engine._cache._context)


def test_rollback_returns_to_the_mark_and_its_prefix_is_reused(engine: LlamaEngine, talk: Talk) -> None:
    engine.follow(talk("How do I boil an egg"))
    cached, mark = engine.cached_tokens, engine.mark()
    engine.open(talk("How do I boil an egg"), 1)
    for _ in range(4):
        engine.step()
    engine.rollback(mark)
    assert engine.cached_tokens == cached
    assert agrees(engine)
    with pytest.raises(EngineError, match="no reply is open"):
        engine.step()
    assert engine.open(talk("How do I boil an egg and a potato?"), 1).reused == len(cached)


def test_rollback_into_an_open_reply_serves_the_same_tokens_again(engine: LlamaEngine, talk: Talk) -> None:
    engine.open(talk("Tell me about ☃ and 日本."), 1)
    for before in range(4):
        mark = engine.mark()
        first = [engine.step() for _ in range(5)]
        engine.rollback(mark)
        assert [engine.step() for _ in range(5)] == first, before
        engine.rollback(mark)
        engine.step()


def test_rollback_after_the_transcript_was_revised_keeps_what_is_common(engine: LlamaEngine, talk: Talk) -> None:
    engine.follow(talk("I would like to book a room for two"))
    mark, cached = engine.mark(), engine.cached_tokens
    engine.follow(talk("I would like to cook a broom for two"))
    engine.rollback(mark)
    assert engine.cached_tokens == cached[: len(engine.cached_tokens)]
    assert 0 < len(engine.cached_tokens) < len(cached)
    assert agrees(engine)


def test_marks_taken_after_the_one_rolled_back_to_are_forgotten(engine: LlamaEngine, talk: Talk) -> None:
    first, second = engine.mark(), engine.mark()
    engine.rollback(first)
    engine.rollback(first)
    with pytest.raises(EngineError, match="is unknown"):
        engine.rollback(second)


def test_only_so_many_marks_are_kept(engine: LlamaEngine) -> None:
    marks = [engine.mark() for _ in range(500)]
    assert len(engine._marks) == 64
    engine.rollback(marks[-64])
    with pytest.raises(EngineError, match="is unknown"):
        engine.rollback(marks[0])


def test_an_abort_before_a_call_stops_it_and_lasts_until_the_rollback(engine: LlamaEngine, talk: Talk) -> None:
    mark = engine.mark()
    engine.abort()
    for _ in range(2):
        with pytest.raises(EngineAborted):
            engine.open(talk("Hello!"), 1)
        with pytest.raises(EngineAborted):
            engine.follow(talk("Hello there, you"))
    assert engine.cached_tokens == ()
    engine.rollback(mark)
    engine.open(talk("Hello!"), 1)
    engine.abort()
    with pytest.raises(EngineAborted):
        engine.step()


@pytest.mark.parametrize("nodes", [1, 300, 600, 1000])
def test_a_prefill_aborted_at_any_node_keeps_whole_passes_only_and_redoes_the_same(
    nodes: int, make_engine: Make, talk: Talk, answer: Answer
) -> None:
    engine, fresh = make_engine(), make_engine()
    engine.follow(talk("Hello, I have a question for you"))
    prefix, mark = engine.cached_tokens, engine.mark()
    abort = AbortAtNode(engine, nodes)
    with pytest.raises(EngineAborted):
        engine.open(talk(LONG), 1)
    abort.remove(engine)
    assert agrees(engine)
    kept = engine.cached_tokens
    engine.rollback(mark)
    assert engine.cached_tokens == kept[: len(engine.cached_tokens)]
    engine.open(talk("Hello, I have a question for you, dear."), 1)
    assert engine.cached_tokens[: len(prefix)] == prefix
    assert answer(engine, talk(LONG)) == answer(fresh, talk(LONG))
    assert engine.cached_tokens == fresh.cached_tokens


@pytest.mark.parametrize("nodes", [1, 100, 400])
def test_a_decode_aborted_at_any_node_serves_nothing_and_redoes_the_same(
    nodes: int, make_engine: Make, talk: Talk, answer: Answer
) -> None:
    engine = make_engine()
    expected = answer(make_engine(), talk("Tell me a joke."))
    opened = engine.mark()
    engine.open(talk("Tell me a joke."), 1)
    served = [engine.step() for _ in range(3)]
    mark, cached = engine.mark(), engine.cached_tokens
    abort = AbortAtNode(engine, nodes)
    with pytest.raises(EngineAborted):
        engine.step()
    abort.remove(engine)
    assert engine.cached_tokens == cached
    assert agrees(engine)
    engine.rollback(mark)
    while not served[-1].done:
        served.append(engine.step())
    assert tuple(t for step in served for t in step.tokens) == expected[0]
    engine.rollback(opened)
    assert answer(engine, talk("Tell me a joke.")) == expected


def test_no_token_is_served_later_than_one_step_after_an_abort_from_another_thread(
    make_engine: Make, talk: Talk
) -> None:
    engine = make_engine(max_reply_tokens=1000, n_ctx=2048)
    engine.open(talk("Count from one to one thousand, please."), 1)
    steps: list[ReplyStep] = []
    started = threading.Event()

    def serve() -> None:
        with pytest.raises(EngineAborted):
            while True:
                steps.append(engine.step())
                if len(steps) == 3:
                    started.set()

    thread = threading.Thread(target=serve)
    thread.start()
    assert started.wait(60)
    engine.abort()
    at_abort = len(steps)
    thread.join(60)
    assert not thread.is_alive()
    assert len(steps) <= at_abort + 1
    assert not any(step.done for step in steps)
    assert agrees(engine)


def test_a_prefill_is_aborted_from_another_thread(make_engine: Make, talk: Talk, answer: Answer) -> None:
    engine = make_engine(n_ctx=2048)
    mark = engine.mark()
    running = threading.Event()

    def prefill() -> None:
        running.set()
        with pytest.raises(EngineAborted):
            while True:
                engine.open(talk(LONG * 15), 1)
                engine.rollback(mark)

    thread = threading.Thread(target=prefill)
    thread.start()
    assert running.wait(60)
    while thread.is_alive():
        engine.abort()
        thread.join(0.05)
    assert agrees(engine)
    engine.rollback(mark)
    assert answer(engine, talk("Hello!")) == answer(make_engine(), talk("Hello!"))


def test_a_failed_pass_leaves_the_cache_as_it_was(engine: LlamaEngine, talk: Talk, answer: Answer) -> None:
    engine.follow(talk("Hello there, my friend"))
    cached = engine.cached_tokens
    with pytest.raises(EngineError, match=rf"llama.cpp failed at token {len(cached)} \(code -1\)"):
        engine._cache.extend((5, engine.n_vocab + 5), logits=True)
    assert engine.cached_tokens == cached
    assert agrees(engine)
    assert answer(engine, talk("Hello there, my friend!"))[1]


def test_a_memory_that_cannot_be_cut_is_emptied_and_filled_again(
    engine: LlamaEngine, talk: Talk, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer(engine, talk("Hello!"))
    real = engine._cache._cut
    monkeypatch.setattr(engine._cache, "_cut", lambda length: length == 0 and real(0))
    engine.follow(talk("Something else entirely, my friend"))
    assert agrees(engine)
    assert answer(engine, talk("Hello!")) == expected


def test_an_engine_that_cannot_return_to_a_good_state_is_dead(
    engine: LlamaEngine, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.open(talk("Hello!"), 1)
    mark = engine.mark()
    engine.step()
    engine.step()
    monkeypatch.setattr(engine._cache, "_cut", lambda length: False)
    with pytest.raises(EngineDead, match="restart the session"):
        engine.rollback(mark)
    for call in (lambda: engine.open(talk("Hello!"), 1), lambda: engine.follow(talk("Hello you there"))):
        with pytest.raises(EngineDead):
            call()
