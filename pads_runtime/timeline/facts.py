"""The facts the page draws: speech, probabilities, states, replies, turns; and careful access to an event's fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..frames import TraceEvent


@dataclass(frozen=True, slots=True)
class Speech:
    """One stretch of the user's voice without a declared pause in it."""

    start_s: float
    end_s: float
    utterance: int
    """Stretches with the same number were heard as one utterance."""
    words: str = ""
    ignored: str = ""
    """Why it meant nothing, e.g. a backchannel; empty when it counted."""


@dataclass(frozen=True, slots=True)
class Point:
    """A probability that arrived at ``t_s``; ``note`` says what it was read from."""

    t_s: float
    p: float
    note: str


@dataclass(frozen=True, slots=True)
class Band:
    """The time during which the dialogue stood in one state; ``state`` is a value of TurnState."""

    start_s: float
    end_s: float
    state: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply from its opening to its end, prepared in a pause or computed the plain way."""

    turn: int
    prepared: bool
    opened_s: float
    premise: str = ""
    first_token_s: float | None = None
    first_phrase_s: float | None = None
    generated_s: float | None = None
    committed_s: float | None = None
    ended_s: float | None = None
    """When it was thrown away; None for a reply that was kept."""
    playing_s: float | None = None
    played_s: float | None = None
    outcome: str = "open"
    """open, committed, plain, discarded, withdrawn or failed."""
    reason: str = ""
    """Why it was thrown away or, for a reply that was heard, why it was interrupted."""
    said: str = ""
    tokens: int = 0
    cpu_ms: float | None = None

    @property
    def thrown_away(self) -> bool:
        """Nothing of it was heard or will be."""
        return self.outcome in ("discarded", "withdrawn", "failed")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the user's with the moments people ask for; None for what did not happen."""

    number: int
    start_s: float
    end_s: float
    speech_end_s: float | None = None
    confirmed_s: float | None = None
    first_token_s: float | None = None
    first_audio_s: float | None = None
    user: str = ""
    agent: str = ""
    closed: str = ""
    """Why it got no reply."""

    @property
    def post_confirm_ttft_ms(self) -> float | None:
        """How long the first token was still missing when the turn was confirmed."""
        if self.first_token_s is None or self.confirmed_s is None:
            return None
        return max(0.0, self.first_token_s - self.confirmed_s) * 1000

    @property
    def dead_air_ms(self) -> float | None:
        """From the last instant the user spoke to the first sample of the reply."""
        if self.first_audio_s is None or self.speech_end_s is None:
            return None
        return (self.first_audio_s - self.speech_end_s) * 1000


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the page draws, in order of time."""

    end_s: float
    speech: tuple[Speech, ...]
    p_end: tuple[Point, ...]
    p_deep: tuple[Point, ...]
    bands: tuple[Band, ...]
    replies: tuple[Reply, ...]
    turns: tuple[Turn, ...]
    failure: str = ""
    frames_dropped: int = 0

    def replies_of(self, turn: int) -> tuple[Reply, ...]:
        """The replies opened in one turn."""
        return tuple(reply for reply in self.replies if reply.turn == turn)


# ---------------------------------------------------------------- fields of unknown content


def number(fields: Mapping[str, Any], key: str, default: float) -> float:
    """A finite number, else ``default``."""
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    return float(value)


def whole(fields: Mapping[str, Any], key: str, default: int = 0) -> int:
    """A whole number, else ``default``; true counts as 1."""
    value = fields.get(key)
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else default


def text_of(event: TraceEvent, key: str) -> str:
    """The field as text; empty if there is none."""
    value = event.fields.get(key)
    return "" if value is None else str(value)
