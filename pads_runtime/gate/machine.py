"""The turn-state machine: evidence in, actions out. Pure and clock-free; the only place where anything is decided.

::

    IDLE ──speech──> LISTENING ──pause──> PAUSED ──silence long enough, words known──> RESPONDING ──played──> IDLE
                         ^                  │ p_end, p_deep: Prepare                       │
                         └──────resume──────┘ (Discard)                                    │
                         ^                                                                 │
                         └──────────── speech over the reply (Interrupt / Reopen) ─────────┘

A branch is opened by Prepare and ends in exactly one of Commit or Discard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..config import PadsSettings
from ..frames import (
    ActClassified,
    Message,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from .events import (
    Action,
    Answer,
    Close,
    Commit,
    Confirm,
    Discard,
    Event,
    Ignore,
    Interrupt,
    PlaybackFinished,
    PlaybackStarted,
    Prepare,
    Reopen,
    ReplyFailed,
    ReplyProgressed,
)
from .policy import Evidence, should_prepare
from .premise import Premise, normalise

WATCHDOG_S = 10.0
"""A reply that neither speaks nor ends for this long is given up."""

AUDIO_LAG_S = 0.1
"""A turn closed by force does not wait for sound that may still be on its way to the recogniser."""

FRESH_S = 0.3
"""A prediction made before the user fell silent is evidence in the pause that follows for so long after its audio."""

_EPSILON_S = 1e-9


@dataclass
class TurnMachine:
    """One conversation's state. ``history`` is set by the session whenever it changes."""

    settings: PadsSettings
    settings_key: str
    confirm_after_s: Callable[[float | None], float]
    """Silence that confirms the turn, from the latest p_end (None: not predicted in this pause)."""
    history: tuple[Message, ...] = ()
    state: TurnState = TurnState.IDLE
    turn: int = 0
    branch: Premise | None = None
    answered: Premise | None = None
    _started_s: float = 0.0
    _last_voiced_s: float = 0.0
    _confirmed_s: float | None = None
    _p_end: TurnEndPredicted | None = None
    _transcript: TranscriptUpdated | None = None
    _act: ActClassified | None = None
    _playing: bool = False
    _alive_s: float = 0.0
    _overlap_s: float | None = None

    # ------------------------------------------------------------ events

    def on(self, event: Event) -> list[Action]:
        """Take one event; returns what to do, in order. ``event.t_s`` is the present time."""
        match event:
            case SpeechStarted() | SpeechResumed() if self.state is TurnState.RESPONDING:
                return self._speech_over_reply(event)
            case SpeechStarted() | SpeechResumed():
                return self._speech(event)
            case SpeechPaused():
                return self._pause(event)
            case TurnEndPredicted():
                return self._predicted(event)
            case TranscriptUpdated():
                return self._heard(event)
            case ActClassified():
                self._act = event
                return self._consider(event.t_s) if self.state is TurnState.PAUSED else []
            case PlaybackStarted():
                self._playing = True
                self._alive_s = event.t_s
                return []
            case ReplyProgressed():
                self._alive_s = event.t_s
                return []
            case PlaybackFinished():
                return self._reply_ended(event.t_s)
            case ReplyFailed():
                return self._reply_failed(event.t_s)

    def deadline_s(self) -> float | None:
        """When ``tick`` has something to do if nothing else happens first."""
        match self.state:
            case TurnState.IDLE:
                return None
            case TurnState.LISTENING:
                return self._started_s + self.settings.turn.max_turn_s
            case TurnState.PAUSED if self._confirmed_s is None:
                return min(self._confirm_at_s(), self._started_s + self.settings.turn.max_turn_s)
            case TurnState.PAUSED:
                assert self._confirmed_s is not None
                return self._confirmed_s + self.settings.turn.transcript_wait_s
            case TurnState.RESPONDING:
                if self._overlap_s is not None:
                    # A pause is declared pause_s late, so speech that has not paused by then has lasted min_speech_s.
                    return self._overlap_s + self.settings.barge_in.min_speech_s + self.settings.vad.pause_s
                return None if self._playing else self._alive_s + WATCHDOG_S

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: whatever is due at ``now_s``."""
        due_s = self.deadline_s()
        if due_s is None or now_s < due_s - _EPSILON_S:
            return []
        match self.state:
            case TurnState.PAUSED if self._confirmed_s is not None:
                return self._settle(now_s, waited=True)
            case TurnState.LISTENING:
                self._last_voiced_s = now_s - AUDIO_LAG_S
                self._confirmed_s = now_s
                self.state = TurnState.PAUSED
                return [Confirm(self.turn, now_s), *self._settle(now_s)]
            case TurnState.PAUSED:
                self._confirmed_s = now_s
                return [Confirm(self.turn, self._last_voiced_s), *self._settle(now_s)]
            case TurnState.RESPONDING if self._overlap_s is not None:
                return self._interrupt(now_s)
            case TurnState.RESPONDING:
                return [Interrupt(self.turn, "the reply made no progress"), self._unanswered("no progress")]
            case TurnState.IDLE:
                return []

    # ------------------------------------------------------------ transitions

    def _speech(self, event: SpeechStarted | SpeechResumed) -> list[Action]:
        actions: list[Action] = []
        if self._confirmed_s is not None and self._overdue(event.t_s):
            return []  # closed by force while there was sound: more of it does not open the turn again
        if self.state is TurnState.IDLE:
            self._open_turn(event.onset_s)
        elif self.branch is not None:
            actions.append(self._drop("the user went on"))
        self.state = TurnState.LISTENING
        self._p_end = None
        self._confirmed_s = None
        return actions

    def _open_turn(self, onset_s: float) -> None:
        self.turn += 1
        self._started_s = onset_s
        self._transcript = self._act = self._p_end = None
        self.answered = None
        self._confirmed_s = None

    def _pause(self, event: SpeechPaused) -> list[Action]:
        if self.state is TurnState.RESPONDING:
            if self._overlap_s is None:
                return []
            self._overlap_s = None
            return [Ignore(self.turn, "a backchannel")]
        if self.state is TurnState.LISTENING:
            self.state = TurnState.PAUSED
            self._last_voiced_s = event.last_voiced_s
            return self._consider(event.t_s)
        return []

    def _predicted(self, event: TurnEndPredicted) -> list[Action]:
        """Answers may come before the pause is declared: the silence they heard had begun by then."""
        if self.state not in (TurnState.LISTENING, TurnState.PAUSED):
            return []
        if self._p_end is not None and event.audio_end_s < self._p_end.audio_end_s:
            return []
        self._p_end = event
        return self._consider(event.t_s)

    def _heard(self, event: TranscriptUpdated) -> list[Action]:
        if self.state is TurnState.IDLE:
            return []
        self._transcript = event
        if self.state is TurnState.RESPONDING:
            return self._late_words(event)
        actions: list[Action] = []
        if self.branch is not None and self._premise() != self.branch:
            actions.append(self._drop("the transcript changed"))
        if self._confirmed_s is not None and self._words_complete():
            return [*actions, *self._settle(event.t_s)]
        return [*actions, *self._consider(event.t_s)]

    def _late_words(self, event: TranscriptUpdated) -> list[Action]:
        """The recogniser adds words to a turn that is being answered: one reply, to all of it."""
        premise = self._premise()
        if self.answered is None or not premise.text or premise.text == self.answered.text or self._playing:
            return []
        self.answered = Premise(premise.text, self.answered.history, self.settings_key)
        self._alive_s = event.t_s
        return [Interrupt(self.turn, "more words arrived"), Answer(self.turn, self.answered)]

    def _consider(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.PAUSED or self.branch is not None or not self._words_complete():
            return []
        premise = self._premise()
        heard = normalise(self._transcript.text) if self._transcript else ""
        act = self._act if self._act and normalise(self._act.text) == heard else None
        evidence = Evidence(
            has_words=bool(premise.text),
            p_end=self._p_end.p_end if self._p_end and self._counts(self._p_end, now_s) else None,
            p_deep=act.p_deep if act else None,
        )
        if not should_prepare(evidence, self.settings.gate):
            return []
        self.branch = premise
        return [Prepare(self.turn, premise)]

    def _settle(self, now_s: float, waited: bool = False) -> list[Action]:
        """The turn is confirmed; answer it if its words are known."""
        if not self._words_complete() and not waited:
            return []
        premise = self._premise()
        actions: list[Action] = []
        if not premise.text:
            if self.branch is not None:
                actions.append(self._drop("no words"))
            reason = "its words never came" if waited else "no words in it"
            actions.append(Close(self.turn, reason))
            self._to_idle()
            return actions
        if self.branch == premise:
            self.branch = None
            actions.append(Commit(self.turn))
        else:
            if self.branch is not None:
                actions.append(self._drop("the premise changed"))
            actions.append(Answer(self.turn, premise))
        self.answered = premise
        self.state = TurnState.RESPONDING
        self._playing = False
        self._overlap_s = None
        self._alive_s = now_s
        return actions

    def _speech_over_reply(self, event: SpeechStarted | SpeechResumed) -> list[Action]:
        if not self._playing and self._overdue(event.t_s):
            return []
        if not self._playing:
            # Nothing was heard of the reply, so the turn was simply not over.
            self.state = TurnState.LISTENING
            self._confirmed_s = None
            self._p_end = None
            self.answered = None
            return [Reopen(self.turn)]
        self._overlap_s = event.onset_s
        return []

    def _interrupt(self, now_s: float) -> list[Action]:
        assert self._overlap_s is not None
        actions: list[Action] = [Interrupt(self.turn, "the user spoke")]
        onset_s = self._overlap_s
        self._to_idle()
        self._open_turn(onset_s)
        self.state = TurnState.LISTENING
        return actions

    def _reply_ended(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.RESPONDING:
            return []
        onset_s = self._overlap_s
        self._to_idle()
        if onset_s is not None:  # the user began before the reply had ended: that is the next turn
            self._open_turn(onset_s)
            self.state = TurnState.LISTENING
        return []

    def _reply_failed(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.RESPONDING:
            self.branch = None  # the turn will be answered the plain way
            return []
        if self._playing:
            return self._reply_ended(now_s)
        return [self._unanswered("its reply failed")]

    def _unanswered(self, reason: str) -> Close:
        close = Close(self.turn, reason, self.answered.text if self.answered else "")
        self._to_idle()
        return close

    def _to_idle(self) -> None:
        self.state = TurnState.IDLE
        self.branch = None
        self._playing = False
        self._overlap_s = None
        self._confirmed_s = None

    # ------------------------------------------------------------ helpers

    def _drop(self, reason: str) -> Discard:
        self.branch = None
        return Discard(self.turn, reason)

    def _premise(self) -> Premise:
        text = self._transcript.text if self._transcript else ""
        return Premise.spoken(text, self.history, self.settings_key)

    def _words_complete(self) -> bool:
        """The transcript covers everything said up to the pause."""
        return (
            self._transcript is not None
            and self._transcript.final
            and self._transcript.audio_end_s >= self._last_voiced_s - _EPSILON_S
        )

    def _overdue(self, now_s: float) -> bool:
        return now_s >= self._started_s + self.settings.turn.max_turn_s - _EPSILON_S

    def _heard_silence(self, predicted: TurnEndPredicted) -> bool:
        return predicted.audio_end_s >= self._last_voiced_s - _EPSILON_S

    def _counts(self, predicted: TurnEndPredicted, now_s: float) -> bool:
        """Whether a prediction may open a branch: it heard this silence, or it is fresh."""
        return self._heard_silence(predicted) or now_s - predicted.audio_end_s <= FRESH_S + _EPSILON_S

    def _confirm_at_s(self) -> float:
        """Only a prediction that heard the silence shortens it: a branch is cheap, cutting someone off is not."""
        heard = self._p_end is not None and self._heard_silence(self._p_end)
        return self._last_voiced_s + self.confirm_after_s(self._p_end.p_end if heard and self._p_end else None)
