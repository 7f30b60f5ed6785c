"""Fakes for every Protocol: small, deterministic, no models. They ship so that anyone can test a part of their own.

``Script`` says when the user speaks and which words; the fakes hear exactly that. ``converse`` runs a whole session
on the virtual clock.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import clock as clocks
from .clock import Clock, LoopClock
from .config import Costs, PadsSettings, validate
from .crew import Stages
from .errors import EngineAborted
from .frames import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Message,
    PhraseSynthesized,
    ReplyStep,
    Role,
    Samples,
    SpeechEvent,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    SpokenWord,
    TraceEvent,
    TranscriptUpdated,
    TurnEndPredicted,
    Word,
    WorkCounts,
)
from .session import Session
from .trace import Trace

COSTS = Costs(
    note="round numbers for tests",
    recognizer_base_s=0.05,
    recognizer_per_audio_s=0.01,
    predictor_call_s=0.05,
    classifier_call_s=0.001,
    prefill_base_s=0.005,
    prefill_token_s=0.002,
    decode_step_s=0.01,
    shallow_step_s=0.004,
    deep_row_s=0.003,
    rollback_s=0.001,
    synth_base_s=0.02,
    synth_per_char_s=0.001,
)


@dataclass(frozen=True)
class Script:
    """What the user does: words with their times on the session's clock, in order."""

    words: tuple[Word, ...]
    end_s: float

    @classmethod
    def of(cls, *utterances: tuple[float, str], word_s: float = 0.25, tail_s: float = 4.0) -> Script:
        """Utterances as (start, text), ``word_s`` seconds a word, and ``tail_s`` of silence after the last."""
        words: list[Word] = []
        for start_s, text in utterances:
            for i, word in enumerate(text.split()):
                words.append(Word(word, start_s + i * word_s, start_s + (i + 1) * word_s))
        return cls(tuple(words), (words[-1].end_s if words else 0.0) + tail_s)

    def speaks_at(self, t_s: float) -> bool:
        return any(word.start_s <= t_s < word.end_s for word in self.words)


class ScriptSource:
    """Frames that are loud where the script speaks and zero elsewhere."""

    def __init__(self, script: Script, clock: Clock) -> None:
        self._script, self._clock = script, clock

    async def frames(self) -> AsyncIterator[AudioFrame]:
        for index in range(round(self._script.end_s / FRAME_S)):
            end_s = (index + 1) * FRAME_S
            loud = self._script.speaks_at(end_s - FRAME_S / 2)
            await self._clock.sleep_until(end_s)
            yield AudioFrame(np.full(FRAME_SAMPLES, 1000 if loud else 0, np.int16), index, end_s)


class LoudnessActivity:
    """Voice is a frame that is not zero; a pause is declared after ``pause_s`` of zeros."""

    def __init__(self, pause_s: float = 0.2) -> None:
        self._pause_s = pause_s
        self._in_turn = self._in_speech = False
        self._last_voiced_s = 0.0

    @property
    def last_voiced_s(self) -> float:
        return self._last_voiced_s

    def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
        if frame.samples.any():
            self._last_voiced_s = frame.end_s
            if self._in_speech:
                return ()
            self._in_speech = True
            onset_s = frame.end_s - FRAME_S
            if self._in_turn:
                return (SpeechResumed(frame.end_s, onset_s),)
            self._in_turn = True
            return (SpeechStarted(frame.end_s, onset_s),)
        if self._in_speech and frame.end_s - self._last_voiced_s >= self._pause_s - 1e-9:
            self._in_speech = False
            return (SpeechPaused(frame.end_s, self._last_voiced_s),)
        return ()

    def end_turn(self) -> None:
        self._in_turn = False


class FixedPredictor:
    """Answers ``p_end(t_s)`` once per silence, at its first frame that counts (0.1 s)."""

    def __init__(self, p_end: float | Callable[[float], float]) -> None:
        self._p_end = p_end
        self._asked = False

    def wants(self, silence_s: float | None) -> bool:
        if silence_s is None:
            self._asked = False
            return False
        wanted, self._asked = not self._asked, True
        return wanted

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        assert len(user) == len(agent)
        p_end = self._p_end(audio_end_s) if callable(self._p_end) else self._p_end
        return TurnEndPredicted(audio_end_s, p_end, audio_end_s)

    def reset(self) -> None:
        self._asked = False


