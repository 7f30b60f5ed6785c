"""The values that cross stages: small frozen facts, named in the past tense. Imports nothing of ours.

Units stand in the names: ``_s`` seconds on the session's clock (0 = session start), ``_ms`` milliseconds,
``p_`` a probability in [0, 1]. Samples are mono ``int16`` at ``SAMPLE_RATE`` unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""Rate of everything the runtime hears, in Hz."""
FRAME_SAMPLES = 320
"""Samples in one frame: 20 ms at SAMPLE_RATE."""
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE

Samples = NDArray[np.int16]


# ---------------------------------------------------------------- heard


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """20 ms of microphone audio, shape (FRAME_SAMPLES,), that ends at ``end_s``."""

    samples: Samples
    index: int
    end_s: float


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user began a new turn; ``t_s`` is when it was declared, ``onset_s`` where the voice began."""

    t_s: float
    onset_s: float


@dataclass(frozen=True, slots=True)
class SpeechPaused:
    """Voice activity declared a pause at ``t_s``; the last voiced frame ended at ``last_voiced_s``."""

    t_s: float
    last_voiced_s: float


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """The user went on within the same turn."""

    t_s: float
    onset_s: float


SpeechEvent = SpeechStarted | SpeechPaused | SpeechResumed


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised word with its place on the session's clock."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class TranscriptUpdated:
    """What the recogniser has heard of the open turn, up to ``audio_end_s``.

    ``stable`` will not be revised by the recogniser, ``unstable`` may be. ``final`` says that all audio up to the
    declared pause is in it.
    """

    t_s: float
    stable: str
    unstable: str
    final: bool
    audio_end_s: float

    @property
    def text(self) -> str:
        """Stable and unstable words together."""
        return f"{self.stable} {self.unstable}".strip()


@dataclass(frozen=True, slots=True)
class TurnEndPredicted:
    """p_end = P(the user's turn ends within 300 ms and does not resume before the other side could answer).

    ``audio_end_s`` is the end of the audio the prediction has seen, so ``t_s - audio_end_s`` is its age.
    ``p_now`` and ``p_future`` are VAP's speaker comparisons; None where a predictor has none.
    """

    t_s: float
    p_end: float
    audio_end_s: float
    p_now: float | None = None
    p_future: float | None = None


@dataclass(frozen=True, slots=True)
class ActClassified:
    """P(the text is a question or a directive, which wants the deep model), for the text it was read from."""

    t_s: float
    p_deep: float
    text: str


# ---------------------------------------------------------------- said


class Role(str, Enum):
    """Who wrote a row of the history."""

    SYSTEM = "system"
    USER = "user"
    AGENT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One row of the history."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Model work done by one call; the virtual clock turns these into time, the trace into cost."""

    reused: int = 0
    prefilled: int = 0
    """Prompt tokens run through all layers at once."""
    decode_steps: int = 0
    """Passes that ended at the last layer and served something: full ones of one token, and deep ones."""
    shallow_steps: int = 0
    """Passes of one token that ended at an exit."""
    drafted: int = 0
    accepted: int = 0
    deep_steps: int = 0
    """Those of ``decode_steps`` that began at an exit."""
    verified_rows: int = 0
    """Tokens in the deep passes."""
    followed: int = 0
    """Prompt tokens run through the layers below an exit only."""
    deepened: int = 0
    """Prompt tokens taken from an exit through the rest."""

    def __add__(self, other: WorkCounts) -> WorkCounts:
        return WorkCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class DepthPlan:
    """One round of decoding. ``exit_layer`` None, or ``draft_len`` 0, is a plain pass through all layers."""

    exit_layer: int | None
    draft_len: int
    reason: str
    """Why, in a few words, for the trace."""

    @property
    def plain(self) -> bool:
        """Whether this round drafts nothing."""
        return self.exit_layer is None or self.draft_len < 1

    def __str__(self) -> str:
        return "plain" if self.plain else f"exit {self.exit_layer}, draft {self.draft_len}"


@dataclass(frozen=True, slots=True)
class ReplyStep:
    """What one engine step served: token ids, their text (complete UTF-8 only), and whether the reply is over."""

    tokens: tuple[int, ...]
    text: str
    done: bool
    counts: WorkCounts
    plan: DepthPlan | None = None
    """How the step was decoded; None where there was no choice."""
    approximate: bool = False
    """Whether a token of the reply so far left at an exit without the deep model's word."""


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word of synthesised speech; it ends ``end_sample`` samples after its phrase began."""

    text: str
    end_sample: int


@dataclass(frozen=True, slots=True)
class PhraseSynthesized:
    """One phrase of the reply as audio: ``samples`` int16 mono at ``sample_rate``."""

    text: str
    samples: Samples
    sample_rate: int
    words: tuple[SpokenWord, ...]


# ---------------------------------------------------------------- decided


class TurnState(Enum):
    """Where the dialogue stands."""

    IDLE = "idle"
    LISTENING = "listening"
    PAUSED = "paused"
    RESPONDING = "responding"


class GateMode(str, Enum):
    """How the two signals are combined; everything but ``and`` is there for comparison."""

    AND = "and"
    TURN_ONLY = "turn_only"
    ACT_ONLY = "act_only"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of the trace: what happened, when, and its plain JSON fields."""

    t_s: float
    kind: str
    fields: dict[str, Any]
