"""Speech over the agent's voice: is it an interruption? Pure: what is known and the time go in, a verdict comes out.

The reply goes on sounding while this is undecided, because most speech over speech is a backchannel and a voice that
ducks at each of them stutters. Words decide where there are any; where there are none, how long the sound has lasted:

- a word that calls for silence or attention ("stop", "wait", "what"): an interruption as soon as it is read;
- other words that are no backchannels, in a sound that has lasted ``min_speech_s``: an interruption. A shorter sound is
  ignored whatever was read in it: recognisers write "Thomas" for a hum and "a hoe" for "uh-huh";
- a pause after nothing but backchannels, or after no words at all: nothing happened;
- sound that outlasts a backchannel while its words are not known: the agent holds its tongue and waits for them. They
  come: an interruption. They do not within ``resume_after_s``: it was noise, and the reply goes on where it stopped.

A predictor that compares the speakers moves the last rule's patience: ``p_now`` is the user's share of the activity it
expects next (VAP; Ekstedt and Skantze, 2022). High: the user is taking the turn. Low: the agent keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..config import PadsSettings
from ..frames import TranscriptUpdated, TurnEndPredicted
from .backchannel import calls, is_backchannel
from .premise import normalise

EPSILON_S = 1e-9


class Phase(Enum):
    """What has become of the reply."""

    JUDGING = "judging"
    """It sounds, and nothing is decided."""
    HELD = "held"
    """It was cut, and may go on where it stopped."""
    NOISE = "noise"
    """It sounds again; this stretch of sound is taken for noise unless words come of it."""


class Verdict(Enum):
    """What to do about it."""

    WAIT = "wait"
    IGNORE = "ignore"
    HOLD = "hold"
    RESUME = "resume"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Overlap:
    """Speech over the reply: ``onset_s`` is where it began, ``stretch_s`` where its latest stretch did.

    ``paused_s`` is when its pause was declared and ``last_voiced_s`` the end of its voice; both None while it lasts.
    ``since_s`` is when ``phase`` began.
    """

    onset_s: float
    stretch_s: float
    phase: Phase = Phase.JUDGING
    since_s: float = 0.0
    paused_s: float | None = None
    last_voiced_s: float | None = None
    transcript: TranscriptUpdated | None = None
    predicted: TurnEndPredicted | None = None

    @property
    def text(self) -> str:
        """What has been read of it."""
        return self.transcript.text if self.transcript else ""

    @property
    def claims(self) -> bool:
        """Whether words were read that are no backchannel."""
        return bool(normalise(self.text)) and not is_backchannel(self.text)

    @property
    def read_whole(self) -> bool:
        """Whether it has paused and all of it has been read."""
        if self.last_voiced_s is None or self.transcript is None or not self.transcript.final:
            return False
        return self.transcript.audio_end_s >= self.last_voiced_s - EPSILON_S


def judge(overlap: Overlap, now_s: float, settings: PadsSettings) -> Verdict:
    """The verdict at ``now_s``. It can change with new evidence, or when ``due_s`` is reached."""
    due = now_s >= due_s(overlap, settings) - EPSILON_S
    if calls(overlap.text):
        return Verdict.INTERRUPT
    if overlap.last_voiced_s is None:
        if overlap.claims and overlap.phase is not Phase.JUDGING:
            return Verdict.INTERRUPT
        if not due:
            return Verdict.WAIT
        if overlap.claims:
            return Verdict.INTERRUPT
        return Verdict.HOLD if overlap.phase is Phase.JUDGING else Verdict.RESUME
    if not overlap.read_whole and not due:
        return Verdict.WAIT
    held = overlap.phase is Phase.HELD
    # A pause that was told late may have let a short sound hold the reply; one that was held counts as a whole.
    lasted_s = overlap.last_voiced_s - (overlap.onset_s if held else overlap.stretch_s)
    if overlap.claims and lasted_s >= settings.barge_in.min_speech_s - EPSILON_S:
        return Verdict.INTERRUPT
    return Verdict.RESUME if held else Verdict.IGNORE


def due_s(overlap: Overlap, settings: PadsSettings) -> float:
    """When time alone changes the verdict; infinite where only evidence can."""
    barge_in = settings.barge_in
    if overlap.paused_s is not None:
        return max(overlap.paused_s, overlap.since_s) + barge_in.resume_after_s
    if overlap.phase is Phase.HELD and settings.asr.kind != "external":
        return overlap.since_s + barge_in.resume_after_s
    if overlap.phase is not Phase.JUDGING:
        return float("inf")  # an external recogniser may say nothing before the pause
    return overlap.stretch_s + _patience_s(overlap, settings)


def _patience_s(overlap: Overlap, settings: PadsSettings) -> float:
    """How long sound may last before it counts. A pause is declared ``vad.pause_s`` late, so speech that has not
    paused by then has lasted that much less."""
    barge_in, late_s = settings.barge_in, settings.vad.pause_s
    longest_s = max(barge_in.min_speech_s, barge_in.backchannel_max_s)
    if is_backchannel(overlap.text):
        return longest_s + late_s
    p_now = overlap.predicted.p_now if overlap.predicted else None
    if p_now is not None and p_now >= barge_in.user_takes_turn:
        return barge_in.min_speech_s
    if p_now is not None and p_now <= barge_in.agent_keeps_turn and not overlap.claims:
        return longest_s + late_s
    return barge_in.min_speech_s + late_s
