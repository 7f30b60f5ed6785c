"""The session under its two clocks: the same events at any speed, and nothing that grows with time."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pads_runtime import trace as traces
from pads_runtime.clock import Clock
from pads_runtime.crew import Stages
from pads_runtime.session import Session
from pads_runtime.testing import Conversation, Script, WordEngine, converse, settings_with, swap
from pads_runtime.trace import Trace

BUSY = Script.of((0.1, "can you tell me"), (1.5, "the time"), (4.5, "no wait stop that"), tail_s=2.0)
"""A branch discarded, a reply interrupted, another served."""
ALWAYS = settings_with(gate={"mode": "always"})


def talk(path: Path, speed: float = 0.0) -> bytes:
    with Trace(path) as trace:
        converse(BUSY, ALWAYS, swap(engine=WordEngine(20)), speed=speed, trace=trace)
    return path.read_bytes()


def test_the_same_talk_gives_the_same_trace_byte_for_byte_every_time(tmp_path: Path) -> None:
    first = talk(tmp_path / "0.jsonl")
    kinds = {event.kind for event in traces.read(tmp_path / "0.jsonl")}
    assert {"branch_discarded", "reply_committed", "reply_interrupted", "playback_finished"} <= kinds
    for i in range(1, 6):
        assert talk(tmp_path / f"{i}.jsonl") == first


@pytest.mark.parametrize("speed", [10.0, 40.0])
def test_a_replay_at_a_multiple_of_real_time_gives_the_same_trace_as_one_without_limit(
    tmp_path: Path, speed: float
) -> None:
    assert talk(tmp_path / "paced.jsonl", speed) == talk(tmp_path / "free.jsonl")


def jittery(method: Callable[..., Any]) -> Callable[..., Any]:
    def late(*args: Any, **kwargs: Any) -> Any:
        time.sleep(random.random() * 0.005)
        return method(*args, **kwargs)

    return late


def test_stages_that_take_their_time_on_the_wall_do_not_change_the_trace(tmp_path: Path) -> None:
    def slow_down(stages: Stages) -> Stages:
        parts = {"recognizer": "transcribe", "predictor": "update", "acts": "p_deep", "synthesizer": "synthesize"}
        for part, method in parts.items():
            setattr(getattr(stages, part), method, jittery(getattr(getattr(stages, part), method)))
        engine = WordEngine(20)
        for method in ("follow", "open", "step", "mark", "rollback"):
            setattr(engine, method, jittery(getattr(engine, method)))
        return replace(stages, engine=engine)

    expected = talk(tmp_path / "steady.jsonl")
    for i in range(3):
        path = tmp_path / f"jitter{i}.jsonl"
        with Trace(path) as trace:
            converse(BUSY, ALWAYS, slow_down, trace=trace)
        assert path.read_bytes() == expected


def test_under_wall_time_the_same_words_are_served() -> None:
    """Times differ, so the interrupted reply may differ in length; who said what when does not."""
    quick = settings_with(turn={"confirm_min_s": 0.3})
    script = Script.of((0.1, "can you tell me"), word_s=0.1, tail_s=0.2)
    virtual, real = (converse(script, quick, virtual=kind) for kind in (True, False))
    assert real.history == virtual.history
    assert [e.kind for e in real.events if "state" in e.kind] == [e.kind for e in virtual.events if "state" in e.kind]
    assert real.session.lags_s and not virtual.session.lags_s


def test_half_an_hour_of_silence_leaves_memory_tasks_and_events_flat() -> None:
    blocks: list[int] = []
    tasks: list[int] = []

    async def measure(session: Session, clock: Clock) -> AsyncIterator[None]:
        for minute in (2, 10, 20, 29):
            await clock.sleep_until(60.0 * minute)
            gc.collect()
            blocks.append(sys.getallocatedblocks())
            tasks.append(len(asyncio.all_tasks()))
            yield

    silence: Conversation = converse(Script((), 1800.0), during=measure)
    assert [event.kind for event in silence.events] == ["session_started", "session_ended"]
    assert silence.session.frames_dropped == 0
    assert len(set(tasks)) == 1
    # 81,000 frames lie between the first and the last figure; keeping anything of each would be 81,000 blocks.
    assert max(blocks) - blocks[0] < 2_000


def test_a_long_talk_keeps_no_audio_of_turns_that_are_over() -> None:
    turns = Script.of(*[(6.0 * i + 0.5, "can you tell me") for i in range(40)])
    held: list[int] = []

    async def measure(session: Session, clock: Clock) -> AsyncIterator[None]:
        for i in range(1, 40):
            await clock.sleep_until(6.0 * i)
            ears = session._ears
            held.append(len(ears._turn or []) + len(ears._preroll) + len(ears._unpredicted))
            yield

    long = converse(turns, during=measure)
    assert len(long.replies) == 40
    assert max(held[3:]) == min(held[3:]) < 500
