"""From a trace to what happened: speech, probabilities, states, replies and turns. Pure.

A trace may be cut at either end (a bounded memory, a killed process) or come from a later version, so a missing field
or an event that belongs to nothing known is left out instead of being an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..frames import TraceEvent, TurnState
from .facts import Band, Point, Reply, Speech, Story, Turn, number, text_of, whole

SETTLE_S = 0.3
"""A reading that reaches less than this into a stretch of speech was asked for by the pause before it."""

_MARKS = re.compile(r"[^\w']+")


def tell(events: Sequence[TraceEvent]) -> Story:
    """Read a whole trace."""
    end_s = max((event.t_s for event in events), default=0.0)
    speech = hear(events, end_s)
    replies = follow_replies(events)
    bands, turns = follow_turns(events, speech, end_s)
    failed = [text_of(event, "error") for event in events if event.kind == "session_failed"]
    dropped = [whole(event.fields, "frames_dropped") for event in events if event.kind == "session_ended"]
    return Story(
        end_s=end_s,
        speech=speech,
        p_end=tuple(_points(events, "turn_end_predicted", "p_end")),
        p_deep=tuple(_points(events, "act_classified", "p_deep")),
        bands=bands,
        replies=replies,
        turns=tuple(_complete(turn, replies, speech) for turn in turns),
        failure=failed[-1] if failed else "",
        frames_dropped=dropped[-1] if dropped else 0,
    )


# ---------------------------------------------------------------- the user's voice


def hear(events: Sequence[TraceEvent], end_s: float) -> tuple[Speech, ...]:
    """The stretches of speech with the words that were recognised in each."""
    stretches: list[Speech] = []
    open_ = False
    utterance = 0
    for event in events:
        match event.kind:
            case "speech_started" | "speech_resumed":
                onset_s = number(event.fields, "onset_s", event.t_s)
                if open_:
                    stretches[-1] = replace(stretches[-1], end_s=onset_s)
                utterance += event.kind == "speech_started" or not stretches
                stretches.append(Speech(onset_s, end_s, utterance))
                open_ = True
            case "speech_paused" if open_:
                stretches[-1] = replace(stretches[-1], end_s=number(event.fields, "last_voiced_s", event.t_s))
                open_ = False
            case "turn_reopened" if len(stretches) > 1:
                utterance = stretches[-2].utterance
                stretches[-1] = replace(stretches[-1], utterance=utterance)
            case "speech_ignored" if stretches:
                stretches[-1] = replace(stretches[-1], ignored=text_of(event, "reason") or "ignored")
    return _with_words(stretches, [event for event in events if event.kind == "transcript_updated"])


def _with_words(stretches: list[Speech], readings: list[TraceEvent]) -> tuple[Speech, ...]:
    heard = [""] * len(stretches)
    for event in readings:
        text = f"{event.fields.get('stable', '')} {event.fields.get('unstable', '')}".strip()
        until_s = number(event.fields, "audio_end_s", event.t_s)
        begun = [i for i, s in enumerate(stretches) if s.start_s < event.t_s]
        owner = next((i for i in reversed(begun) if _reaches(stretches, i, until_s)), None)
        if owner is not None and text:
            heard[owner] = text
    worded = []
    for i, stretch in enumerate(stretches):
        goes_on = i > 0 and stretches[i - 1].utterance == stretch.utterance
        worded.append(replace(stretch, words=_new_words(heard[i - 1] if goes_on else "", heard[i])))
        if goes_on and not heard[i]:
            heard[i] = heard[i - 1]
    return tuple(worded)


def _reaches(stretches: list[Speech], i: int, until_s: float) -> bool:
    first = i == 0 or stretches[i - 1].utterance != stretches[i].utterance
    return until_s > stretches[i].start_s + (0.0 if first else SETTLE_S)


def _new_words(before: str, now: str) -> str:
    """The words of a reading that a shorter reading of the same utterance did not have."""
    words = now.split()
    same = 0
    for old, new in zip(before.split(), words, strict=False):
        if _MARKS.sub("", old).casefold() != _MARKS.sub("", new).casefold():
            break
        same += 1
    return " ".join(words[same:])


# ---------------------------------------------------------------- probabilities


def _points(events: Sequence[TraceEvent], kind: str, key: str) -> list[Point]:
    points = []
    for event in events:
        p = number(event.fields, key, math.nan)
        if event.kind != kind or math.isnan(p):
            continue
        if "text" in event.fields:
            note = f"read from the words: {event.fields['text']}"
        else:
            note = f"from sound up to {number(event.fields, 'audio_end_s', event.t_s):.2f} s"
        points.append(Point(event.t_s, min(1.0, max(0.0, p)), note))
    return points


# ---------------------------------------------------------------- replies


def follow_replies(events: Sequence[TraceEvent]) -> tuple[Reply, ...]:
    """Every reply that was opened and what became of it."""
    replies: list[Reply] = []
    for event in events:
        turn = whole(event.fields, "turn")
        if event.kind in ("branch_opened", "reply_opened", "say_started"):  # a text to say answers nothing
            prepared = event.kind == "branch_opened"
            premise = "" if event.kind == "say_started" else text_of(event, "text")
            reply = Reply(turn, prepared, event.t_s, premise)
            replies.append(reply if prepared else replace(reply, outcome="plain", committed_s=event.t_s))
            continue
        at = next((i for i in reversed(range(len(replies))) if replies[i].turn == turn), None)
        if at is not None:
            replies[at] = replace(replies[at], **_changes(replies[at], event))
    return tuple(replies)


def _changes(reply: Reply, event: TraceEvent) -> dict[str, Any]:
    t_s, fields = event.t_s, event.fields
    tokens = whole(fields, "tokens", reply.tokens)
    match event.kind:
        case "first_token":
            return {"first_token_s": t_s}
        case "phrase_ready":
            return {"first_phrase_s": t_s if reply.first_phrase_s is None else reply.first_phrase_s}
        case "reply_generated":
            return {"generated_s": t_s, "tokens": tokens, "said": text_of(event, "text")}
        case "reply_committed":
            return {"committed_s": t_s, "outcome": "committed", "tokens": tokens}
        case "branch_discarded" | "reply_withdrawn" | "say_withdrawn" | "reply_failed":
            outcome = {"branch_discarded": "discarded", "reply_failed": "failed"}.get(event.kind, "withdrawn")
            reason = text_of(event, "error" if outcome == "failed" else "reason")
            cpu_ms = number(fields, "cpu_ms", math.nan)
            cost = {"tokens": tokens, "cpu_ms": None if math.isnan(cpu_ms) else cpu_ms}
            return {"outcome": outcome, "ended_s": t_s, "reason": reason, **cost}
        case "playback_started":
            return {"playing_s": t_s}
        case "playback_finished":
            return {"played_s": t_s, "said": text_of(event, "text") or reply.said}
        case "reply_interrupted":
            return {"played_s": t_s, "said": text_of(event, "heard"), "reason": text_of(event, "reason")}
        case _:
            return {}


# ---------------------------------------------------------------- turns


def follow_turns(
    events: Sequence[TraceEvent], speech: Sequence[Speech], end_s: float
) -> tuple[tuple[Band, ...], list[Turn]]:
    """The states one after the other, and the turns with what the turn machine said of them."""
    bands = [Band(min((event.t_s for event in events), default=0.0), end_s, TurnState.IDLE.value)]
    turns: dict[int, Turn] = {}
    for event in events:
        turn = turns.get(whole(event.fields, "turn"))
        match event.kind:
            case "state_changed":
                bands[-1] = replace(bands[-1], end_s=event.t_s)
                bands.append(Band(event.t_s, end_s, text_of(event, "state")))
                if turn is None:
                    turn = _begin(turns, whole(event.fields, "turn"), event.t_s, text_of(event, "before"), speech)
                turns[turn.number] = replace(turn, end_s=event.t_s)
            case "turn_confirmed" if turn:
                ended_s = number(event.fields, "last_voiced_s", event.t_s)
                turns[turn.number] = replace(turn, confirmed_s=event.t_s, speech_end_s=ended_s)
            case "turn_reopened" if turn:
                turns[turn.number] = replace(turn, confirmed_s=None, speech_end_s=None)
            case "turn_closed" if turn:
                turns[turn.number] = replace(turn, closed=text_of(event, "reason"))
            case "reply_served" if turn:
                user, agent = text_of(event, "user"), text_of(event, "agent")
                turns[turn.number] = replace(turn, user=user, agent=agent)
    if turns and bands[-1].state != TurnState.IDLE.value:
        last = next(reversed(turns))
        turns[last] = replace(turns[last], end_s=end_s)
    return tuple(band for band in bands if band.end_s > band.start_s), list(turns.values())


def _begin(turns: dict[int, Turn], turn: int, now_s: float, before: str, speech: Sequence[Speech]) -> Turn:
    start_s = max((s.start_s for s in speech if s.start_s <= now_s), default=now_s)
    if turns:
        last = next(reversed(turns))
        start_s = max(start_s, turns[last].end_s)
        if before != TurnState.IDLE.value:  # the user spoke over the reply: the old turn lasts until then
            turns[last] = replace(turns[last], end_s=start_s)
    return Turn(turn, start_s, now_s)


def _complete(turn: Turn, replies: Sequence[Reply], speech: Sequence[Speech]) -> Turn:
    kept = [r for r in replies if r.turn == turn.number and r.committed_s is not None and not r.thrown_away]
    if kept:
        turn = replace(turn, first_token_s=kept[-1].first_token_s, first_audio_s=kept[-1].playing_s)
    if turn.user:
        return turn
    said = [s.words for s in speech if turn.start_s <= s.start_s < turn.end_s and s.words and not s.ignored]
    return replace(turn, user=" ".join(said), agent=turn.agent or (kept[-1].said if kept else ""))