class ScriptRecognizer:
    """Hears the script's words whose end has been reached. ``spell`` may change how a reading is written."""

    def __init__(self, script: Script, spell: Callable[[str, bool], str] = lambda text, final: text) -> None:
        self._script, self._spell = script, spell
        self._start_s = 0.0
        self.heard: list[int] = []

    def begin(self, start_s: float) -> None:
        self._start_s = start_s

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        self.heard.append(len(turn_audio))
        words = [w.text for w in self._script.words if w.start_s >= self._start_s and w.end_s <= audio_end_s + 1e-6]
        text = self._spell(" ".join(words), final)
        return TranscriptUpdated(audio_end_s, text, "", final, audio_end_s)


class KeywordActs:
    """Deep if the text holds a question word."""

    def p_deep(self, text: str) -> float:
        return 0.9 if {"what", "why", "how", "which", "can", "tell"} & set(text.lower().split()) else 0.1


class WordEngine:
    """Replies with words that depend on all messages and the seed; a token is a word. Keeps an honest token ledger."""

    def __init__(self, reply_words: int = 8) -> None:
        self._reply_words = reply_words
        self._cache: list[str] = []
        self._left: list[str] = []
        self._aborted = False
        self.steps_after_abort = 0
        self.closed = False

    def follow(self, messages: Sequence[Message]) -> WorkCounts:
        return self._prefill(_words_of(messages))

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        counts = self._prefill([*_words_of(messages), "<reply>"])
        digest = hashlib.sha256(repr((messages, seed)).encode()).hexdigest()
        self._left = [f"w{digest[2 * i : 2 * i + 3]}" for i in range(self._reply_words)]
        return counts

    def step(self) -> ReplyStep:
        if self._aborted:
            self.steps_after_abort += 1
            raise EngineAborted("aborted")
        word = self._left.pop(0)
        self._cache.append(word)
        mark = "." if not self._left or len(self._left) % 4 == 0 else ""
        return ReplyStep((len(self._cache),), f"{word}{mark} ", not self._left, WorkCounts(decode_steps=1))

    def mark(self) -> int:
        return len(self._cache)

    def rollback(self, mark: int) -> None:
        self._aborted = False
        del self._cache[mark:]

    def abort(self) -> None:
        self._aborted = True

    def close(self) -> None:
        self.closed = True

    def _prefill(self, words: list[str]) -> WorkCounts:
        same = 0
        while same < min(len(words), len(self._cache)) and words[same] == self._cache[same]:
            same += 1
        self._cache = list(words)
        return WorkCounts(reused=same, prefilled=len(words) - same)


class ToneVoice:
    """Every word is 0.2 s of a constant."""

    sample_rate = SAMPLE_RATE

    def synthesize(self, text: str) -> PhraseSynthesized:
        per_word = SAMPLE_RATE // 5
        words = text.split()
        spoken = tuple(SpokenWord(word, (i + 1) * per_word) for i, word in enumerate(words))
        return PhraseSynthesized(text, np.full(per_word * len(words), 500, np.int16), SAMPLE_RATE, spoken)


class SentenceSplitter:
    """A phrase is what ends with a full stop."""

    def __init__(self) -> None:
        self._text = ""

    def push(self, text: str) -> list[str]:
        *whole, self._text = (self._text + text).split(". ")
        return [f"{phrase.strip()}." for phrase in whole]

    def flush(self) -> list[str]:
        rest, self._text = self._text.strip(), ""
        return [rest] if rest else []


