"""The scripted user of ``pads demo``: speaks, pauses, waits for the reply to end, speaks again.

The user's voice is synthesised, cut to its sound, and joined with pauses of exact length, so the true ends of speech
are known. Because the user waits, the talk holds the same words whatever the latency.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import soxr
from pydantic import Field, field_validator

from .clock import Clock
from .config import Seconds, Settings, find_config, read_yaml, validate
from .errors import ConfigError
from .frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples
from .speech.protocol import Synthesizer

PATIENCE_S = 20.0
"""The scripted user speaks on if no reply has ended after this long."""
MAX_PAUSE_S = 60.0
"""A longer pause in a script is a slip of the pen."""


class TurnScript(Settings):
    """One turn: texts, and between them pauses in seconds."""

    say: tuple[str | Seconds, ...]

    @field_validator("say", mode="before")
    @classmethod
    def _plain(cls, say: Any) -> Any:
        """YAML reads an unquoted yes, no, on or off as a truth value, which would be taken for a number."""
        if not isinstance(say, list | tuple):
            raise ValueError("a turn's 'say' is a list of texts and pauses")
        for part in say:
            if isinstance(part, bool) or not isinstance(part, str | int | float):
                raise ValueError(f"{part!r} is neither a text nor a pause in seconds; put texts in quotes")
            if not isinstance(part, str) and not 0 <= part <= MAX_PAUSE_S:
                raise ValueError(f"a pause of {part} s is not between 0 and {MAX_PAUSE_S:.0f}")
        return say


class DemoScript(Settings):
    """The user's side of a talk."""

    gap_s: Annotated[float, Field(ge=0.0, le=MAX_PAUSE_S)] = 0.6
    """Silence the user leaves after the agent has finished."""
    turns: Annotated[tuple[TurnScript, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Utterance:
    """One turn as sound: SAMPLE_RATE int16 with its pauses inside; ``text`` is what is said."""

    text: str
    samples: Samples


def load_script(name: str | Path) -> DemoScript:
    """Read a talk's script by its name in configs/ or its path. Raises ConfigError."""
    try:
        script = validate(DemoScript, read_yaml(find_config(name)))
    except ConfigError as exc:
        raise ConfigError(f"script '{name}': {exc}") from None
    for number, turn in enumerate(script.turns, 1):
        if not any(isinstance(part, str) and part.strip() for part in turn.say):
            raise ConfigError(f"script '{name}': turn {number} has no words")
    return script


def speak_script(script: DemoScript, voice: Synthesizer) -> list[Utterance]:
    """Synthesise every turn."""
    return [speak_turn(turn, voice) for turn in script.turns]


def speak_turn(turn: TurnScript, voice: Synthesizer) -> Utterance:
    """One turn: each text cut to its sound, each number as that many seconds of silence."""
    pieces: list[Samples] = []
    for part in turn.say:
        if isinstance(part, str):
            spoken = voice.synthesize(part)
            pieces.append(_trim(_resample(spoken.samples, spoken.sample_rate)))
        else:
            pieces.append(np.zeros(round(part * SAMPLE_RATE), np.int16))
    text = " ".join(part for part in turn.say if isinstance(part, str))
    return Utterance(text, np.concatenate(pieces))


class ScriptedUser:
    """An audio source that speaks one utterance after the other, each ``gap_s`` after ``agent_idle``."""

    def __init__(self, utterances: Sequence[Utterance], gap_s: float, clock: Clock) -> None:
        self._utterances, self._gap_s, self._clock = utterances, gap_s, clock
        self._idle = asyncio.Event()
        self._index = 0
        self.speech_ends_s: list[float] = []
        self.heard: list[Samples] = []

    def agent_idle(self) -> None:
        """The agent has nothing more to say."""
        self._idle.set()

    async def frames(self) -> AsyncIterator[AudioFrame]:
        async for frame in self._silence(self._gap_s):
            yield frame
        for utterance in self._utterances:
            for start in range(0, len(utterance.samples), FRAME_SAMPLES):
                yield await self._frame(utterance.samples[start : start + FRAME_SAMPLES])
            padding = -len(utterance.samples) % FRAME_SAMPLES
            self.speech_ends_s.append((self._index * FRAME_SAMPLES - padding) / SAMPLE_RATE)
            # An agent that fell idle before this has not heard the turn out, so that was no answer to it.
            self._idle.clear()
            async for frame in self._until_idle():
                yield frame
            async for frame in self._silence(self._gap_s):
                yield frame

    async def _until_idle(self) -> AsyncIterator[AudioFrame]:
        deadline_s = self._index * FRAME_S + PATIENCE_S
        while not self._idle.is_set() and self._index * FRAME_S < deadline_s:
            yield await self._frame(np.zeros(0, np.int16))

    async def _silence(self, seconds: float) -> AsyncIterator[AudioFrame]:
        for _ in range(round(seconds / FRAME_S)):
            yield await self._frame(np.zeros(0, np.int16))

    async def _frame(self, samples: Samples) -> AudioFrame:
        whole = np.pad(samples, (0, FRAME_SAMPLES - len(samples)))
        index, self._index = self._index, self._index + 1
        end_s = self._index * FRAME_S
        await self._clock.sleep_until(end_s)
        self.heard.append(whole)
        return AudioFrame(whole, index, end_s)


def _resample(samples: Samples, rate: int) -> Samples:
    if rate == SAMPLE_RATE:
        return samples
    resampled: Samples = soxr.resample(samples, rate, SAMPLE_RATE)
    return resampled


def _trim(samples: Samples) -> Samples:
    """Cut silence off both ends: everything before and after the first and last 10 ms louder than 2 % of the peak."""
    block = SAMPLE_RATE // 100
    levels = np.abs(np.pad(samples, (0, -len(samples) % block)).astype(np.int32)).reshape(-1, block).max(axis=1)
    loud = np.flatnonzero(levels > 0.02 * levels.max(initial=0))
    return samples[loud[0] * block : (loud[-1] + 1) * block] if len(loud) else samples
