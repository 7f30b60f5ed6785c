"""A participant's side of a meeting, played to the turn machine from its annotations: no audio, no models, no waiting.

The decisions are those of a real talk, since the same machine takes them, from the same kinds of evidence at the times
at which they would arrive: speech by the annotated voice, transcripts from the annotated words after the declared cost
of a reading, predictions from the length of the silence, the dialogue act from the classifier itself. Only the reply is
declared: a number of tokens at the declared cost, a voice of a declared pace. The participant was recorded long ago and
does not react to it.

It tells what it did as events of the runtime's own trace, so that the same summary counts them.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..config import Costs, PadsSettings
from ..frames import (
    ActClassified,
    Message,
    Role,
    SpeechPaused,
    SpeechStarted,
    TraceEvent,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from ..gate import events as m
from ..gate.machine import TurnMachine
from ..gate.premise import Premise, normalise
from ..turn.endpointing import confirm_after_s
from ..turn.silence import SilenceLaw
from .declared import DeclaredReply, ReplyShape, declared, tokens_of
from .party import Party, Stretch

HISTORY_ROWS = 12
"""Rows that are kept: a premise is compared with its history, and hours of it would be compared in vain."""
SPEECH = "(a reply)"
"""Stands for the agent's words in the history. It asks nothing."""


