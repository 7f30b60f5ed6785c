"""Typed turns through the same engine and gate: Enter is the confirmed end of a turn, so nothing has to be guessed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from .acts.protocol import ActClassifier
from .aio import Worker
from .clock import Clock
from .config import PadsSettings
from .engine.protocol import ReplyEngine
from .errors import InputError
from .frames import Message, ReplyStep, Role
from .gate.policy import Evidence, should_prepare
from .mouth import seed_for
from .trace import Trace


@dataclass(frozen=True)
class ChatTurn:
    """One typed turn: ``deep`` says whether the gate would have prepared the reply, ``ttft_ms`` what it took."""

    turn: int
    user: str
    agent: str
    p_deep: float
    deep: bool
    tokens: int
    ttft_ms: float
    seconds: float
    approximate: bool = False
    """Whether a word of it left the model at an exit, unverified."""


class Chat:
    """A typed conversation. One call of ``say`` at a time."""

    def __init__(
        self, engine: ReplyEngine, acts: ActClassifier, settings: PadsSettings, clock: Clock, trace: Trace
    ) -> None:
        self._engine, self._acts, self._settings = engine, acts, settings
        self._clock, self._trace = clock, trace
        self._engine_worker, self._acts_worker = Worker("engine"), Worker("acts")
        self.history: list[Message] = [Message(Role.SYSTEM, settings.engine.system_prompt)]
        self.turns: list[ChatTurn] = []

    async def say(self, text: str, show: Callable[[str], None]) -> ChatTurn:
        """Answer ``text``, showing the reply as it comes. Raises ContextFull, InputError, EngineError."""
        turn, began_s = len(self.turns) + 1, self._clock.now()
        p_deep = await self._acts_worker.run(self._acts.p_deep, text)
        deep = should_prepare(Evidence(True, 1.0, p_deep), self._settings.gate)
        self._trace.emit("act_classified", self._clock.now(), turn=turn, p_deep=p_deep, text=text)
        rows = [*self.history, Message(Role.USER, text)]
        first_s, tokens, agent, approximate = 0.0, 0, "", False
        async for step in self._steps(rows, seed_for(self._settings.engine.seed, turn)):
            if step.tokens and not tokens:
                first_s = self._clock.now()
                self._trace.emit("first_token", first_s, turn=turn)
            tokens, agent, approximate = tokens + len(step.tokens), agent + step.text, approximate or step.approximate
            show(step.text)
        agent = agent.strip()
        ended_s = self._clock.now()
        ttft_ms = round((first_s - began_s) * 1000, 3) if tokens else 0.0
        done = ChatTurn(turn, text, agent, p_deep, deep, tokens, ttft_ms, round(ended_s - began_s, 6), approximate)
        self._trace.emit("reply_served", ended_s, **asdict(done))
        self.history = [*rows, Message(Role.AGENT, agent)] if agent else rows
        self.turns.append(done)
        return done

    async def _steps(self, rows: list[Message], seed: int) -> AsyncIterator[ReplyStep]:
        engine, worker = self._engine, self._engine_worker
        await worker.run(engine.open, rows, seed, on_cancel=engine.abort)
        done = False
        while not done:
            step = await worker.run(engine.step, on_cancel=engine.abort)
            done = step.done
            yield step

    def close(self) -> None:
        """Stop the workers and free the engine. Idempotent."""
        self._engine.abort()
        self._acts_worker.stop(0.2)
        if self._engine_worker.stop(0.5):
            self._engine.close()


async def typed_lines(stream: BinaryIO, prompt: Callable[[], None]) -> AsyncIterator[str]:
    """Non-empty lines of ``stream`` as text. Raises InputError for bytes that are not UTF-8."""
    reader = Worker("typed")  # a daemon: a person who never presses Enter again keeps no talk from ending
    number = 0
    try:
        while True:
            prompt()
            line = await reader.run(stream.readline)
            if not line:
                return
            number += 1
            text = _decoded(line, number).strip()
            if text:
                yield text
    finally:
        reader.stop(0.0)


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"typed line {number} is not UTF-8 text (byte {exc.start + 1}); set the terminal or the file to UTF-8"
        ) from None


def chat_summary(turns: list[ChatTurn]) -> dict[str, Any]:
    """The chat as one JSON-able object."""
    return {"turns": len(turns), "per_turn": [asdict(turn) for turn in turns]}
