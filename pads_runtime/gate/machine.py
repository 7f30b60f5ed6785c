"""The turn-state machine: evidence in, actions out. Pure and clock-free; the only place where anything is decided.

::

    IDLE ──speech──> LISTENING ──pause──> PAUSED ──silence long enough, words known──> RESPONDING ──played──> IDLE
                         ^                  │ p_end, p_deep: Prepare                       │
                         └──────resume──────┘ (Discard)                                    │
                         ^                                                                 │
                         └──────────── speech over the reply (Interrupt / Reopen) ─────────┘

A branch is opened by Prepare and ends in exactly one of Commit or Discard. Speech over the reply is judged in
``overlap``; README.md in this folder draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..frames import (
    ActClassified,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from . import events as e
from .backchannel import is_backchannel
from .events import Action
from .listening import Listening
from .overlap import EPSILON_S, Overlap, Phase, Verdict, due_s, judge
from .premise import Premise, words_after

WATCHDOG_S = 10.0
"""A reply that neither speaks nor ends for this long is given up."""

AUDIO_LAG_S = 0.1
"""A turn closed by force does not wait for sound that may still be on its way to the recogniser."""


@dataclass
class TurnMachine(Listening):
    """One conversation's state. ``history`` and ``lag_s`` are set by the session whenever they change."""

    # ------------------------------------------------------------ events

    def on(self, event: e.Event) -> list[Action]:
        """Take one event; returns what to do, in order. ``event.t_s`` is the present time."""
        match event:
            case SpeechStarted() | SpeechResumed() if self.state is TurnState.RESPONDING:
                return self._speech_over_reply(event)
            case SpeechStarted() | SpeechResumed():
                return self._speech(event)
            case SpeechPaused():
                return self._pause_over_reply(event) if self._overlap is not None else self._pause(event)
            case TurnEndPredicted():
                return self._predicted_over_reply(event) if self._overlap is not None else self._predicted(event)
            case TranscriptUpdated():
                return self._words(event)
            case e.WordsGiven():
                return self._words(self._new_words(event), outside=True)
            case ActClassified():
                self._open.act = event
                return self._consider(event.t_s)
            case e.PlaybackStarted():
                self._playing = True
                self._alive_s = event.t_s
                return []
            case e.ReplyProgressed():
                self._alive_s = event.t_s
                return []
            case e.PlaybackFinished():
                return self._reply_ended(event.t_s)
            case e.ReplyFailed():
                return self._reply_failed(event.t_s)
            case e.ReplyCut():
                return self._reply_cut(event)
            case e.SayAsked():
                self.to_say.append(event.text)
                self._alive_s = event.t_s if self.state is TurnState.IDLE else self._alive_s
                return []
            case e.StopAsked():
                return self._stop(event.t_s, "stop was asked for")
            case e.QuitAsked():
                return self._quit(event.t_s)

    def deadline_s(self) -> float | None:
        """When ``tick`` has something to do if nothing else happens first."""
        match self.state:
            case TurnState.IDLE:
                return self._alive_s if self.to_say else None
            case TurnState.LISTENING:
                return self._open.started_s + self.settings.turn.max_turn_s
            case TurnState.PAUSED if self._open.confirmed_s is None:
                return min(self._confirm_at_s(), self._open.started_s + self.settings.turn.max_turn_s)
            case TurnState.PAUSED:
                assert self._open.confirmed_s is not None
                return self._open.confirmed_s + self.settings.turn.transcript_wait_s
            case TurnState.RESPONDING if self._overlap is not None:
                overlap_s = due_s(self._overlap, self.settings) + self.lag_s
                return None if overlap_s == float("inf") else overlap_s
            case TurnState.RESPONDING:
                return None if self._playing else self._alive_s + WATCHDOG_S

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: whatever is due at ``now_s``."""
        due = self.deadline_s()
        if due is None or now_s < due - EPSILON_S:
            return []
        match self.state:
            case TurnState.IDLE:
                return self._say(now_s)
            case TurnState.PAUSED if self._open.confirmed_s is not None:
                return self._settle(now_s, waited=True)
            case TurnState.LISTENING:
                self._open.last_voiced_s = now_s - AUDIO_LAG_S
                self._open.confirmed_s = now_s
                self.state = TurnState.PAUSED
                return [e.Confirm(self.turn, now_s), *self._settle(now_s)]
            case TurnState.PAUSED:
                self._open.confirmed_s = now_s
                return [e.Confirm(self.turn, self._open.last_voiced_s), *self._settle(now_s)]
            case TurnState.RESPONDING if self._overlap is not None:
                return self._judge(now_s)
            case TurnState.RESPONDING:
                return [e.Interrupt(self.turn, "the reply made no progress"), self._unanswered(now_s, "no progress")]

    # ------------------------------------------------------------ the agent's turn

    def _say(self, now_s: float) -> list[Action]:
        text = self.to_say.popleft()
        self._open_turn(now_s)
        self._respond(now_s, None)
        self._saying = text
        return [e.Say(self.turn, text)]

    def _words(self, event: TranscriptUpdated, outside: bool = False) -> list[Action]:
        if self.state is TurnState.RESPONDING:
            return self._heard_over_reply(event)
        if outside and self.state is TurnState.IDLE:
            return self._heard_elsewhere(event)
        return self._heard(event)

    def _speech_over_reply(self, event: SpeechStarted | SpeechResumed) -> list[Action]:
        if self._playing:
            before = self._overlap or Overlap(event.onset_s, event.onset_s, since_s=event.t_s)
            self._overlap = replace(before, stretch_s=event.onset_s, paused_s=None, last_voiced_s=None)
            return self._judge(event.t_s)
        if self._saying is not None:  # nothing was heard of it: it waits for the user
            self.to_say.appendleft(self._saying)
            actions: list[Action] = [e.Interrupt(self.turn, "the user spoke first")]
            self._to_idle(event.t_s)
            self._open_turn(event.onset_s)
            self.state = TurnState.LISTENING
            return actions
        if self._overdue(event.t_s):
            return []
        # Nothing was heard of the reply, so the turn was simply not over.
        self.state = TurnState.LISTENING
        self._open.go_on()
        self.answered = None
        return [e.Reopen(self.turn)]

    def _pause_over_reply(self, event: SpeechPaused) -> list[Action]:
        assert self._overlap is not None
        self._overlap = replace(self._overlap, paused_s=event.t_s, last_voiced_s=event.last_voiced_s)
        return self._judge(event.t_s)

    def _predicted_over_reply(self, event: TurnEndPredicted) -> list[Action]:
        assert self._overlap is not None
        if event.audio_end_s <= self._overlap.onset_s:
            return []
        self._overlap = replace(self._overlap, predicted=event)
        return self._judge(event.t_s)

    def _heard_over_reply(self, event: TranscriptUpdated) -> list[Action]:
        """Words while the agent speaks: of the speech over it, or more of the turn that is being answered.

        Our own recogniser is given them apart. One outside may take both for one turn, and say the old words again.
        """
        premise, answered = self._premise_of(event.text), self.answered
        over = self._overlap if self._overlap and event.audio_end_s > self._overlap.onset_s else None
        mixed = answered is not None and (over is None or self.settings.asr.kind == "external")
        if answered is not None and mixed and premise.text == answered.text:
            return []
        added = words_after(answered.text, event.text) if answered is not None and mixed else None
        if over is not None:
            if answered is not None and added is not None:
                self._taken, event = answered.text, replace(event, stable=added, unstable="")
            self._overlap = replace(over, transcript=event)
            return self._judge(event.t_s)
        if not premise.text or self._revised is not None:
            return []
        if not self._playing and answered is not None:  # one reply, to all of it
            self.answered = Premise(premise.text, answered.history, self.settings_key)
            self._open.transcript = event
            self._alive_s = event.t_s
            return [e.Interrupt(self.turn, "more words arrived"), e.Answer(self.turn, self.answered)]
        if not event.final or (added is None and is_backchannel(event.text)):
            return []
        self._revised = event
        return [e.Revise(self.turn, "more words arrived")]

    def _reply_cut(self, event: e.ReplyCut) -> list[Action]:
        revised, self._revised = self._revised, None
        if revised is None or self.state is not TurnState.RESPONDING:
            return []
        revised = replace(revised, t_s=event.t_s, audio_end_s=event.t_s)
        overlap, answered = self._overlap, self.answered
        if not event.heard and answered is not None:
            whole = Premise(self._premise_of(revised.text).text, answered.history, self.settings_key)
            self._respond(event.t_s, whole)
            return [e.Answer(self.turn, whole)]
        added = words_after(answered.text, revised.text) if answered is not None else None
        if added is not None and answered is not None:
            self._taken, revised = answered.text, replace(revised, stable=added, unstable="")
        self._to_idle(event.t_s)
        if overlap is None:
            return self._take_up(revised)
        return self._next_turn(replace(overlap, transcript=revised), event.t_s)

    def _judge(self, now_s: float) -> list[Action]:
        """What the speech over the reply is, as far as it can be told."""
        overlap = self._overlap
        assert overlap is not None
        words = bool(overlap.transcript and self._premise_of(overlap.transcript.text).text)
        match judge(overlap, now_s - self.lag_s, self.settings):  # as far as it has been heard
            case Verdict.WAIT:
                return []
            case Verdict.IGNORE:
                self._overlap = None
                return [e.Ignore(self.turn, "a backchannel" if words else "no words in it")]
            case Verdict.HOLD:
                self._overlap = replace(overlap, phase=Phase.HELD, since_s=now_s)
                return [e.Hold(self.turn, "sound that outlasts a backchannel")]
            case Verdict.RESUME:
                paused = overlap.paused_s is not None
                self._overlap = None if paused else replace(overlap, phase=Phase.NOISE, since_s=now_s)
                actions: list[Action] = [e.Resume(self.turn, "a backchannel" if words else "no words came")]
                return [*actions, e.Ignore(self.turn, "a backchannel" if words else "no words in it")][: 1 + paused]
            case Verdict.INTERRUPT:
                actions = [e.Interrupt(self.turn, "the user spoke")]
                self._to_idle(now_s)
                return [*actions, *self._next_turn(overlap, now_s)]

    def _next_turn(self, overlap: Overlap, now_s: float) -> list[Action]:
        """Speech over the reply becomes the user's turn, with all that is known of it."""
        self._open_turn(overlap.onset_s)
        self._open.transcript, self._open.predicted = overlap.transcript, overlap.predicted
        self.state = TurnState.LISTENING
        if overlap.last_voiced_s is None:
            return []
        self.state = TurnState.PAUSED
        self._open.last_voiced_s = overlap.last_voiced_s
        return self._consider(now_s)

    def _reply_ended(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.RESPONDING:
            return []
        overlap = self._overlap
        self._to_idle(now_s)
        # The user began before the reply had ended: that is the next turn.
        return self._next_turn(overlap, now_s) if overlap is not None else []

    def _reply_failed(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.RESPONDING:
            self.branch = None  # the turn will be answered the plain way
            return []
        if self._playing:
            return self._reply_ended(now_s)
        return [self._unanswered(now_s, "its reply failed")]

    def _stop(self, now_s: float, reason: str) -> list[Action]:
        if self.state is not TurnState.RESPONDING:
            return []
        self.to_say.clear()
        actions: list[Action] = [e.Interrupt(self.turn, reason)]
        if not self._playing:
            return [*actions, self._unanswered(now_s, reason)]
        return [*actions, *self._reply_ended(now_s)]

    def _quit(self, now_s: float) -> list[Action]:
        actions = self._stop(now_s, "the talk was ended")
        self.to_say.clear()
        if self.state is TurnState.IDLE:
            return actions
        if self.branch is not None:
            actions.append(self._drop("the talk was ended"))
        actions.append(e.Close(self.turn, "the talk was ended", self._open.text))
        self._to_idle(now_s)
        return actions
