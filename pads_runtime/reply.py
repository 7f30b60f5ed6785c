"""One reply on its way: engine steps become phrases, phrases become sound, sound waits for the commit.

The same code makes a prepared reply and a plain one; a plain one is committed from the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .aio import Channel, ChannelClosed, Overflow, Worker
from .audio.protocol import AudioSink
from .clock import Clock
from .config import Costs
from .engine.protocol import ReplyEngine
from .errors import EngineAborted, EngineDead, PadsError
from .frames import DepthPlan, Message, PhraseSynthesized, WorkCounts
from .gate.premise import Premise
from .playback import Playback
from .speech.protocol import Synthesizer

PHRASES_AHEAD = 2
"""Phrases that may wait for the synthesiser; beyond it the engine waits, which bounds what a branch can waste."""


class Splitter(Protocol):
    """Cuts streamed text into speakable phrases."""

    def push(self, text: str) -> list[str]: ...

    def flush(self) -> list[str]: ...


@dataclass(frozen=True)
class Voice:
    """Everything a reply needs to be computed and heard."""

    clock: Clock
    costs: Costs
    engine: ReplyEngine
    engine_worker: Worker
    synthesizer: Synthesizer
    synthesizer_worker: Worker
    splitter: Callable[[], Splitter]
    sink: AudioSink
    ahead: bool = True
    """Whether phrases are synthesised before the reply is committed."""


class ReplyObserver(Protocol):
    """Hears about a reply's progress, on the event loop."""

    def first_token(self, reply: Reply) -> None: ...

    def progressed(self, reply: Reply) -> None: ...

    def depth_chosen(self, reply: Reply, plan: DepthPlan) -> None: ...

    def phrase_ready(self, reply: Reply, phrase: PhraseSynthesized) -> None: ...

    def generated(self, reply: Reply) -> None: ...

    def playback_started(self, reply: Reply) -> None: ...

    def playback_finished(self, reply: Reply) -> None: ...

    def failed(self, reply: Reply, error: PadsError) -> None: ...


