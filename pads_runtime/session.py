"""One conversation: the only place that knows all stages. Tasks, channels, workers, and their orderly end.

::

    pump ──frames──> listen ──events──> conduct ──actions──> Mouth ──> Reply (engine, synthesiser, sink)
                       │ spawns predictions and readings        │ posts progress back as events
                       └────────────────────────────────────────┘

``conduct`` alone changes the conversation: it feeds events and deadlines to the turn machine and performs what the
machine says. Everything that happens is in the trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np

from .aio import Channel, Overflow
from .clock import Clock, VirtualLoop
from .config import Costs, PadsSettings
from .crew import Crew, Stages
from .ears import Ears
from .frames import (
    ActClassified,
    AudioFrame,
    Message,
    Role,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from .gate import events as m
from .gate.machine import TurnMachine
from .history import History, settings_key
from .mouth import Failed, Finished, Mouth
from .reader import Reader
from .reply import Reply
from .steering import Steering
from .trace import Trace
from .turn.endpointing import confirm_after_s

INBOX = 256
TAIL_S = 30.0
"""Silence after the source's end within which the last turn must be answered."""
EPSILON_S = 1e-9
LAG_PERIOD_S = 0.01
LAGS_KEPT = 100_000
"""How many of the loop's delays are remembered: those of the last quarter of an hour."""
ENGINE_ENDS_WITHIN_S = 0.4
"""How long the end waits for an aborted engine call; an engine that is still at work then is left to the process."""


