"""One conversation: the only place that knows all stages. Tasks, channels, workers, and their orderly end.

::

    pump ──frames──> listen ──events──> conduct ──actions──> Reply (engine, synthesiser, sink)
                       │ spawns predictions and readings        │ posts progress back as events
                       └────────────────────────────────────────┘

``conduct`` alone changes the conversation: it feeds events and deadlines to the turn machine and performs what the
machine says. Everything that happens is in the trace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .acts.protocol import ActClassifier
from .aio import Channel, Overflow, Worker
from .asr.protocol import Recognizer
from .audio.protocol import AudioSink, AudioSource
from .clock import Clock, VirtualLoop
from .config import Costs, PadsSettings
from .ears import Ears, Hearing
from .engine.protocol import ReplyEngine
from .errors import EngineAborted, EngineDead, EngineError, PadsError
from .frames import (
    ActClassified,
    AudioFrame,
    DepthPlan,
    Message,
    PhraseSynthesized,
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
from .gate.premise import Premise, canonical, normalise
from .reply import Reply, Splitter, Voice, engine_cost_s
from .speech.protocol import Synthesizer
from .trace import Trace
from .turn.endpointing import confirm_after_s
from .turn.protocol import TurnEndPredictor, VoiceActivity

INBOX = 256
TAIL_S = 30.0
"""Silence after the source's end within which the last turn must be answered."""
LAG_PERIOD_S = 0.01
ENGINE_ENDS_WITHIN_S = 0.4
"""How long the end waits for an aborted engine call; an engine that is still at work then is left to the process."""


@dataclass(frozen=True)
class Stages:
    """The parts of a conversation. The session owns them: it closes the engine and the sink."""

    source: AudioSource
    sink: AudioSink
    voice_activity: VoiceActivity
    predictor: TurnEndPredictor
    recognizer: Recognizer
    acts: ActClassifier
    engine: ReplyEngine
    synthesizer: Synthesizer
    splitter: Callable[[], Splitter]


