"""What the agent says: the one reply that is prepared, committed, held, cut or discarded, and what of it was heard.

The session tells it what the turn machine decided; it tells the session what came of it. Only here does a reply begin
and end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .errors import PadsError
from .frames import DepthPlan, PhraseSynthesized
from .gate import events as m
from .gate.premise import Premise
from .history import History
from .reply import Reply, Voice


@dataclass(frozen=True, slots=True)
class Failed:
    """``reply`` has failed."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Finished:
    """A reply has been played to its end, or there was nothing to play."""


class Listener(Protocol):
    """What the mouth tells the session, on the event loop."""

    def emit(self, kind: str, **fields: Any) -> None:
        """For the trace."""
        ...

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a task of the session's."""
        ...

    def tell(self, event: m.Event) -> None:
        """The machine must know before it judges anything that waits."""
        ...

    def post(self, event: Failed | Finished) -> None:
        """For the session's inbox."""
        ...

    def sounded(self) -> None:
        """From here on the turn cannot be unsaid."""
        ...

    def served(self, reply: Reply, heard: str) -> None:
        """``heard`` is what was heard of ``reply``, and no more will be."""
        ...


class Mouth:
    """At most one reply at a time. Implements ``ReplyObserver``."""

    def __init__(self, voice: Voice, history: History, seed: int, listener: Listener) -> None:
        self._voice, self._history, self._seed, self._l = voice, history, seed, listener
        self._task: asyncio.Task[None] | None = None
        self.reply: Reply | None = None
        """What is prepared or served now."""

    # ------------------------------------------------------------ what the machine decided

    def prepare(self, turn: int, premise: Premise) -> None:
        """Compute the reply silently."""
        self._l.emit("branch_opened", turn=turn, text=premise.text)
        self._begin(turn, premise).prepared = True

    def answer(self, turn: int, premise: Premise) -> None:
        """Compute the reply and speak it."""
        self._l.emit("reply_opened", turn=turn, text=premise.text)
        self._begin(turn, premise).committed.set()

    def say(self, turn: int, text: str) -> None:
        """Speak a text that is no reply."""
        assert self.reply is None
        self._l.emit("say_started", turn=turn, text=text)
        self.reply = Reply(self._voice, self, turn, None, 0)
        self._task = self._l.start(self.reply.say(text))

    async def commit(self) -> None:
        """The prepared reply becomes the reply."""
        reply = self.reply
        assert reply is not None and reply.premise is not None
        if reply.failed:  # and the machine has not been told yet
            await self.give_up(reply)
            self.answer(reply.turn, reply.premise)
            return
        self._l.emit("reply_committed", turn=reply.turn, tokens=reply.tokens, generated=reply.generated)
        reply.committed.set()

    async def discard(self, reason: str) -> None:
        """Throw the prepared reply away."""
        began_s = self._voice.clock.now()
        reply = await self._stop()
        if reply is None:
            return
        await reply.withdraw()
        took_ms = (self._voice.clock.now() - began_s) * 1000
        self._l.emit("branch_discarded", turn=reply.turn, reason=reason, **_cost(reply), discard_ms=took_ms)

    async def withdraw(self, reason: str) -> None:
        """A confirmed reply of which nothing was heard: as if it had never been."""
        reply = await self._stop()
        if reply is None:
            return
        self._voice.sink.flush(self._voice.clock.now())
        await reply.withdraw()
        if reply.premise is None:
            self._l.emit("say_withdrawn", turn=reply.turn, reason=reason)
        else:
            self._l.emit("reply_withdrawn", turn=reply.turn, reason=reason, prepared=reply.prepared, **_cost(reply))

    async def interrupt(self, reason: str) -> None:
        """Be silent now. What was heard stays; a reply of which no sample was played never was."""
        reply = self.reply
        if reply is None:
            return
        if not reply.playback.started:
            await self.withdraw(reason)
            return
        reply.playback.cut()
        await self._cut_short(reply, reason)

    async def revise(self, reason: str) -> bool:
        """Be silent now; a reply of which no whole word was heard never was. Returns whether one was."""
        reply = self.reply
        if reply is None:  # it has just ended
            return True
        reply.playback.cut()
        if reply.playback.heard:
            await self._cut_short(reply, reason)
            return True
        await self.withdraw(reason)
        return False

    def hold(self, reason: str) -> None:
        """Be silent now; the reply may go on."""
        if self.reply is not None:
            playback = self.reply.playback
            playback.hold()
            fields = {"heard": playback.heard, "played_s": playback.played_s}
            self._l.emit("reply_held", turn=self.reply.turn, reason=reason, **fields)

    def resume(self, reason: str) -> None:
        """Go on where the hold cut it."""
        if self.reply is not None:
            self._l.emit("reply_resumed", turn=self.reply.turn, reason=reason, rest=self.reply.playback.rest)
            self.reply.playback.resume()

    async def give_up(self, reply: Reply) -> None:
        """A reply that failed: what was heard of it is history, the rest never was."""
        reply.playback.cut()
        if reply.playback.started:
            self._l.served(reply, reply.playback.heard)
            await self._stop()
            await reply.stop()
        else:
            await self._stop()
            await reply.withdraw()

    def _begin(self, turn: int, premise: Premise) -> Reply:
        assert self.reply is None
        self.reply = reply = Reply(self._voice, self, turn, premise, seed_for(self._seed, turn))
        self._task = self._l.start(reply.run(self._history.prompt(premise.history, premise.text)))
        return reply

    async def _cut_short(self, reply: Reply, reason: str) -> None:
        fields = {"heard": reply.playback.heard, "played_s": reply.playback.played_s}
        self._l.emit("reply_interrupted", turn=reply.turn, reason=reason, **fields)
        self._l.served(reply, reply.playback.heard)
        await self._stop()
        await reply.stop()

    async def _stop(self) -> Reply | None:
        reply, task = self.reply, self._task
        self.reply = self._task = None
        if reply is not None and task is not None:
            task.cancel()
            await asyncio.wait({task})
        return reply

    # ------------------------------------------------------------ a reply's progress (ReplyObserver)

    def first_token(self, reply: Reply) -> None:
        self._l.emit("first_token", turn=reply.turn)

    def progressed(self, reply: Reply) -> None:
        if reply.committed.is_set():
            self._l.tell(m.ReplyProgressed(self._voice.clock.now()))

    def phrase_ready(self, reply: Reply, phrase: PhraseSynthesized) -> None:
        self._l.emit("phrase_ready", turn=reply.turn, text=phrase.text, s=len(phrase.samples) / phrase.sample_rate)

    def depth_chosen(self, reply: Reply, plan: DepthPlan) -> None:
        fields = {"exit": plan.exit_layer, "draft_len": plan.draft_len, "reason": plan.reason}
        self._l.emit("depth_chosen", turn=reply.turn, **fields)

    def generated(self, reply: Reply) -> None:
        fields = {"text": reply.text.strip(), "tokens": reply.tokens, "approximate": reply.approximate}
        self._l.emit("reply_generated", turn=reply.turn, **fields)

    def playback_started(self, reply: Reply) -> None:
        self._l.emit("playback_started", turn=reply.turn)
        self._l.sounded()

    def playback_finished(self, reply: Reply) -> None:
        if reply is not self.reply:
            return
        if not reply.playback.started:  # an empty reply
            self._l.sounded()
        self.reply = self._task = None
        reply.playback.cut()
        # A loudspeaker that went away has played less than it was given.
        heard = reply.text.strip() if reply.playback.complete else reply.playback.heard
        self._l.emit("playback_finished", turn=reply.turn, text=heard, tokens=reply.tokens)
        self._l.served(reply, heard)
        self._l.post(Finished())

    def failed(self, reply: Reply, error: PadsError) -> None:
        if reply is not self.reply:
            return
        self._l.emit("reply_failed", turn=reply.turn, error=str(error), prepared=reply.prepared, **_cost(reply))
        self._l.post(Failed(reply))


def seed_for(session_seed: int, turn: int) -> int:
    """The seed of one turn's reply: the same whether and however often the reply was prepared."""
    return int(np.random.SeedSequence([session_seed, turn]).generate_state(1, np.uint64)[0])


def _cost(reply: Reply) -> dict[str, float]:
    return {"tokens": reply.tokens, "cpu_ms": reply.cpu_s * 1000}
