"""A talk that goes on for days: does anything grow? Fakes for the models, everything else as it is.

A user asks, is answered, and asks again, thousands of times under the virtual clock; every few turns there is a
pause that comes to nothing, a backchannel, an interruption, a text from outside. The prompts are built by the real
prompt builder, whose context overflows again and again. Then half an hour of silence. Resident memory, asyncio's tasks
and open files are read at tenths of the talk; what the first tenth brings (caches that fill) is not counted as growth.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from pads_runtime import clock as clocks
from pads_runtime.audio.sink import WavSink
from pads_runtime.clock import Clock, LoopClock
from pads_runtime.config import PadsSettings, validate
from pads_runtime.crew import Stages
from pads_runtime.engine.prompt import PromptBuilder
from pads_runtime.engine.template import ChatTemplate
from pads_runtime.frames import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Message,
    Samples,
    TraceEvent,
    TranscriptUpdated,
    WorkCounts,
)
from pads_runtime.session import Session
from pads_runtime.testing import (
    COSTS,
    FixedPredictor,
    KeywordActs,
    LoudnessActivity,
    SentenceSplitter,
    ToneVoice,
    WordEngine,
)
from pads_runtime.trace import Trace

from .report import Measurement, measurement

KEEP_EVENTS = 1000
POINTS = 10
TURN_S = 3.6
_SPEECH_S, _WORD_S = 0.8, 0.2
_QUIET_S = 0.05
"""Before a turn begins; readings wait until nothing is under way."""
_TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
_SETTINGS = {
    "engine": {"n_ctx": 256, "max_reply_tokens": 16},
    "turn": {"confirm_min_s": 0.4},
    "gate": {"mode": "always"},
    "vad": {"preroll_s": 0.1},
}


@dataclass
class Vitals:
    """What was read at each point of the talk, oldest first."""

    rss_mb: list[float] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def read(self) -> None:
        """Take one reading."""
        gc.collect()
        process = psutil.Process()
        self.rss_mb.append(process.memory_info().rss / 1e6)
        self.tasks.append(len(asyncio.all_tasks()))
        self.files.append(process.num_fds())

    def growth_percent(self, since: int = 0) -> float:
        """Of resident memory, from reading ``since`` (0: the end of the first tenth) to the highest after it."""
        return (max(self.rss_mb[since + 1 :]) / self.rss_mb[since] - 1.0) * 100.0


@dataclass
class LongTalk:
    """What came of it."""

    vitals: Vitals
    events: dict[str, int] = field(default_factory=dict)
    """How often each thing happened."""
    overflows: int = 0
    """How often the prompt lost its oldest turns."""
    largest_prompt: int = 0
    history_rows: int = 0
    virtual_s: float = 0.0

    def count(self, event: TraceEvent) -> None:
        """A listener of the trace."""
        self.events[event.kind] = self.events.get(event.kind, 0) + 1


class _User:
    """Asks every ``TURN_S`` what it asked before, with the turn's number; see ``_says``. Then is silent."""

    def __init__(self, turns: int, silence_s: float, clock: Clock) -> None:
        self._turns, self._silence_s, self._clock = turns, silence_s, clock

    async def frames(self) -> AsyncIterator[AudioFrame]:
        """Loud where it speaks, zero elsewhere."""
        loud, quiet = np.full(FRAME_SAMPLES, 1000, np.int16), np.zeros(FRAME_SAMPLES, np.int16)
        for index in range(round((self._turns * TURN_S + self._silence_s) / FRAME_S)):
            end_s = (index + 1) * FRAME_S
            await self._clock.sleep_until(end_s)
            yield AudioFrame(loud if self._speaks(end_s - FRAME_S / 2) else quiet, index, end_s)

    def _speaks(self, t_s: float) -> bool:
        turn, at_s = divmod(t_s, TURN_S)
        if turn >= self._turns:
            return False
        return at_s < _SPEECH_S or any(start_s <= at_s < start_s + length_s for start_s, length_s in _more(int(turn)))


def _more(turn: int) -> tuple[tuple[float, float], ...]:
    """What else the user does in a turn: (start, length) of sound."""
    match turn % 10:
        case 3:
            return ((1.1, 0.4),)  # goes on after a pause: the prepared reply is thrown away
        case 5:
            return ((1.6, 0.2),)  # "mhm" over the reply
        case 7:
            return ((1.6, 1.0),)  # interrupts
        case 9:
            return ((1.6, 0.9),)  # a noise
        case _:
            return ()