class Session:
    """``await Session(...).run()`` holds one conversation from the source's first frame to the last reply."""

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
        self._stages, self._settings, self._costs = stages, settings, costs
        self._clock, self._trace = clock, trace
        self._on_reply, self._on_idle = on_reply, on_idle
        self._history: list[Message] = []
        self._machine = TurnMachine(settings, settings_key(settings), lambda p: confirm_after_s(p, settings.turn))
        self._inbox: asyncio.Queue[m.Event | _Failed | None] = asyncio.Queue(INBOX)
        self._frames: Channel[AudioFrame] = Channel(settings.audio.queue_frames, Overflow.DROP_OLDEST)
        self._workers: dict[str, Worker] = {}
        self._reply: Reply | None = None
        self._reply_task: asyncio.Task[None] | None = None
        self._following = False
        self._classified = ""
        self._open_jobs = 0
        self.lags_s: list[float] = []

    @property
    def frames_dropped(self) -> int:
        """Frames that came while too many others waited."""
        return self._frames.dropped

    @property
    def history(self) -> tuple[Message, ...]:
        """The rows so far: what the user said and what the agent was heard to say."""
        return tuple(self._history)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Hold the conversation. On any way out the trace is complete, workers stopped and the sink closed."""
        self._workers = {name: Worker(name) for name in ("vad", "predictor", "recognizer", "acts", "engine", "speech")}
        try:
            self._trace.emit("session_started", self._clock.now(), settings=self._machine.settings_key)
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._converse(group)
        except BaseExceptionGroup as errors:
            self._trace.emit("session_failed", self._clock.now(), error=_reason(errors))
            raise _plain_error(errors) from None
        finally:
            self._shut_down()

    async def _converse(self, group: asyncio.TaskGroup) -> None:
        self._ears = Ears(self._hearing(), self._spawn, self._inbox.put)
        pump = group.create_task(self._ears.pump(self._frames, self._quiet, TAIL_S))
        listen = group.create_task(self._ears.listen(self._frames))
        conduct = group.create_task(self._conduct())
        lag = group.create_task(self._measure_lag())
        await pump
        await listen
        await self._inbox.put(None)
        await conduct
        lag.cancel()

    def _hearing(self) -> Hearing:
        s, w = self._stages, self._workers
        return Hearing(
            clock=self._clock,
            costs=self._costs,
            settings=self._settings,
            source=s.source,
            sink=s.sink,
            voice_activity=s.voice_activity,
            voice_activity_worker=w["vad"],
            predictor=s.predictor,
            predictor_worker=w["predictor"],
            recognizer=s.recognizer,
            recognizer_worker=w["recognizer"],
        )

    def _voice(self) -> Voice:
        s, w = self._stages, self._workers
        return Voice(
            clock=self._clock,
            costs=self._costs,
            engine=s.engine,
            engine_worker=w["engine"],
            synthesizer=s.synthesizer,
            synthesizer_worker=w["speech"],
            splitter=s.splitter,
            sink=s.sink,
        )

    def _quiet(self) -> bool:
        return self._machine.state is TurnState.IDLE and self._open_jobs == 0 and self._inbox.empty()

    def _shut_down(self) -> None:
        """All tasks have ended with the group; what may still run is native code in the workers' threads."""
        now_s = self._clock.now()
        self._stages.engine.abort()
        for worker in self._workers.values():
            worker.stop(timeout_s=0.0)
        self._stages.sink.close(now_s)
        if self._workers["engine"].stop(
            timeout_s=ENGINE_ENDS_WITHIN_S
        ):  # its thread has ended: nothing uses the context any more
            self._stages.engine.close()
        self._trace.emit("session_ended", now_s, frames_dropped=self.frames_dropped)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self._start(work)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
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
            self.lags_s.append(max(0.0, loop.time() - due_s))
            if len(self.lags_s) > 100_000:
                del self.lags_s[:50_000]

    # ------------------------------------------------------------ events to actions

    async def _conduct(self) -> None:
        ended = False
        while not (ended and self._machine.state in (TurnState.IDLE, TurnState.LISTENING)):
            event = await self._next()
            if event is _END:
                ended = True
                continue
            before, turn = self._machine.state, self._machine.turn
            for action in await self._judge(event):
                await self._perform(action)
            if self._machine.turn != turn:
                self._classified = ""
            if isinstance(event, SpeechStarted | SpeechResumed):
                self._ears.keep_turn()
            if isinstance(event, TranscriptUpdated):
                self._use_transcript(event)
            if self._machine.state is not before:
                await self._on_state(before)

    async def _judge(self, event: Any) -> list[m.Action]:
        match event:
            case _Deadline():
                return self._machine.tick(self._clock.now())
            case _Failed():
                if event.reply is not self._reply:
                    return []  # it was discarded or replaced meanwhile
                await self._give_up(event.reply)
                return self._machine.on(m.ReplyFailed(self._clock.now()))
            case _:
                self._record(event)
                return self._machine.on(event)

    async def _next(self) -> Any:
        deadline_s = self._machine.deadline_s()
        wait_s = None if deadline_s is None else max(0.0, deadline_s - self._clock.now())
        try:
            async with asyncio.timeout(wait_s):
                event = await self._inbox.get()
        except TimeoutError:
            return _Deadline()
        return _END if event is None else event

    async def _on_state(self, before: TurnState) -> None:
        state = self._machine.state
        self._emit("state_changed", turn=self._machine.turn, before=before.value, state=state.value)
        if state is TurnState.IDLE:
            self._ears.end_turn()
            await self._ears.next_speech_starts()  # sound that went on through the turn is a new turn's
            if self._on_idle is not None:
                self._on_idle()

    def _record(self, event: m.Event) -> None:
        match event:
            case SpeechStarted():
                self._emit("speech_started", onset_s=event.onset_s)
            case SpeechResumed():
                self._emit("speech_resumed", onset_s=event.onset_s)
            case SpeechPaused():
                self._emit("speech_paused", last_voiced_s=event.last_voiced_s)
            case TurnEndPredicted():
                self._emit("turn_end_predicted", p_end=event.p_end, audio_end_s=event.audio_end_s)
            case TranscriptUpdated():
                fields = {"stable": event.stable, "unstable": event.unstable, "final": event.final}
                self._emit("transcript_updated", **fields, audio_end_s=event.audio_end_s)
            case ActClassified():
                self._emit("act_classified", p_deep=event.p_deep, text=event.text)

    def _use_transcript(self, event: TranscriptUpdated) -> None:
        if self._machine.state not in (TurnState.LISTENING, TurnState.PAUSED):
            return
        text = normalise(event.text)
        if text and text != self._classified:
            self._classified = text
            self._spawn(self._classify(event.text))
        if self._settings.engine.follow != "none" and event.stable and self._reply is None and not self._following:
            self._following = True
            self._spawn(self._follow(canonical(event.stable)))

    async def _classify(self, text: str) -> None:
        p_deep = await self._workers["acts"].run(self._stages.acts.p_deep, text, cost=self._costs.classifier_call_s)
        await self._inbox.put(ActClassified(self._clock.now(), p_deep, text))

    async def _follow(self, text: str) -> None:
        """Prefill what is stable. It only saves time: if it cannot be done, the turn goes on without."""
        messages = [*self._prompt(self._history), Message(Role.USER, text)]
        try:
            # A branch that is cancelled while this waits in line aborts it too; what was prefilled by then is kept.
            with contextlib.suppress(EngineAborted):
                await self._workers["engine"].run(
                    self._stages.engine.follow, messages, cost=lambda counts: engine_cost_s(counts, self._costs)
                )
        except EngineDead:
            raise
        except EngineError as exc:
            self._emit("follow_failed", error=str(exc))
        finally:
            self._following = False

    def _prompt(self, history: Sequence[Message]) -> list[Message]:
        return [Message(Role.SYSTEM, self._settings.engine.system_prompt), *history]

    # ------------------------------------------------------------ actions

    async def _perform(self, action: m.Action) -> None:
        match action:
            case m.Prepare():
                self._emit("branch_opened", turn=action.turn, text=action.premise.text)
                self._begin_reply(action.turn, action.premise).prepared = True
            case m.Discard():
                await self._discard(action.reason)
            case m.Confirm():
                self._emit("turn_confirmed", turn=action.turn, last_voiced_s=action.last_voiced_s)
                await self._ears.confirm()
            case m.Commit():
                await self._commit()
            case m.Answer():
                self._answer(action.turn, action.premise)
            case m.Interrupt():
                await self._interrupt(action.reason)
            case m.Reopen():
                await self._withdraw_unheard("the turn was not over")
                self._emit("turn_reopened", turn=action.turn)
            case m.Close():
                self._emit("turn_closed", turn=action.turn, reason=action.reason)
                if action.text:
                    self._remember(Message(Role.USER, action.text))
            case m.Ignore():
                self._emit("speech_ignored", turn=action.turn, reason=action.reason)
                self._ears.end_turn()
                await self._ears.next_speech_starts()

    def _begin_reply(self, turn: int, premise: Premise) -> Reply:
        assert self._reply is None
        reply = Reply(self._voice(), self, turn, premise, seed_for(self._settings.engine.seed, turn))
        messages = [*self._prompt(premise.history), Message(Role.USER, premise.text)]
        self._reply = reply
        self._reply_task = self._start(reply.run(messages))
        return reply

    def _answer(self, turn: int, premise: Premise) -> None:
        self._emit("reply_opened", turn=turn, text=premise.text)
        self._begin_reply(turn, premise).committed.set()

    async def _commit(self) -> None:
        reply = self._reply
        assert reply is not None
        if reply.failed:  # and the machine has not been told yet
            await self._give_up(reply)
            self._answer(reply.turn, reply.premise)
            return
        self._emit("reply_committed", turn=reply.turn, tokens=reply.tokens, generated=reply.generated)
        reply.committed.set()

    async def _stop_reply(self) -> Reply | None:
        reply, task = self._reply, self._reply_task
        self._reply = self._reply_task = None
        if reply is not None and task is not None:
            task.cancel()
            await asyncio.wait({task})
        return reply

    async def _discard(self, reason: str) -> None:
        began_s = self._clock.now()
        reply = await self._stop_reply()
        if reply is None:
            return
        await reply.withdraw()
        took_ms = (self._clock.now() - began_s) * 1000
        cost = {"tokens": reply.tokens, "cpu_ms": reply.cpu_s * 1000, "discard_ms": took_ms}
        self._emit("branch_discarded", turn=reply.turn, reason=reason, **cost)

    async def _withdraw_unheard(self, reason: str) -> None:
        """A confirmed reply of which nothing was played: as if it had never been."""
        reply = await self._stop_reply()
        if reply is None:
            return
        self._stages.sink.flush(self._clock.now())
        await reply.withdraw()
        cost = {"tokens": reply.tokens, "cpu_ms": reply.cpu_s * 1000}
        self._emit("reply_withdrawn", turn=reply.turn, reason=reason, prepared=reply.prepared, **cost)

    async def _interrupt(self, reason: str) -> None:
        now_s = self._clock.now()
        reply = self._reply
        if reply is None:
            return
        if not reply.spoken:
            await self._withdraw_unheard(reason)
            return
        played = self._stages.sink.flush(now_s)
        heard = reply.played_text(played)
        fields = {"reason": reason, "heard": heard, "played_s": played / self._stages.sink.sample_rate}
        self._emit("reply_interrupted", turn=reply.turn, **fields)
        self._serve(reply, heard)
        await self._stop_reply()
        await reply.stop()

    async def _give_up(self, reply: Reply) -> None:
        """A reply that failed: what was heard of it is history, the rest never was."""
        played = self._stages.sink.flush(self._clock.now())
        if reply.spoken:
            self._serve(reply, reply.played_text(played))
            await self._stop_reply()
            await reply.stop()
        else:
            await self._stop_reply()
            await reply.withdraw()

    def _serve(self, reply: Reply, heard: str) -> None:
        """Write the turn into the history: one row of the user's, one of the agent's if anything was heard."""
        self._remember(Message(Role.USER, reply.premise.text))
        if heard:
            self._remember(Message(Role.AGENT, heard))
        fields = {"user": reply.premise.text, "agent": heard, "approximate": reply.approximate}
        self._emit("reply_served", turn=reply.turn, **fields)
        if self._on_reply is not None:
            self._on_reply(reply.turn, reply.premise.text, heard)

    def _remember(self, row: Message) -> None:
        self._history.append(row)
        self._machine.history = tuple(self._history)

    # ------------------------------------------------------------ a reply's progress (ReplyObserver)

    def first_token(self, reply: Reply) -> None:
        self._emit("first_token", turn=reply.turn)

    def progressed(self, reply: Reply) -> None:
        if reply.committed.is_set():
            self._machine.on(m.ReplyProgressed(self._clock.now()))

    def phrase_ready(self, reply: Reply, phrase: PhraseSynthesized) -> None:
        self._emit("phrase_ready", turn=reply.turn, text=phrase.text, s=len(phrase.samples) / phrase.sample_rate)

    def depth_chosen(self, reply: Reply, plan: DepthPlan) -> None:
        fields = {"exit": plan.exit_layer, "draft_len": plan.draft_len, "reason": plan.reason}
        self._emit("depth_chosen", turn=reply.turn, **fields)

    def generated(self, reply: Reply) -> None:
        fields = {"text": reply.text.strip(), "tokens": reply.tokens, "approximate": reply.approximate}
        self._emit("reply_generated", turn=reply.turn, **fields)

    def playback_started(self, reply: Reply) -> None:
        self._emit("playback_started", turn=reply.turn)
        self._cannot_be_unsaid()

    def playback_finished(self, reply: Reply) -> None:
        if reply is not self._reply:
            return
        if not reply.spoken:  # an empty reply
            self._cannot_be_unsaid()
        self._reply = self._reply_task = None
        self._stages.sink.flush(self._clock.now())
        self._emit("playback_finished", turn=reply.turn, text=reply.text.strip(), tokens=reply.tokens)
        self._serve(reply, reply.text.strip())
        self._inbox.put_nowait(m.PlaybackFinished(self._clock.now()))

    def failed(self, reply: Reply, error: PadsError) -> None:
        if reply is not self._reply:
            return
        cost = {"tokens": reply.tokens, "cpu_ms": reply.cpu_s * 1000}
        self._emit("reply_failed", turn=reply.turn, error=str(error), prepared=reply.prepared, **cost)
        self._inbox.put_nowait(_Failed(reply))

    def _cannot_be_unsaid(self) -> None:
        """From here on the turn is over. The machine hears it before any event that waits is judged."""
        self._ears.end_turn()
        self._machine.on(m.PlaybackStarted(self._clock.now()))

    def _emit(self, kind: str, **fields: Any) -> None:
        self._trace.emit(kind, self._clock.now(), **fields)


