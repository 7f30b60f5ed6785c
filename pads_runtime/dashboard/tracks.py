"""The last minutes of a talk as the tracks of a timeline: a pure function of its trace, bounded in time and number.

A stretch that still lasts has no end. What is only prepared is a stretch of ``replies`` and nothing else; a stretch of
``agent`` is what is heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..frames import TraceEvent, TurnState
from ..view.fields import number, text_of

KEEP_S = 150.0
"""How far back the tracks reach."""
KEEP_ITEMS = 600
"""No track holds more."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that lasted from ``start_s`` to ``end_s``; None while it lasts."""

    start_s: float
    end_s: float | None = None
    label: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A probability at a time."""

    t_s: float
    p: float


@dataclass(frozen=True, slots=True)
class Tracks:
    """One tuple a track, in order of time. ``states`` are labelled with a TurnState, ``replies`` with what became of
    them: prepared, committed, plain, discarded, withdrawn or failed."""

    user: tuple[Stretch, ...] = ()
    agent: tuple[Stretch, ...] = ()
    p_end: tuple[Point, ...] = ()
    p_deep: tuple[Point, ...] = ()
    states: tuple[Stretch, ...] = ()
    replies: tuple[Stretch, ...] = ()
    marks: tuple[Stretch, ...] = ()
    """Moments: the turn confirmed, the reply interrupted."""


def mark(tracks: Tracks, event: TraceEvent) -> Tracks:
    """The tracks after ``event``. Events and fields that are not known change nothing."""
    fields, t_s = event.fields, event.t_s
    match event.kind:
        case "speech_started" | "speech_resumed":
            onset_s = _at(fields, "onset_s", t_s)
            return replace(tracks, user=_begin(tracks.user, Stretch(onset_s), t_s))
        case "speech_paused":
            return replace(tracks, user=_end(tracks.user, _at(fields, "last_voiced_s", t_s)))
        case "speech_ignored":
            return replace(tracks, user=_relabel(tracks.user, "ignored", text_of(fields, "reason")))
        case "muted" | "unmuted":
            return replace(tracks, user=_end(tracks.user, t_s))
        case "turn_end_predicted":
            return replace(tracks, p_end=_add(tracks.p_end, fields, "p_end", t_s))
        case "act_classified":
            return replace(tracks, p_deep=_add(tracks.p_deep, fields, "p_deep", t_s))
        case "state_changed":
            return replace(tracks, states=_begin(tracks.states, Stretch(t_s, label=_state(fields)), t_s))
        case "turn_confirmed":
            return _moment(tracks, t_s, "turn over")
        case "reply_interrupted":
            tracks = _moment(tracks, t_s, "interrupted")
            return replace(tracks, agent=_end(tracks.agent, t_s), replies=_end(tracks.replies, t_s))
        case "session_ended":
            return _close(tracks, t_s)
        case _:
            return _reply(tracks, event)


def _reply(tracks: Tracks, event: TraceEvent) -> Tracks:
    fields, t_s = event.fields, event.t_s
    reason = text_of(fields, "reason") or text_of(fields, "error")
    match event.kind:
        case "branch_opened":
            return replace(tracks, replies=_begin(tracks.replies, Stretch(t_s, label="prepared"), t_s))
        case "reply_opened":
            return replace(tracks, replies=_begin(tracks.replies, Stretch(t_s, label="plain"), t_s))
        case "reply_committed":
            return replace(tracks, replies=_relabel(tracks.replies, "committed", ""))
        case "branch_discarded" | "reply_withdrawn" | "reply_failed":
            label = {"branch_discarded": "discarded", "reply_withdrawn": "withdrawn"}.get(event.kind, "failed")
            return replace(tracks, replies=_end(_relabel(tracks.replies, label, reason), t_s))
        case "playback_started":
            began = _begin(tracks.agent, Stretch(t_s), t_s)
            return replace(tracks, agent=began, replies=_end(tracks.replies, t_s))
        case "reply_held":
            return replace(tracks, agent=_end(tracks.agent, t_s))
        case "reply_resumed":
            return replace(tracks, agent=_begin(tracks.agent, Stretch(t_s), t_s))
        case "playback_finished":
            return replace(tracks, agent=_end(tracks.agent, t_s))
        case _:
            return tracks


def since(tracks: Tracks, from_s: float) -> dict[str, list[list[Any]]]:
    """The tracks from ``from_s`` on as plain lists: [start, end or null, label, note] and [time, probability]."""
    stretches = {name: getattr(tracks, name) for name in ("user", "agent", "states", "replies", "marks")}
    points = {"p_end": tracks.p_end, "p_deep": tracks.p_deep}
    plain: dict[str, list[list[Any]]] = {
        name: [
            [_r(s.start_s), None if s.end_s is None else _r(s.end_s), s.label, s.note]
            for s in track
            if s.end_s is None or s.end_s >= from_s
        ]
        for name, track in stretches.items()
    }
    plain |= {name: [[_r(p.t_s), _r(p.p)] for p in track if p.t_s >= from_s] for name, track in points.items()}
    return plain


def _r(value: float) -> float:
    return round(value, 3)


# ---------------------------------------------------------------- one track


def _begin(track: tuple[Stretch, ...], stretch: Stretch, now_s: float) -> tuple[Stretch, ...]:
    """A new stretch; one that still lasted ends where it begins."""
    return (*_recent(_end(track, stretch.start_s), now_s), stretch)


def _recent(track: tuple[Stretch, ...], now_s: float) -> tuple[Stretch, ...]:
    """Without what ended too long ago, and with room for one more."""
    old = max(0, len(track) - KEEP_ITEMS + 1)
    while old < len(track) and (track[old].end_s or now_s) < now_s - KEEP_S:
        old += 1
    return track[old:]


def _end(track: tuple[Stretch, ...], end_s: float) -> tuple[Stretch, ...]:
    if not track or track[-1].end_s is not None:
        return track
    return (*track[:-1], replace(track[-1], end_s=max(track[-1].start_s, end_s)))


def _relabel(track: tuple[Stretch, ...], label: str, note: str) -> tuple[Stretch, ...]:
    return (*track[:-1], replace(track[-1], label=label, note=note)) if track else track


def _moment(tracks: Tracks, t_s: float, label: str) -> Tracks:
    return replace(tracks, marks=(*_recent(tracks.marks, t_s), Stretch(t_s, t_s, label)))


def _close(tracks: Tracks, t_s: float) -> Tracks:
    user, agent = _end(tracks.user, t_s), _end(tracks.agent, t_s)
    return replace(tracks, user=user, agent=agent, states=_end(tracks.states, t_s), replies=_end(tracks.replies, t_s))


def _add(track: tuple[Point, ...], fields: Mapping[str, Any], key: str, t_s: float) -> tuple[Point, ...]:
    p = number(fields, key)
    if p is None:
        return track
    old = max(0, len(track) - KEEP_ITEMS + 1)
    while old < len(track) and track[old].t_s < t_s - KEEP_S:
        old += 1
    return (*track[old:], Point(t_s, min(1.0, max(0.0, p))))


def _at(fields: Mapping[str, Any], key: str, default: float) -> float:
    value = number(fields, key)
    return default if value is None else value


def _state(fields: Mapping[str, Any]) -> str:
    value = text_of(fields, "state")
    return value if value in {state.value for state in TurnState} else TurnState.IDLE.value
