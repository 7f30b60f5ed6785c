"""What there is to see of a talk, as a pure function of its trace: ``reduce(seen, event)`` and nothing else.

What is only prepared and what was said are two different fields: ``Seen.reply`` holds a reply on its way, with
``committed`` false until the gate has said so, and only ``reply_served`` makes a line of ``Seen.said`` of it, with the
words that were heard. A branch that is discarded leaves no text behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..frames import TraceEvent, TurnState
from .fields import number, text_of
from .notices import notice_of

KEEP_LINES = 50
"""Lines of the talk that stay in memory."""
KEEP_NOTICES = 4


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of a reply, ``s`` seconds of sound, that begins to sound at ``starts_s``; None while nothing plays."""

    text: str
    s: float
    ready_s: float
    starts_s: float | None = None

    @property
    def ends_s(self) -> float:
        """When its sound ends; infinite while it has not begun."""
        return math.inf if self.starts_s is None else self.starts_s + self.s


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply on its way. Nothing of it is heard, and nothing may be shown as said, before ``committed``."""

    turn: int
    prepared: bool
    committed: bool
    phrases: tuple[Phrase, ...] = ()
    text: str = ""
    """The whole text, once it is generated."""
    playing: bool = False
    held: bool = False
    """Silent in the middle: it may go on, or be cut."""
    rest_s: float = 0.0
    """Sound that was left when it was held."""
    interrupted: bool = False
    first_token_s: float | None = None

    def waiting_text(self, now_s: float) -> str:
        """The words that have not begun to sound at ``now_s``, as far as they are known."""
        begun = [p for p in self.phrases if p.starts_s is not None and p.starts_s <= now_s]
        known = " ".join(phrase.text for phrase in self.phrases)
        whole = self.text if len(self.text) > len(known) else known
        spoken = " ".join(phrase.text for phrase in begun)
        return whole.removeprefix(spoken).strip() if whole.startswith(spoken) else known.removeprefix(spoken).strip()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the talk: what was understood or heard, never what was only prepared."""

    turn: int
    who: str
    """``user`` or ``agent``."""
    text: str
    note: str = ""
    """What there is to know about it: prepared in the pause, interrupted, why it got no answer."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something out of the ordinary, in one line."""

    t_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Latency:
    """How fast a turn was answered; the figures of ``pads_runtime/summary.py``."""

    turn: int
    prepared: bool
    post_confirm_ttft_ms: float | None
    dead_air_ms: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the replies so far."""

    answered: int = 0
    prepared: int = 0
    committed: int = 0
    discarded: int = 0
    wasted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """All there is to show. ``t_s`` is the time of the last event."""

    t_s: float = 0.0
    turn: int = 0
    state: TurnState = TurnState.IDLE
    speaking: bool = False
    """Whether the user speaks."""
    stable: str = ""
    unstable: str = ""
    p_end: float | None = None
    """In this pause; None where the predictor has not been asked yet."""
    p_deep: float | None = None
    """Of the words so far; None where there are none yet."""
    reply: Reply | None = None
    said: tuple[Line, ...] = ()
    confirmed_s: float | None = None
    speech_ended_s: float | None = None
    last: Latency | None = None
    counts: Counts = Counts()
    muted: bool = False
    notices: tuple[Notice, ...] = ()
    ended: bool = False


def reduce(seen: Seen, event: TraceEvent) -> Seen:
    """What is to be seen after ``event``. Events and fields that are not known change nothing."""
    fields = event.fields
    seen = replace(seen, t_s=max(seen.t_s, event.t_s))
    match event.kind:
        case "speech_started" | "speech_resumed":
            return replace(seen, speaking=True, p_end=None)
        case "speech_paused":
            return replace(seen, speaking=False)
        case "transcript_updated":
            return replace(seen, stable=text_of(fields, "stable"), unstable=text_of(fields, "unstable"))
        case "turn_end_predicted":
            return replace(seen, p_end=number(fields, "p_end"))
        case "act_classified":
            return replace(seen, p_deep=number(fields, "p_deep"))
        case "state_changed":
            return _on_state(seen, fields)
        case "muted" | "unmuted":
            return replace(seen, muted=event.kind == "muted", speaking=seen.speaking and event.kind == "unmuted")
        case "session_ended":
            return replace(seen, ended=True, reply=None, speaking=False)
        case _:
            return _on_notice(_on_reply(seen, event), event)


def _on_state(seen: Seen, fields: Mapping[str, Any]) -> Seen:
    state = _state(text_of(fields, "state"))
    turn = int(number(fields, "turn") or seen.turn)
    if state is TurnState.IDLE:
        seen = _without_words(seen)
    elif turn != seen.turn:
        seen = replace(seen, p_end=None, confirmed_s=None)
    return replace(seen, state=state, turn=turn)


def _without_words(seen: Seen) -> Seen:
    return replace(seen, stable="", unstable="", p_end=None, p_deep=None, confirmed_s=None, speech_ended_s=None)


def _state(value: str) -> TurnState:
    return TurnState(value) if value in {state.value for state in TurnState} else TurnState.IDLE


# ---------------------------------------------------------------- replies


def _on_reply(seen: Seen, event: TraceEvent) -> Seen:
    fields, counts = event.fields, seen.counts
    turn = int(number(fields, "turn") or seen.turn)
    match event.kind:
        case "branch_opened":
            counts = replace(counts, prepared=counts.prepared + 1)
            return replace(seen, reply=Reply(turn, prepared=True, committed=False), counts=counts)
        case "reply_opened":
            return replace(seen, reply=Reply(turn, prepared=False, committed=True))
        case "say_started":
            spoken = Reply(turn, prepared=False, committed=True, text=text_of(fields, "text"))
            return replace(seen, reply=spoken)
        case "say_withdrawn":
            return replace(seen, reply=None)
        case "say_finished":
            return _said(seen, turn, fields)
        case "branch_discarded":
            return replace(seen, reply=None, counts=_discarded(counts, fields))
        case "reply_withdrawn":
            if fields.get("prepared") is True:  # committed, then not heard: a guess that did not come true after all
                counts = replace(_discarded(counts, fields), committed=counts.committed - 1)
            return replace(seen, reply=None, counts=counts)
        case "turn_confirmed":
            return replace(seen, confirmed_s=event.t_s, speech_ended_s=number(fields, "last_voiced_s"))
        case "turn_reopened":
            return replace(seen, confirmed_s=None)
        case "turn_closed":
            return _closed(seen, turn, fields)
        case "reply_served":
            return _served(seen, turn, fields)
        case _:
            return seen if seen.reply is None else _on_progress(seen, seen.reply, event)


def _on_progress(seen: Seen, reply: Reply, event: TraceEvent) -> Seen:
    fields, counts = event.fields, seen.counts
    match event.kind:
        case "first_token":
            return replace(seen, reply=replace(reply, first_token_s=event.t_s))
        case "phrase_ready":
            phrase = Phrase(text_of(fields, "text"), number(fields, "s") or 0.0, event.t_s)
            return replace(seen, reply=_timed(replace(reply, phrases=(*reply.phrases, phrase))))
        case "reply_generated":
            return replace(seen, reply=replace(reply, text=text_of(fields, "text")))
        case "reply_committed":
            counts = replace(counts, committed=counts.committed + 1)
            return replace(seen, reply=replace(reply, committed=True), counts=counts)
        case "playback_started":
            playing = replace(reply, playing=True, committed=True)
            return replace(seen, reply=_timed(playing, event.t_s), last=_latency(seen, reply, event.t_s))
        case "reply_held":
            return replace(seen, reply=_held(reply, fields, event.t_s))
        case "reply_resumed":
            return replace(seen, reply=_resumed(reply, fields, event.t_s))
        case "reply_interrupted":
            return replace(seen, reply=replace(reply, interrupted=True))
        case "reply_failed":
            return replace(seen, reply=None)
        case _:
            return seen


def _timed(reply: Reply, began_s: float | None = None) -> Reply:
    """When each phrase sounds: behind the one before it, or when it is ready if that is later."""
    if not reply.playing or reply.held:
        return reply
    timed: list[Phrase] = []
    for i, phrase in enumerate(reply.phrases):
        if phrase.starts_s is None:
            free_s = began_s if i == 0 else timed[-1].ends_s
            phrase = replace(phrase, starts_s=max(phrase.ready_s, free_s if free_s is not None else phrase.ready_s))
        timed.append(phrase)
    return replace(reply, phrases=tuple(timed))


def _held(reply: Reply, fields: Mapping[str, Any], now_s: float) -> Reply:
    """What was heard has sounded; the rest has not."""
    heard, played_s = text_of(fields, "heard"), number(fields, "played_s") or 0.0
    rest_s = max(0.0, sum(phrase.s for phrase in reply.phrases) - played_s)
    phrases = (Phrase(heard, 0.0, now_s, now_s),) if heard else ()
    text = reply.text or " ".join(phrase.text for phrase in reply.phrases)
    return replace(reply, held=True, rest_s=rest_s, phrases=phrases, text=text)


def _resumed(reply: Reply, fields: Mapping[str, Any], now_s: float) -> Reply:
    """What was left goes on at ``now_s``, with the phrases that became ready meanwhile."""
    begun = tuple(phrase for phrase in reply.phrases if phrase.starts_s is not None)
    rest_s = reply.rest_s + sum(phrase.s for phrase in reply.phrases if phrase.starts_s is None)
    rest = Phrase(text_of(fields, "rest"), rest_s, now_s, now_s)
    return replace(reply, held=False, rest_s=0.0, phrases=(*begun, rest) if rest.text else begun)


def _latency(seen: Seen, reply: Reply, now_s: float) -> Latency:
    ttft_ms = dead_ms = None
    if reply.first_token_s is not None and seen.confirmed_s is not None:
        ttft_ms = max(0.0, reply.first_token_s - seen.confirmed_s) * 1000
    if seen.speech_ended_s is not None:
        dead_ms = (now_s - seen.speech_ended_s) * 1000
    return Latency(reply.turn, reply.prepared, ttft_ms, dead_ms)


def _discarded(counts: Counts, fields: Mapping[str, Any]) -> Counts:
    wasted = counts.wasted_tokens + int(number(fields, "tokens") or 0)
    return replace(counts, discarded=counts.discarded + 1, wasted_tokens=wasted)


def _served(seen: Seen, turn: int, fields: Mapping[str, Any]) -> Seen:
    user, agent = text_of(fields, "user"), text_of(fields, "agent")
    lines = [Line(turn, "user", user)] if user else []
    if agent:
        reply = seen.reply or Reply(turn, prepared=False, committed=True)
        notes = [("prepared in the pause", reply.prepared), ("interrupted", reply.interrupted)]
        lines.append(Line(turn, "agent", agent, ", ".join(note for note, holds in notes if holds)))
    counts = replace(seen.counts, answered=seen.counts.answered + bool(agent))
    return replace(seen, said=(*seen.said, *lines)[-KEEP_LINES:], reply=None, stable="", unstable="", counts=counts)


def _said(seen: Seen, turn: int, fields: Mapping[str, Any]) -> Seen:
    """A text that was told to be said: a line of its own, as far as it was heard."""
    heard = text_of(fields, "heard")
    note = "said on request" + (", interrupted" if seen.reply is not None and seen.reply.interrupted else "")
    lines = (Line(turn, "agent", heard, note),) if heard else ()
    return replace(seen, said=(*seen.said, *lines)[-KEEP_LINES:], reply=None)


def _closed(seen: Seen, turn: int, fields: Mapping[str, Any]) -> Seen:
    heard = f"{seen.stable} {seen.unstable}".strip()
    if not heard:
        return seen
    line = Line(turn, "user", heard, f"no answer: {text_of(fields, 'reason')}")
    return replace(seen, said=(*seen.said, line)[-KEEP_LINES:], stable="", unstable="")


# ---------------------------------------------------------------- out of the ordinary


def _on_notice(seen: Seen, event: TraceEvent) -> Seen:
    text = notice_of(event)
    if not text:
        return seen
    return replace(seen, notices=(*seen.notices, Notice(event.t_s, text))[-KEEP_NOTICES:])
