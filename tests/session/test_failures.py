"""What breaks, and how the session goes on or ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pads_runtime import clock as clocks
from pads_runtime.clock import LoopClock
from pads_runtime.config import PadsSettings
from pads_runtime.crew import Stages
from pads_runtime.errors import ContextFull, EngineDead, EngineError, InputError, ModelError
from pads_runtime.frames import Message, ReplyStep, WorkCounts
from pads_runtime.session import Session
from pads_runtime.summary import summarise
from pads_runtime.testing import (
    COSTS,
    LoudnessActivity,
    MemorySink,
    Script,
    WordEngine,
    converse,
    fake_stages,
    settings_with,
    swap,
)
from pads_runtime.trace import Trace

TWO_TURNS = Script.of((0.5, "can you tell me"), (7.0, "tell me more"))
ALWAYS, NEVER = settings_with(gate={"mode": "always"}), settings_with(gate={"mode": "never"})


class FailingEngine(WordEngine):
    """Raises ``error`` in the calls whose number (from 1) is in ``at``, counted for each operation by itself."""

    def __init__(self, operation: str, at: Sequence[int], error: Exception, reply_words: int = 8) -> None:
        super().__init__(reply_words)
        self._operation, self._at, self._error = operation, at, error
        self._calls: dict[str, int] = {}

    def _count(self, operation: str) -> None:
        self._calls[operation] = self._calls.get(operation, 0) + 1
        if operation == self._operation and self._calls[operation] in self._at:
            raise self._error

    def follow(self, messages: Sequence[Message]) -> WorkCounts:
        self._count("follow")
        return super().follow(messages)

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        self._count("open")
        return super().open(messages, seed)

    def step(self) -> ReplyStep:
        self._count("step")
        return super().step()

    def rollback(self, mark: int) -> None:
        self._count("rollback")
        super().rollback(mark)


# ---------------------------------------------------------------- the session goes on


@pytest.mark.parametrize(("operation", "at"), [("open", [1]), ("step", [1]), ("step", [4])])
def test_a_prepared_reply_that_fails_does_not_cost_the_turn(operation: str, at: list[int]) -> None:
    talk = converse(TWO_TURNS, ALWAYS, swap(engine=FailingEngine(operation, at, EngineError("broken"))))
    (failed,) = talk.of("reply_failed")
    assert failed.fields["error"] == "broken"
    assert failed.fields["prepared"]
    assert talk.replies == converse(TWO_TURNS, NEVER).replies
    assert talk.of("reply_committed")[-1].fields["turn"] == 2


def test_a_branch_that_fails_every_time_is_answered_the_plain_way_until_that_fails_too() -> None:
    talk = converse(TWO_TURNS, ALWAYS, swap(engine=FailingEngine("open", range(1, 99), ContextFull("too long"))))
    assert talk.user_rows == ["Can you tell me", "Tell me more"]
    assert talk.agent_rows == [] and talk.replies == []
    assert [event.fields["reason"] for event in talk.of("turn_closed")] == ["its reply failed"] * 2
    assert len(talk.of("reply_failed")) < 20


def test_a_served_reply_that_fails_unheard_closes_its_turn_and_the_next_one_is_answered() -> None:
    talk = converse(TWO_TURNS, NEVER, swap(engine=FailingEngine("step", [3], EngineError("broken"))))
    assert [event.fields["turn"] for event in talk.of("turn_closed")] == [1]
    assert talk.user_rows == ["Can you tell me", "Tell me more"]
    assert len(talk.agent_rows) == len(talk.replies) == 1
    assert not summarise(talk.events)["per_turn"][1]["error"]


def test_a_reply_that_fails_while_it_is_heard_leaves_what_was_heard_in_the_history() -> None:
    slow = COSTS.model_copy(update={"decode_step_s": 0.12})
    engine = FailingEngine("step", [10], EngineError("broken"), reply_words=12)
    talk = converse(TWO_TURNS, NEVER, swap(engine=engine), costs=slow)
    (failed,) = talk.of("reply_failed")
    started_s = talk.of("playback_started")[0].t_s
    whole_words = int((failed.t_s - started_s) / 0.2 + 1e-6)
    assert len(talk.agent_rows[0].split()) == whole_words > 0
    assert talk.user_rows == ["Can you tell me", "Tell me more"]
    assert talk.of("state_changed")[-1].fields["state"] == "idle"
    second = talk.agent_rows[1].split()
    assert len(second) == 12  # what was left of the failed reply's sound is not counted for this one


def test_a_transcript_too_long_to_follow_ends_nothing() -> None:
    talk = converse(TWO_TURNS, change=swap(engine=FailingEngine("follow", range(1, 99), ContextFull("too long"))))
    assert talk.replies == converse(TWO_TURNS).replies
    assert talk.of("follow_failed")[0].fields["error"] == "too long"


class FailedVoice:
    sample_rate = MemorySink.sample_rate

    def synthesize(self, text: str) -> None:
        raise ModelError("the voice is hoarse")


def test_a_voice_that_fails_closes_the_turn_with_its_words_kept() -> None:
    talk = converse(TWO_TURNS, ALWAYS, swap(synthesizer=FailedVoice()))
    assert talk.user_rows == ["Can you tell me", "Tell me more"]
    assert talk.agent_rows == []
    assert {event.fields["error"] for event in talk.of("reply_failed")} == {"the voice is hoarse"}


def test_a_branch_that_fails_at_the_instant_of_its_commit_is_answered_the_plain_way() -> None:
    """Under wall time: the step fails while the confirm waits for voice activity to be told."""
    confirming, failed = threading.Event(), threading.Event()

    class Engine(WordEngine):
        def step(self) -> ReplyStep:
            if not failed.is_set():
                confirming.wait(20.0)
                failed.set()
                raise EngineError("broken at the commit")
            return super().step()

    class Activity(LoudnessActivity):
        def end_turn(self) -> None:
            confirming.set()
            failed.wait(20.0)
            threading.Event().wait(0.05)  # the failure reaches the event loop first
            super().end_turn()

    quick = settings_with(turn={"confirm_min_s": 0.3}, gate={"mode": "always"})
    script = Script.of((0.1, "can you tell me"), word_s=0.1, tail_s=0.5)
    talk = converse(script, quick, swap(engine=Engine(), voice_activity=Activity()), virtual=False)
    assert len(talk.of("reply_failed")) == len(talk.of("branch_opened")) == 1
    assert talk.of("reply_committed") == []
    assert len(talk.of("reply_opened")) == len(talk.agent_rows) == 1


# ---------------------------------------------------------------- the session ends


def ended_cleanly(trace: Trace) -> bool:
    kinds = [event.kind for event in trace.events]
    return kinds[-1] == "session_ended" and kinds.count("session_ended") == 1 and kinds[0] == "session_started"


def fail(*args: object, **kwargs: object) -> object:
    raise ModelError("this stage is broken")


class BrokenSource:
    async def frames(self) -> object:
        raise InputError("this stage is broken")
        yield


def broken(part: str, method: str) -> Callable[[Stages], Stages]:
    def change(stages: Stages) -> Stages:
        setattr(getattr(stages, part), method, fail)
        return stages

    return change


@pytest.mark.parametrize("virtual", [True, False])
@pytest.mark.parametrize(
    ("part", "method"),
    [
        ("voice_activity", "process"),
        ("voice_activity", "end_turn"),
        ("predictor", "update"),
        ("predictor", "wants"),
        ("recognizer", "begin"),
        ("recognizer", "transcribe"),
        ("acts", "p_deep"),
        ("sink", "write"),
        ("sink", "window"),
    ],
)
def test_a_stage_that_fails_ends_the_session_with_that_error_and_a_whole_trace(
    part: str, method: str, virtual: bool
) -> None:
    trace = Trace()
    script = Script.of((0.1, "tell me"), word_s=0.1, tail_s=1.0)
    quick = settings_with(turn={"confirm_min_s": 0.3}, asr={"partial_every_s": 0.1})
    if (part, method) == ("sink", "write"):  # inside a reply: a failed reply, not a failed session
        talk = converse(script, quick, broken(part, method), virtual=virtual, trace=trace)
        assert len(talk.of("reply_failed")) == 1
    else:
        with pytest.raises(ModelError, match=r"^this stage is broken$"):
            converse(script, quick, broken(part, method), virtual=virtual, trace=trace)
        assert [e.fields["error"] for e in trace.events if e.kind == "session_failed"] == [
            "ModelError: this stage is broken"
        ]
    assert ended_cleanly(trace)


def test_a_source_that_fails_ends_the_session_with_that_error() -> None:
    trace = Trace()
    with pytest.raises(InputError, match=r"^this stage is broken$"):
        converse(TWO_TURNS, change=swap(source=BrokenSource()), trace=trace)
    assert ended_cleanly(trace)


@pytest.mark.parametrize("settings", [ALWAYS, NEVER])
@pytest.mark.parametrize(
    ("operation", "at"), [("step", [1]), ("step", [5]), ("open", [1]), ("follow", [1]), ("rollback", [1])]
)
def test_an_engine_that_is_dead_ends_the_session(operation: str, at: list[int], settings: PadsSettings) -> None:
    trace = Trace()
    script = Script.of((0.5, "can you tell me"), (2.02, "the time"), (3.0, "or what"))
    engine = FailingEngine(operation, at, EngineDead("no way back"))
    if operation == "rollback" and settings is NEVER:
        converse(script, settings, swap(engine=engine), trace=trace)  # nothing to roll back
    else:
        with pytest.raises(EngineDead, match=r"^no way back$"):
            converse(script, settings, swap(engine=engine), trace=trace)
        assert "EngineDead: no way back" in [e.fields.get("error") for e in trace.events]
    assert ended_cleanly(trace)
    assert engine.closed


def test_a_bug_in_a_stage_is_raised_as_it_is() -> None:
    trace = Trace()
    with pytest.raises(ZeroDivisionError):
        converse(TWO_TURNS, change=swap(engine=FailingEngine("step", [2], ZeroDivisionError("a bug"))), trace=trace)
    assert ended_cleanly(trace)


# ---------------------------------------------------------------- cancelled


def cancelled_at(
    at_s: float | None, virtual: bool = True, settings: PadsSettings | None = None
) -> tuple[Trace, Stages]:
    """Run a talk with everything in it and cancel it at ``at_s`` (None: before its first step)."""
    script = Script.of((0.1, "can you tell me"), (1.5, "the time"), (4.5, "no wait stop that"), tail_s=2.0)
    trace = Trace()

    async def main() -> Stages:
        clock = LoopClock()
        stages = replace(fake_stages(script, clock), engine=WordEngine(20))
        task = asyncio.create_task(Session(stages, settings or ALWAYS, COSTS, clock, trace).run())
        if at_s is not None:
            await clock.sleep_until(at_s)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() or (at_s is not None and task.exception() is None)
        return stages

    return trace, clocks.run(main, virtual=virtual)


INSTANTS_S = [round(0.011 + 0.0977 * i, 4) for i in range(80)]


@pytest.mark.parametrize("settings", [ALWAYS, NEVER])
def test_cancelled_at_any_instant_the_trace_is_whole_and_everything_is_closed(settings: PadsSettings) -> None:
    seen = set()
    for at_s in INSTANTS_S:
        trace, stages = cancelled_at(at_s, settings=settings)
        assert ended_cleanly(trace), at_s
        assert "session_failed" not in {event.kind for event in trace.events}
        assert stages.sink.closed and stages.engine.closed  # type: ignore[attr-defined]
        seen.add(next((e.fields["state"] for e in reversed(trace.events) if e.kind == "state_changed"), "idle"))
    assert seen == {"idle", "listening", "paused", "responding"}


def test_cancelled_at_the_very_instants_at_which_something_happens() -> None:
    whole, _ = cancelled_at(60.0)
    kinds = {event.kind for event in whole.events}
    assert {"branch_discarded", "reply_committed", "reply_interrupted", "playback_finished"} <= kinds
    for at_s in sorted({event.t_s for event in whole.events}):
        trace, stages = cancelled_at(at_s)
        assert ended_cleanly(trace), at_s
        assert stages.sink.closed and stages.engine.closed  # type: ignore[attr-defined]
        kept = [event for event in trace.events if event.kind not in ("session_ended",)]
        assert kept == whole.events[: len(kept)]


@pytest.mark.parametrize("at_s", [0.0, 0.05, 0.55, 0.8, 1.2])
def test_cancelled_under_wall_time_everything_is_closed(at_s: float) -> None:
    trace, stages = cancelled_at(at_s, virtual=False)
    assert ended_cleanly(trace)
    assert stages.sink.closed and stages.engine.closed  # type: ignore[attr-defined]


def test_cancelled_before_its_first_step_a_session_has_started_nothing() -> None:
    trace, _ = cancelled_at(None)
    assert trace.events == []


def test_dropped_frames_are_counted_in_a_cancelled_sessions_trace() -> None:
    class Deaf(LoudnessActivity):
        def process(self, frame):  # type: ignore[no-untyped-def]
            threading.Event().wait(0.2)
            return ()

    trace = Trace()

    async def main() -> None:
        clock = LoopClock()
        stages = replace(fake_stages(Script((), 9.0), clock), voice_activity=Deaf())
        settings = settings_with(audio={"queue_frames": 2})
        task = asyncio.create_task(Session(stages, settings, COSTS, clock, trace).run())
        await asyncio.sleep(0.6)
        task.cancel()
        await asyncio.wait({task})

    clocks.run(main, virtual=False)
    assert trace.events[-1].fields["frames_dropped"] > 0