class Session(Steering):
    """``await Session(...).run()`` holds one conversation from the source's first frame to the last reply.

    It can be told things meanwhile: see ``Controls``.
    """

    def __init__(
        self,
        stages: Stages,
        settings: PadsSettings,
        costs: Costs,
        clock: Clock,
        trace: Trace,
        on_reply: Callable[[int, str, str], None] | None = None,
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        """``on_reply(turn, user_text, agent_text)`` is called once per served reply, never for a discarded one;
        ``on_idle()`` whenever the agent has nothing more to say."""
        super().__init__(settings, clock, trace, INBOX)
        self._stages, self._costs = stages, costs
        self._on_reply, self._on_idle = on_reply, on_idle
        self._history = History(settings.engine.system_prompt, settings.engine.n_ctx)
        self._machine = TurnMachine(settings, settings_key(settings), lambda p: confirm_after_s(p, settings.turn))
        self._frames: Channel[AudioFrame] = Channel(settings.audio.queue_frames, Overflow.DROP_OLDEST)
        self._open_jobs = 0
        self._lags_s = np.zeros(LAGS_KEPT, np.float32)
        self._lags = 0

    @property
    def frames_dropped(self) -> int:
        """Frames that came while too many others waited."""
        return self._frames.dropped

    @property
    def lags_s(self) -> Sequence[float]:
        """The latest delays of the event loop, in no order; empty under virtual time."""
        lags_s: list[float] = self._lags_s[: min(self._lags, LAGS_KEPT)].tolist()
        return lags_s

    @property
    def history(self) -> tuple[Message, ...]:
        """The latest rows: what the user said and what the agent was heard to say."""
        return self._history.rows

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Hold the conversation. On any way out the trace is complete, workers stopped and the sink closed."""
        self._crew = Crew(self._stages, self._settings, self._costs, self._clock)
        self._reader = Reader(self._crew, self._history, self.emit)
        try:
            self.emit("session_started", settings=self._machine.settings_key)
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._converse(group)
        except BaseExceptionGroup as errors:
            self.emit("session_failed", error=_reason(errors))
            raise _plain_error(errors) from None
        finally:
            self._shut_down()

    async def _converse(self, group: asyncio.TaskGroup) -> None:
        self._ears = Ears(self._crew.hearing(), self._spawn, self._inbox.put, lambda: self.muted)
        self._mouth = Mouth(self._crew.voice(), self._history, self._settings.engine.seed, self)
        pump = group.create_task(self._ears.pump(self._frames, lambda: self.quiet, TAIL_S))
        listen = group.create_task(self._ears.listen(self._frames))
        conduct = group.create_task(self._conduct())
        lag = group.create_task(self._measure_lag())
        quitting = group.create_task(self._quit_asked.wait())
        await asyncio.wait({pump, quitting}, return_when=asyncio.FIRST_COMPLETED)
        if not pump.done():
            pump.cancel()
            await asyncio.wait({pump})
            await self._frames.close()
        quitting.cancel()
        await listen
        if self._quit_asked.is_set():
            await self._inbox.put(m.QuitAsked(self._clock.now()))
        await self._inbox.put(None)
        await conduct
        lag.cancel()

    @property
    def quiet(self) -> bool:
        """Nobody speaks, and nothing is under way or waits to be said."""
        return self._machine.quiet and self._open_jobs == 0 and self._inbox.empty()

    def _shut_down(self) -> None:
        """All tasks have ended with the group; what may still run is native code in the workers' threads."""
        now_s = self._clock.now()
        self._stages.engine.abort()
        self._crew.stop()
        self._stages.sink.close(now_s)
        if self._crew.engine.stop(timeout_s=ENGINE_ENDS_WITHIN_S):
            self._stages.engine.close()  # its thread has ended: nothing uses the context any more
        self._trace.emit("session_ended", now_s, frames_dropped=self.frames_dropped)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self.start(work)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` as one of the session's tasks; it ends with the session."""
        task = self._group.create_task(work)
        self._open_jobs += 1
        task.add_done_callback(self._job_ended)
        return task

    def _job_ended(self, task: asyncio.Task[Any]) -> None:
        self._open_jobs -= 1

    async def _measure_lag(self) -> None:
        """How late the event loop wakes a sleeper; only wall time can tell."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            return
        while True:
            due_s = loop.time() + LAG_PERIOD_S
            await asyncio.sleep(LAG_PERIOD_S)
            self._lags_s[self._lags % LAGS_KEPT] = max(0.0, loop.time() - due_s)
            self._lags += 1

    # ------------------------------------------------------------ events to actions

    async def _conduct(self) -> None:
        ended = False
        while not (ended and self._machine.state in (TurnState.IDLE, TurnState.LISTENING)):
            event = await self._next()
            if event is _END:
                ended = True
                continue
            before, turn = self._machine.state, self._machine.turn
            await self._perform_all(await self._judge(event))
            if self._machine.turn != turn:
                self._reader.forget()
            if isinstance(event, SpeechStarted | SpeechResumed):
                self._ears.keep_turn()
            if isinstance(event, TranscriptUpdated | m.WordsGiven):
                self._use_transcript(event)
            if self._machine.state is not before:
                await self._on_state(before)
            self._ears.over_reply = self._machine.overlapped

    async def _judge(self, event: Any) -> list[m.Action]:
        self._machine.lag_s = self._ears.lag_s
        match event:
            case _Deadline():
                return self._machine.tick(self._clock.now())
            case Finished():
                if self._mouth.reply is not None:
                    return []  # another one was begun meanwhile
                return self._machine.on(m.PlaybackFinished(self._clock.now()))
            case Failed():
                if event.reply is not self._mouth.reply:
                    return []  # it was discarded or replaced meanwhile
                await self._mouth.give_up(event.reply)
                return self._machine.on(m.ReplyFailed(self._clock.now()))
            case _:
                self._record(event)
                return self._machine.on(event)

    async def _next(self) -> Any:
        while True:
            due_s = self._due_s()
            wait_s = None if due_s is None else max(0.0, due_s - self._clock.now())
            try:
                async with asyncio.timeout(wait_s):
                    event = await self._inbox.get()
            except TimeoutError:
                due_s = self._due_s()
                if due_s is not None and self._clock.now() < due_s - EPSILON_S:
                    continue  # the ears fell behind meanwhile
                return _Deadline()
            return _END if event is None else event

    def _due_s(self) -> float | None:
        self._machine.lag_s = self._ears.lag_s
        return self._machine.deadline_s()

    async def _on_state(self, before: TurnState) -> None:
        state = self._machine.state
        self.emit("state_changed", turn=self._machine.turn, before=before.value, state=state.value)
        if state is TurnState.IDLE:
            self._ears.end_turn()
            await self._ears.next_speech_starts()  # sound that went on through the turn is a new turn's
            if self._on_idle is not None:
                self._on_idle()

    def _record(self, event: m.Event) -> None:
        match event:
            case SpeechStarted():
                self.emit("speech_started", onset_s=event.onset_s)
            case SpeechResumed():
                self.emit("speech_resumed", onset_s=event.onset_s)
            case SpeechPaused():
                self.emit("speech_paused", last_voiced_s=event.last_voiced_s)
            case TurnEndPredicted():
                compared = {} if event.p_now is None else {"p_now": event.p_now}
                self.emit("turn_end_predicted", p_end=event.p_end, audio_end_s=event.audio_end_s, **compared)
            case TranscriptUpdated():
                fields = {"stable": event.stable, "unstable": event.unstable, "final": event.final}
                self.emit("transcript_updated", **fields, audio_end_s=event.audio_end_s)
            case m.WordsGiven():
                fields = {("stable" if event.final else "unstable"): event.text, "final": event.final}
                self.emit("transcript_updated", **{"stable": "", "unstable": ""} | fields, audio_end_s=event.t_s)
            case ActClassified():
                self.emit("act_classified", p_deep=event.p_deep, text=event.text)

    def _use_transcript(self, event: TranscriptUpdated | m.WordsGiven) -> None:
        if self._machine.state not in (TurnState.LISTENING, TurnState.PAUSED):
            return
        if self._reader.unjudged(event.text):
            self._spawn(self._judge_words(event.text))
        stable = event.stable if isinstance(event, TranscriptUpdated) else event.text if event.final else ""
        if stable and self._mouth.reply is None and self._reader.may_follow():
            self._spawn(self._reader.follow(stable))

    async def _judge_words(self, text: str) -> None:
        p_deep = await self._reader.p_deep(text)
        await self._inbox.put(ActClassified(self._clock.now(), p_deep, text))

    # ------------------------------------------------------------ actions

    async def _perform_all(self, actions: Sequence[m.Action]) -> None:
        for action in actions:
            await self._perform(action)

    async def _perform(self, action: m.Action) -> None:
        match action:
            case m.Prepare():
                self._mouth.prepare(action.turn, action.premise)
            case m.Discard():
                await self._mouth.discard(action.reason)
            case m.Confirm():
                self.emit("turn_confirmed", turn=action.turn, last_voiced_s=action.last_voiced_s)
                await self._ears.confirm()
            case m.Commit():
                await self._mouth.commit()
            case m.Answer():
                self._mouth.answer(action.turn, action.premise)
            case m.Say():
                self._mouth.say(action.turn, action.text)
            case m.Interrupt():
                await self._mouth.interrupt(action.reason)
            case m.Hold():
                self._mouth.hold(action.reason)
            case m.Resume():
                self._mouth.resume(action.reason)
            case m.Revise():
                heard = await self._mouth.revise(action.reason)
                await self._perform_all(self._machine.on(m.ReplyCut(self._clock.now(), heard)))
            case m.Reopen():
                await self._mouth.withdraw("the turn was not over")
                self.emit("turn_reopened", turn=action.turn)
            case m.Close():
                self.emit("turn_closed", turn=action.turn, reason=action.reason)
                if action.text:
                    self._remember(Message(Role.USER, action.text))
            case m.Ignore():
                self.emit("speech_ignored", turn=action.turn, reason=action.reason)
                self._ears.end_turn()
                await self._ears.next_speech_starts()

    # ------------------------------------------------------------ told by the mouth

    def tell(self, event: m.Event) -> None:
        """The machine hears ``event`` before any that waits; only for those that ask for no action."""
        self._machine.on(event)

    def post(self, event: Failed | Finished) -> None:
        """``event`` waits in line."""
        self._inbox.put_nowait(event)

    def sounded(self) -> None:
        """The reply is heard, so the turn is over."""
        self._ears.end_turn()
        self.tell(m.PlaybackStarted(self._clock.now()))

    def served(self, reply: Reply, heard: str) -> None:
        """Write the turn into the history: one row of the user's, one of the agent's if anything was heard."""
        self.last_said = heard if reply.premise is not None and not reply.generated else reply.text.strip()
        if reply.premise is not None:
            self._remember(Message(Role.USER, reply.premise.text))
        if heard:
            self._remember(Message(Role.AGENT, heard))
        if reply.premise is None:
            self.emit("say_finished", turn=reply.turn, text=reply.text, heard=heard)
            return
        fields = {"user": reply.premise.text, "agent": heard, "approximate": reply.approximate}
        self.emit("reply_served", turn=reply.turn, **fields)
        if self._on_reply is not None:
            self._on_reply(reply.turn, reply.premise.text, heard)

    def _remember(self, row: Message) -> None:
        self._history.add(row)
        self._machine.history = self._history.rows


class _Deadline:
    """The machine's deadline has come."""


_END = object()


def _reason(errors: BaseExceptionGroup[BaseException]) -> str:
    error = _plain_error(errors)
    return f"{type(error).__name__}: {error}"


def _plain_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