class _Recognizer:
    """Reads what the user says where the turn began."""

    def __init__(self) -> None:
        self._start_s = 0.0

    def begin(self, start_s: float) -> None:
        self._start_s = start_s

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        turn, at_s = divmod(self._start_s + 0.15, TURN_S)  # the preroll belongs to the speech after it
        words = f"what about number {int(turn)} then".split()
        if at_s >= _SPEECH_S:
            words = {5: ["mhm"], 7: ["no", "wait", "stop", "that"]}.get(int(turn) % 10, [])
        heard = words[: max(0, round((audio_end_s - self._start_s) / _WORD_S))]
        return TranscriptUpdated(audio_end_s, " ".join(heard), "", final, audio_end_s)


class _Vocabulary:
    """A word is a token."""

    bos = None

    @property
    def specials(self) -> dict[str, int]:
        """The template's marks."""
        return {f"<|{name}|>": i for i, name in enumerate(("system", "user", "assistant", "end"))}

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Stable numbers for the words of ``text``."""
        return tuple(10 + zlib.crc32(word.encode()) for word in text.split())


class _Engine(WordEngine):
    """Builds its prompts as the real engine does, within a context that is soon full."""

    def __init__(self, settings: PadsSettings, talk: LongTalk) -> None:
        super().__init__(reply_words=8)
        capacity = settings.engine.n_ctx - settings.engine.max_reply_tokens
        self._builder = PromptBuilder(_Vocabulary(), ChatTemplate(_TEMPLATE, "", ""), capacity)
        self._talk, self._length = talk, 0

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        length = len(self._builder.full(messages))
        self._talk.overflows += length < self._length
        self._length = length
        self._talk.largest_prompt = max(self._talk.largest_prompt, length)
        return super().open(messages, seed)


def hold(turns: int, silence_s: float, say: Callable[[str], None] = lambda line: None) -> LongTalk:
    """Hold the talk; takes some 20 to 100 ms of wall time a turn."""
    talk = LongTalk(Vitals())
    settings = validate(PadsSettings, _SETTINGS)

    async def main() -> None:
        clock = LoopClock()
        with tempfile.TemporaryDirectory() as folder, Trace(Path(folder) / "trace.jsonl", KEEP_EVENTS) as trace:
            trace.listen(talk.count)
            session = Session(_stages(turns, silence_s, settings, talk, clock), settings, COSTS, clock, trace)
            beside = asyncio.create_task(_watch(session, clock, turns, silence_s, talk, say))
            await session.run()
            await beside
            talk.history_rows = len(session.history)
            talk.virtual_s = clock.now()

    clocks.run(main, virtual=True)
    return talk


def _stages(turns: int, silence_s: float, settings: PadsSettings, talk: LongTalk, clock: Clock) -> Stages:
    return Stages(
        source=_User(turns, silence_s, clock),
        sink=WavSink(SAMPLE_RATE, keep_s=10.0),
        voice_activity=LoudnessActivity(),
        predictor=FixedPredictor(0.9),
        recognizer=_Recognizer(),
        acts=KeywordActs(),
        engine=_Engine(settings, talk),
        synthesizer=ToneVoice(),
        splitter=SentenceSplitter,
    )


async def _watch(
    session: Session, clock: Clock, turns: int, silence_s: float, talk: LongTalk, say: Callable[[str], None]
) -> None:
    """Reads at each tenth of the turns and of the silence; has a text spoken at each."""
    talk_s = turns * TURN_S
    moments_s = [talk_s * i / POINTS - _QUIET_S for i in range(1, POINTS + 1)]
    moments_s += [talk_s + silence_s * i / POINTS for i in range(1, POINTS)] if silence_s else []
    for moment_s in moments_s:
        await clock.sleep_until(moment_s)
        while not session.quiet:
            await clock.sleep_until(clock.now() + FRAME_S)
        talk.vitals.read()
        say(f"{clock.now() / 3600:.2f} h: {talk.vitals.rss_mb[-1]:.1f} MB")
        if moment_s < talk_s - TURN_S:
            session.say("Tea is ready.")


def measure(turns: int, silence_s: float, say: Callable[[str], None]) -> list[Measurement]:
    """The figures of the report."""
    talk = hold(turns, silence_s, say)
    vitals = talk.vitals
    note = f"{turns} turns and {silence_s / 60:.0f} min of silence, {talk.virtual_s / 3600:.1f} h of talk"
    happened = ("reply_served", "branch_discarded", "reply_interrupted", "reply_resumed", "speech_ignored")
    return [
        measurement("rss_growth", [vitals.growth_percent()], "%", limit=1.0, note=note),
        measurement("rss", vitals.rss_mb, "MB"),
        measurement("tasks_range", [max(vitals.tasks) - min(vitals.tasks)], "tasks", note="largest less smallest"),
        measurement("files_range", [max(vitals.files) - min(vitals.files)], "files", note="largest less smallest"),
        measurement("prompt_overflows", [talk.overflows], "times", note="the oldest turns left the prompt"),
        measurement("history_rows", [talk.history_rows], "rows", note="kept at the end"),
        *(measurement(kind, [talk.events.get(kind, 0)], "times") for kind in happened),
    ]