@dataclass
class Rehearsal:
    """``events()`` plays ``party`` through, once. ``p_deep`` reads a text."""

    party: Party
    settings: PadsSettings
    costs: Costs
    p_deep: Callable[[str], float]
    shape: ReplyShape = field(default_factory=ReplyShape)
    _trace: list[TraceEvent] = field(default_factory=list)
    _due: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)
    _now_s: float = 0.0
    _turn_start_s: float | None = None
    _speaking: bool = False
    _voiced: tuple[float, float] = (0.0, 0.0)
    _reading_until_s: float = 0.0
    _engine_free_s: float = 0.0
    _prefilled: int = 0
    _classified: str = ""
    _reply: DeclaredReply | None = None

    def events(self) -> list[TraceEvent]:
        """The trace, in order of time."""
        self._machine = TurnMachine(self.settings, "", lambda p: confirm_after_s(p, self.settings.turn))
        self._ends = [word.end_s for word in self.party.words]
        self._running_end = list(itertools.accumulate(self._ends, max))
        for stretch in self.party.stretches:
            self._hear(stretch)
        while True:
            deadline_s = self._machine.deadline_s()
            if self._due and (deadline_s is None or self._due[0][0] <= deadline_s):
                at_s, _, work = heapq.heappop(self._due)
                self._now_s = max(self._now_s, at_s)
                work(self._now_s)
            elif deadline_s is not None:
                self._now_s = max(self._now_s, deadline_s)
                self._after(self._machine.tick)
            else:
                return self._trace

    def _at(self, t_s: float, work: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (t_s, next(self._order), work))

    def _tell(self, event: m.Event) -> None:
        self._after(lambda _: self._machine.on(event))

    def _after(self, decide: Callable[[float], list[m.Action]]) -> None:
        before = self._machine.state
        for action in decide(self._now_s):
            self._do(action)
        if self._machine.state is TurnState.IDLE and before is not TurnState.IDLE:
            self._turn_start_s = None
            if self._speaking:  # voice that goes on through the turn's end is a new turn's
                onset_s, voiced = self._now_s, self._voiced
                self._at(onset_s + self.settings.vad.start_s, lambda t_s: self._goes_on(onset_s, voiced, t_s))

    def _goes_on(self, onset_s: float, voiced: tuple[float, float], now_s: float) -> None:
        if self._speaking and self._voiced == voiced and self._turn_start_s is None:
            self._begin_speech(onset_s, now_s)

    # ------------------------------------------------------------ hearing

    def _hear(self, stretch: Stretch) -> None:
        """Voice activity says that there is speech, or a pause, as late as it does on audio."""
        vad = self.settings.vad
        if stretch.end_s - stretch.start_s < vad.start_s:
            return
        self._at(stretch.start_s + vad.start_s, lambda now_s: self._speech(stretch, now_s))
        for moment_s in self.settings.turn.predict_at_s:
            self._at(stretch.end_s + moment_s, lambda now_s, silence_s=moment_s: self._ask(stretch, silence_s, now_s))  # type: ignore[misc]
        self._at(stretch.end_s + vad.pause_s, lambda now_s: self._pause(stretch, now_s))

    def _speech(self, stretch: Stretch, now_s: float) -> None:
        self._speaking = True
        self._voiced = (stretch.start_s, stretch.end_s)
        self._begin_speech(stretch.start_s, now_s)

    def _begin_speech(self, onset_s: float, now_s: float) -> None:
        self._keep_turn(onset_s)
        self._tell(SpeechStarted(now_s, onset_s))
        self._keep_turn(onset_s)
        self._at(now_s + self.settings.asr.partial_every_s, self._read_partial)

    def _keep_turn(self, onset_s: float) -> None:
        if self._turn_start_s is None:
            self._turn_start_s = onset_s - self.settings.vad.preroll_s

    def _pause(self, stretch: Stretch, now_s: float) -> None:
        if self._voiced != (stretch.start_s, stretch.end_s):
            return
        self._speaking = False
        self._tell(SpeechPaused(now_s, stretch.end_s))
        self._read(now_s, final=True)

    def _ask(self, stretch: Stretch, silence_s: float, now_s: float) -> None:
        if self._turn_start_s is None or self._voiced != (stretch.start_s, stretch.end_s):
            return
        p_end = SilenceLaw().p_end(silence_s)
        told_s = now_s + self.costs.predictor_call_s
        self._at(told_s, lambda t_s: self._tell(TurnEndPredicted(t_s, p_end, stretch.end_s + silence_s)))

    # ------------------------------------------------------------ words

    def _read_partial(self, now_s: float) -> None:
        if not self._speaking or self._turn_start_s is None:
            return
        self._read(now_s, final=False)
        self._at(max(now_s + self.settings.asr.partial_every_s, self._reading_until_s), self._read_partial)

    def _read(self, now_s: float, final: bool) -> None:
        """A reading takes its declared time, one after the other; a final one is of all that was said."""
        if self._turn_start_s is None:
            return
        start_s = self._turn_start_s
        audio_s = min(now_s - start_s, self.settings.asr.window_s)
        cost_s = self.costs.recognizer_base_s + self.costs.recognizer_per_audio_s * audio_s
        self._reading_until_s = max(now_s, self._reading_until_s) + cost_s
        self._at(self._reading_until_s, lambda t_s: self._words(start_s, now_s, final, t_s))

    def _words(self, start_s: float, until_s: float, final: bool, now_s: float) -> None:
        if self._turn_start_s != start_s:
            return
        words = self.party.words
        first = bisect_right(self._running_end, start_s)
        spoken = itertools.takewhile(lambda word: word.start_s < until_s, words[first:])
        text = " ".join(word.text for word in spoken if start_s < word.end_s <= until_s + 1e-9)
        self._tell(TranscriptUpdated(now_s, text, "", final, until_s))
        if self._machine.state not in (TurnState.LISTENING, TurnState.PAUSED):
            return
        if self.settings.engine.follow != "none" and self._reply is None:
            self._prefilled = max(self._prefilled, tokens_of(text))
        if normalise(text) and normalise(text) != self._classified:
            self._classified = normalise(text)
            p_deep = self.p_deep(text)
            self._at(now_s + self.costs.classifier_call_s, lambda t_s: self._tell(ActClassified(t_s, p_deep, text)))

    # ------------------------------------------------------------ the reply

    def _do(self, action: m.Action) -> None:
        now_s = self._now_s
        match action:
            case m.Prepare():
                self._emit("branch_opened", turn=action.turn, text=action.premise.text)
                self._begin(action.turn, action.premise, prepared=True)
            case m.Answer():
                self._emit("reply_opened", turn=action.turn, text=action.premise.text)
                self._speak_from(self._begin(action.turn, action.premise, prepared=False))
            case m.Confirm():
                self._emit("turn_confirmed", turn=action.turn, last_voiced_s=action.last_voiced_s)
                if self._speaking:  # closed by force
                    self._read(now_s, final=True)
            case m.Commit():
                assert self._reply is not None
                done = self._reply.generated_s <= now_s
                self._emit("reply_committed", turn=action.turn, tokens=self._made(), generated=done)
                self._speak_from(self._reply)
            case m.Discard():
                self._emit("branch_discarded", turn=action.turn, reason=action.reason, **self._cost(), discard_ms=0.0)
                self._end_reply()
            case m.Reopen():
                self._withdraw("the turn was not over")
                self._emit("turn_reopened", turn=action.turn)
            case m.Interrupt():
                self._interrupt(action.turn, action.reason)
            case m.Hold():
                self._hold(action.turn, action.reason)
            case m.Resume():
                self._emit("reply_resumed", turn=action.turn, reason=action.reason)
                if self._reply is not None:
                    self._play(self._reply)
            case m.Revise():
                self._revise(action.turn, action.reason)
            case m.Close():
                self._emit("turn_closed", turn=action.turn, reason=action.reason)
                self._turn_start_s = None
            case m.Ignore():
                self._emit("speech_ignored", turn=action.turn, reason=action.reason)
                self._turn_start_s = None
            case m.Say():
                raise AssertionError("nobody asked for a text")

    def _begin(self, turn: int, premise: Premise, prepared: bool) -> DeclaredReply:
        """The engine takes it up when it is free: what was not read while the user spoke, then token by token."""
        new = max(0, tokens_of(premise.text) - self._prefilled) + 1
        began_s = max(self._now_s, self._engine_free_s)
        reply = self._reply = declared(self.shape, self.costs, new, (turn, premise, prepared), began_s)
        self._at(reply.first_token_s, lambda _: self._mark(reply, "first_token"))
        self._at(reply.generated_s, lambda _: self._mark(reply, "reply_generated", tokens=self.shape.tokens))
        return reply

    def _mark(self, reply: DeclaredReply, kind: str, **fields: Any) -> None:
        if self._reply is reply:
            self._emit(kind, turn=reply.turn, **fields)

    def _speak_from(self, reply: DeclaredReply) -> None:
        self._at(max(self._now_s, reply.speakable_s), lambda now_s: self._sound(reply))

    def _sound(self, reply: DeclaredReply) -> None:
        if self._reply is not reply:
            return
        self._emit("playback_started", turn=reply.turn)
        self._turn_start_s = None
        self._tell(m.PlaybackStarted(self._now_s))
        self._play(reply)

    def _play(self, reply: DeclaredReply) -> None:
        reply.playing_since_s = self._now_s
        ticket = reply.ticket = next(self._order)
        end_s = max(self._now_s + reply.lasts_s - reply.played_s, reply.generated_s)
        self._at(end_s, lambda now_s: self._played_out(reply) if reply.ticket == ticket else None)

    def _played_out(self, reply: DeclaredReply) -> None:
        if self._reply is not reply or reply.playing_since_s is None:
            return
        self._emit("playback_finished", turn=reply.turn, text=SPEECH, tokens=self.shape.tokens)
        self._serve(reply)
        self._end_reply()
        self._tell(m.PlaybackFinished(self._now_s))

    def _hold(self, turn: int, reason: str) -> None:
        self._emit("reply_held", turn=turn, reason=reason)
        if self._reply is not None:
            self._stop_sound(self._reply)

    def _stop_sound(self, reply: DeclaredReply) -> None:
        reply.stop(self._now_s)
        reply.ticket = next(self._order)

    def _interrupt(self, turn: int, reason: str) -> None:
        reply = self._reply
        if reply is None:
            return
        self._stop_sound(reply)
        if reply.played_s <= 0.0:
            self._withdraw(reason)
            return
        self._emit("reply_interrupted", turn=turn, reason=reason, played_s=reply.played_s)
        self._serve(reply)
        self._end_reply()

    def _revise(self, turn: int, reason: str) -> None:
        reply = self._reply
        heard = reply is not None and reply.playing_since_s is not None and self._now_s > reply.playing_since_s
        self._interrupt(turn, reason)
        now_s = self._now_s
        self._at(now_s, lambda t_s: self._tell(m.ReplyCut(t_s, heard)))

    def _withdraw(self, reason: str) -> None:
        reply = self._reply
        if reply is not None:
            fields = {"reason": reason, "prepared": reply.prepared, **self._cost()}
            self._emit("reply_withdrawn", turn=reply.turn, **fields)
            self._end_reply()

    def _end_reply(self) -> None:
        reply, self._reply = self._reply, None
        self._prefilled = 0
        if reply is not None:
            self._engine_free_s = min(max(reply.began_s, self._now_s) + self.costs.rollback_s, reply.generated_s)

    def _serve(self, reply: DeclaredReply) -> None:
        rows = (Message(Role.USER, reply.premise.text), Message(Role.AGENT, SPEECH))
        self._machine.history = (*self._machine.history, *rows)[-HISTORY_ROWS:]
        self._emit("reply_served", turn=reply.turn, user=reply.premise.text, agent=SPEECH)

    def _made(self) -> int:
        return self._reply.made_by(self._now_s, self.shape, self.costs) if self._reply else 0

    def _cost(self) -> dict[str, Any]:
        return {"tokens": self._made(), "cpu_ms": self._reply.spent_ms(self._now_s) if self._reply else 0.0}

    def _emit(self, kind: str, **fields: Any) -> None:
        self._trace.append(TraceEvent(round(self._now_s, 6), kind, fields))
