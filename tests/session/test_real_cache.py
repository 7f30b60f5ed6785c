"""After an interruption the real engine's cache holds the talk as it was heard, and what it serves next proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pads_runtime import assemble
from pads_runtime import clock as clocks
from pads_runtime.clock import LoopClock
from pads_runtime.config import PadsSettings
from pads_runtime.engine.protocol import ReplyEngine
from pads_runtime.frames import Message, ReplyStep, Role, WorkCounts
from pads_runtime.models import Registry
from pads_runtime.mouth import seed_for
from pads_runtime.session import Session
from pads_runtime.testing import COSTS, Script, fake_stages, settings_with
from pads_runtime.trace import Trace

pytestmark = pytest.mark.slow
SETTINGS = settings_with(engine={"max_reply_tokens": 24}, gate={"mode": "always"})


class Kept(ReplyEngine):
    """The real engine, not closed with the session, and what it was asked to open."""

    def __init__(self, engine: ReplyEngine) -> None:
        self.inner = engine
        self.opened: list[tuple[tuple[Message, ...], WorkCounts]] = []

    def follow(self, messages: Sequence[Message]) -> WorkCounts:
        return self.inner.follow(messages)

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        counts = self.inner.open(messages, seed)
        self.opened.append((tuple(messages), counts))
        return counts

    def step(self) -> ReplyStep:
        return self.inner.step()

    def mark(self) -> int:
        return self.inner.mark()

    def rollback(self, mark: int) -> None:
        self.inner.rollback(mark)

    def abort(self) -> None:
        self.inner.abort()

    def close(self) -> None:
        """Later."""


def hold(script: Script, engine: Kept, settings: PadsSettings) -> tuple[Session, Trace]:
    trace = Trace()

    async def main() -> Session:
        clock = LoopClock()
        session = Session(replace(fake_stages(script, clock), engine=engine), settings, COSTS, clock, trace)
        await session.run()
        return session

    return clocks.run(main, virtual=True), trace


def reply_of(engine: ReplyEngine, messages: Sequence[Message], seed: int) -> str:
    engine.open(messages, seed)
    text, done = "", False
    while not done:
        step = engine.step()
        text, done = text + step.text, step.done
    return text.strip()


def test_the_reply_after_an_interruption_is_the_one_to_what_was_heard_and_its_prefix_was_in_the_cache() -> None:
    registry = Registry.load()
    engine = Kept(assemble.engine(SETTINGS.engine, registry))
    asked, stop = "tell me about the sea", "wait how deep is it"
    session, trace = hold(Script.of((0.5, asked), (4.4, stop), tail_s=8.0), engine, SETTINGS)
    (cut,) = [event for event in trace.events if event.kind == "reply_interrupted"]
    rows = session.history
    assert [row.role for row in rows] == [Role.USER, Role.AGENT, Role.USER, Role.AGENT]
    assert rows[1].text == cut.fields["heard"]
    generated = next(event.fields["text"] for event in trace.events if event.kind == "reply_generated")
    assert 0 < len(rows[1].text) < len(generated)
    messages, counts = engine.opened[-1]
    assert [message.text for message in messages[1:]] == [row.text for row in rows[:3]]
    assert counts.reused > 0  # what was heard was not computed again
    engine.inner.close()
    fresh = assemble.engine(SETTINGS.engine, registry)
    assert rows[3].text == reply_of(fresh, messages, seed_for(SETTINGS.engine.seed, 2))
    fresh.close()