class _Deadline:
    """The machine's deadline has come."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """``reply`` has failed."""

    reply: Reply


_END = object()


def seed_for(session_seed: int, turn: int) -> int:
    """The seed of one turn's reply: the same whether and however often the reply was prepared."""
    return int(np.random.SeedSequence([session_seed, turn]).generate_state(1, np.uint64)[0])


def settings_key(settings: PadsSettings) -> str:
    """Everything about the model and the prompt that a reply depends on besides history and words."""
    e = settings.engine
    depth = f"{e.serve}|{e.sampling_rule}"
    if e.serve == "confident" or (e.sampling_rule == "leviathan" and e.temperature):
        depth += f"|{e.exit_layer}|{e.draft_len}|{e.draft_vocab}|{e.translator}|{e.exit_policy}|{e.confident_threshold}"
        depth += f"|{settings.acts.model}" if e.by_act else ""
    drawn = f"{e.temperature}|{e.top_p}|{e.top_k}|{e.seed}"
    return f"{e.model}|{e.n_ctx}|{e.max_reply_tokens}|{drawn}|{depth}|{e.system_prompt}"


def _reason(errors: BaseExceptionGroup[BaseException]) -> str:
    error = _plain_error(errors)
    return f"{type(error).__name__}: {error}"


def _plain_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