class Reply:
    """A reply to ``premise``. ``run`` computes and plays it; cancel ``run`` and then ``withdraw`` to undo it.

    Without a premise it is a text that someone wants spoken: ``say`` plays it, and the engine has no part in it.
    """

    def __init__(self, voice: Voice, observer: ReplyObserver, turn: int, premise: Premise | None, seed: int) -> None:
        self.turn, self.premise, self.seed = turn, premise, seed
        self.text = ""
        self.tokens = 0
        self.counts = WorkCounts()
        self.cpu_s = 0.0
        self.approximate = False
        """Whether a word of it was not the whole model's."""
        self.prepared = False
        """Begun in a pause, before the turn was confirmed."""
        self.generated = False
        self.failed = False
        self.committed = asyncio.Event()
        self.playback = Playback(voice.sink, voice.clock)
        self._voice, self._observer = voice, observer
        self._mark: int | None = None
        self._plan: tuple[int | None, int] | None = None

    async def run(self, messages: Sequence[Message]) -> None:
        """Compute the reply to ``messages``; speak it once ``committed`` is set. Reports failures to the observer."""
        await self._report(lambda phrases: self._generate(messages, phrases))

    async def say(self, text: str) -> None:
        """Speak ``text`` as it stands."""
        self.committed.set()
        await self._report(lambda phrases: self._recite(text, phrases))

    async def withdraw(self) -> None:
        """After ``run`` was cancelled: take the engine back to where this reply began."""
        if self.premise is None:
            return
        worker, engine = self._voice.engine_worker, self._voice.engine
        mark = self._mark if self._mark is not None else await worker.run(engine.mark)
        await worker.run(engine.rollback, mark, cost=self._voice.costs.rollback_s)

    async def stop(self) -> None:
        """After ``run`` was cancelled: the reply stays in the cache as far as it got (its played part is history)."""
        self._mark = None
        await self.withdraw()

    async def _report(self, source: Callable[[Channel[str]], Coroutine[Any, Any, None]]) -> None:
        phrases: Channel[str] = Channel(PHRASES_AHEAD, Overflow.WAIT)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(source(phrases))
                group.create_task(self._speak(phrases))
        except* EngineDead:
            raise
        except* PadsError as errors:
            self.failed = True
            self._observer.failed(self, _first(errors))
        else:
            self._observer.playback_finished(self)

    async def _recite(self, text: str, phrases: Channel[str]) -> None:
        splitter = self._voice.splitter()
        self.text = text
        for phrase in [*splitter.push(text), *splitter.flush()]:
            await phrases.put(phrase)
        await phrases.close()

    async def _generate(self, messages: Sequence[Message], phrases: Channel[str]) -> None:
        engine, splitter = self._voice.engine, self._voice.splitter()
        self._mark = await self._voice.engine_worker.run(engine.mark)
        await self._work(engine.open, lambda counts: counts, messages, self.seed)
        done = False
        while not done:
            step = await self._work(engine.step, lambda step: step.counts)
            if step.tokens and not self.tokens:
                self._observer.first_token(self)
            self.tokens += len(step.tokens)
            self.text += step.text
            self.approximate = self.approximate or step.approximate
            self._note_depth(step.plan)
            self._observer.progressed(self)
            for phrase in splitter.push(step.text):
                await phrases.put(phrase)
            done = step.done
        self.generated = True
        self._observer.generated(self)
        for phrase in splitter.flush():
            await phrases.put(phrase)
        await phrases.close()

    def _note_depth(self, plan: DepthPlan | None) -> None:
        if plan is not None and self._plan != (plan.exit_layer, plan.draft_len):
            self._plan = (plan.exit_layer, plan.draft_len)
            self._observer.depth_chosen(self, plan)

    async def _work(self, job: Callable[..., Any], counts_of: Callable[[Any], WorkCounts], *args: Any) -> Any:
        worker, costs = self._voice.engine_worker, self._voice.costs
        before_s = worker.busy_s
        result = await worker.run(
            job, *args, cost=lambda r: engine_cost_s(counts_of(r), costs), on_cancel=self._voice.engine.abort
        )
        self.cpu_s += worker.busy_s - before_s
        self.counts += counts_of(result)
        return result

    async def _speak(self, phrases: Channel[str]) -> None:
        voice = self._voice
        while True:
            try:
                text = await phrases.get()
            except ChannelClosed:
                break
            if not voice.ahead:
                await self.committed.wait()
            cost_s = voice.costs.synth_base_s + voice.costs.synth_per_char_s * len(text)
            before_s = voice.synthesizer_worker.busy_s
            phrase = await voice.synthesizer_worker.run(voice.synthesizer.synthesize, text, cost=cost_s)
            self.cpu_s += voice.synthesizer_worker.busy_s - before_s
            self._observer.phrase_ready(self, phrase)
            await self.committed.wait()
            if not self.playback.started:
                self._observer.playback_started(self)
            self.playback.write(phrase)
        await self.committed.wait()
        await self.playback.finished()


def engine_cost_s(counts: WorkCounts, costs: Costs) -> float:
    """Declared time of one engine call. Half a prefill costs what a shallow step is of a full one."""
    share = min(1.0, costs.shallow_step_s / costs.decode_step_s) if costs.decode_step_s else 1.0
    rows = counts.prefilled + counts.followed * share + counts.deepened * (1.0 - share)
    prefill_s = costs.prefill_base_s + rows * costs.prefill_token_s if rows else 0.0
    full_s = (counts.decode_steps - counts.deep_steps) * costs.decode_step_s
    return prefill_s + full_s + counts.shallow_steps * costs.shallow_step_s + counts.verified_rows * costs.deep_row_s


def _first(errors: BaseExceptionGroup[PadsError]) -> PadsError:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, PadsError)
    return error if not isinstance(error, EngineAborted) else EngineAborted("the reply was stopped from outside")