class MemorySink:
    """Plays into a list of (start, samples); nothing is heard of what was flushed."""

    sample_rate = SAMPLE_RATE

    def __init__(self) -> None:
        self.played: list[tuple[float, Samples]] = []
        self._written: list[tuple[float, Samples]] = []
        self._cursor_s = 0.0
        self.closed = False

    def write(self, samples: Samples, now_s: float) -> float:
        start_s = max(now_s, self._cursor_s)
        self._written.append((start_s, samples))
        self._cursor_s = start_s + len(samples) / self.sample_rate
        return self._cursor_s

    def flush(self, now_s: float) -> int:
        count = 0
        for start_s, samples in self._written:
            heard = samples[: max(0, round((now_s - start_s) * self.sample_rate))]
            if len(heard):
                self.played.append((start_s, heard))
            count += len(heard)
        self._written.clear()
        self._cursor_s = now_s
        return count

    def window(self, start_s: float, end_s: float) -> Samples:
        return np.zeros(round((end_s - start_s) * SAMPLE_RATE), np.int16)

    def close(self, now_s: float) -> None:
        self.flush(now_s)
        self.closed = True


@dataclass
class Conversation:
    """What came of a scripted session."""

    events: list[TraceEvent]
    history: tuple[Message, ...]
    replies: list[tuple[int, str, str]]
    sink: MemorySink
    engine: WordEngine
    session: Session = field(repr=False)

    def of(self, kind: str) -> list[TraceEvent]:
        """The events of one kind."""
        return [event for event in self.events if event.kind == kind]

    @property
    def agent_rows(self) -> list[str]:
        return [row.text for row in self.history if row.role is Role.AGENT]

    @property
    def user_rows(self) -> list[str]:
        return [row.text for row in self.history if row.role is Role.USER]


Build = Callable[[Script, Clock], Stages]


def fake_stages(script: Script, clock: Clock, p_end: float | Callable[[float], float] = 0.9) -> Stages:
    """A full set of fakes that hear ``script``."""
    return Stages(
        source=ScriptSource(script, clock),
        sink=MemorySink(),
        voice_activity=LoudnessActivity(),
        predictor=FixedPredictor(p_end),
        recognizer=ScriptRecognizer(script),
        acts=KeywordActs(),
        engine=WordEngine(),
        synthesizer=ToneVoice(),
        splitter=SentenceSplitter,
    )


def converse(
    script: Script,
    settings: PadsSettings | None = None,
    change: Callable[[Stages], Stages] = lambda stages: stages,
    during: Callable[[Session, Clock], AsyncIterator[None]] | None = None,
    virtual: bool = True,
    speed: float = 0.0,
    costs: Costs = COSTS,
    trace: Trace | None = None,
) -> Conversation:
    """Run ``script`` through a session of fakes; ``change`` swaps parts, ``during`` is advanced beside it.

    What the session raises is raised; ``trace`` then holds what had happened.
    """
    trace = trace if trace is not None else Trace()

    async def main() -> Conversation:
        clock = LoopClock()
        stages = change(fake_stages(script, clock))
        replies: list[tuple[int, str, str]] = []
        session = Session(
            stages, settings or PadsSettings(), costs, clock, trace, on_reply=lambda *row: replies.append(row)
        )
        beside = asyncio.create_task(_drain(during(session, clock))) if during else None
        try:
            await session.run()
        finally:
            if beside is not None:
                await asyncio.wait({beside})
        if beside is not None:
            beside.result()
        assert isinstance(stages.sink, MemorySink) and isinstance(stages.engine, WordEngine)
        return Conversation(trace.events, session.history, replies, stages.sink, stages.engine, session)

    return clocks.run(main, virtual=virtual, speed=speed)


async def _drain(steps: AsyncIterator[None]) -> None:
    async for _ in steps:
        pass


def _words_of(messages: Sequence[Message]) -> list[str]:
    return [word for message in messages for word in (f"<{message.role.value}>", *message.text.split())]


def settings_with(**sections: object) -> PadsSettings:
    """The defaults but for ``section={"key": value}``."""
    return validate(PadsSettings, sections)


def swap(**parts: object) -> Callable[[Stages], Stages]:
    """``change=swap(acts=...)`` for :func:`converse`."""
    return lambda stages: replace(stages, **parts)  # type: ignore[arg-type]
