"""What the turn machine is told beside the stages' facts, and what it answers: its events and its actions."""

from __future__ import annotations

from dataclasses import dataclass

from ..frames import (
    ActClassified,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
)
from .premise import Premise


@dataclass(frozen=True, slots=True)
class PlaybackStarted:
    """The first sample of the reply was handed to the sink."""

    t_s: float


@dataclass(frozen=True, slots=True)
class ReplyProgressed:
    """The reply served a token: it is alive."""

    t_s: float


@dataclass(frozen=True, slots=True)
class PlaybackFinished:
    """The reply has been played to its end, or there was nothing to play."""

    t_s: float


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """The reply, prepared or served, could not be computed; the engine is as before it."""

    t_s: float


@dataclass(frozen=True, slots=True)
class ReplyCut:
    """What ``Revise`` asked for was done; ``heard`` says whether a whole word of the reply had been played."""

    t_s: float
    heard: bool


@dataclass(frozen=True, slots=True)
class WordsGiven:
    """A recogniser outside says what the user's open turn is so far, up to now."""

    t_s: float
    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class SayAsked:
    """Someone wants ``text`` spoken as soon as nobody speaks."""

    t_s: float
    text: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Someone wants the agent to be silent now."""

    t_s: float


@dataclass(frozen=True, slots=True)
class QuitAsked:
    """Someone wants the talk to end now."""

    t_s: float


Event = (
    SpeechStarted
    | SpeechPaused
    | SpeechResumed
    | TranscriptUpdated
    | TurnEndPredicted
    | ActClassified
    | PlaybackStarted
    | ReplyProgressed
    | PlaybackFinished
    | ReplyFailed
    | ReplyCut
    | WordsGiven
    | SayAsked
    | StopAsked
    | QuitAsked
)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Open a branch: compute the reply to ``premise``, silently."""

    turn: int
    premise: Premise


@dataclass(frozen=True, slots=True)
class Discard:
    """Throw the open branch away."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """The turn is over; its silence began at ``last_voiced_s``."""

    turn: int
    last_voiced_s: float


@dataclass(frozen=True, slots=True)
class Commit:
    """The open branch becomes the reply."""

    turn: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Compute and speak the reply to ``premise`` the plain way."""

    turn: int
    premise: Premise


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Stop speaking at once; the history keeps what was played."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reopen:
    """The turn was not over after all: withdraw its unheard reply and go on listening to the same turn."""

    turn: int


@dataclass(frozen=True, slots=True)
class Close:
    """The turn ends without a reply: no words in it, they never came, or the reply could not be computed.

    ``text`` is what the user said and was not answered; it stays in the history.
    """

    turn: int
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Speech over the reply meant nothing: forget it."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop the sound at once, and keep the reply: it may go on."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with the held reply where it stopped."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Revise:
    """More words of the turn came after its reply had begun to sound: cut it, and tell whether a word was heard.

    A reply of which no word was heard never was. The answer follows ``ReplyCut``.
    """

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class Say:
    """Speak ``text``, which is no reply to anything."""

    turn: int
    text: str


Action = (
    Prepare | Discard | Confirm | Commit | Answer | Interrupt | Reopen | Close | Ignore | Hold | Resume | Revise | Say
)
