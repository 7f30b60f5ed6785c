"""From trace events to messages on ``pads/<site>/...``: a table, and the little that must be remembered. Pure.

Nothing of a prepared reply is told before it is committed, and its text not before its first sound: a reply that was
never heard is never read either. Payloads are documented in the README beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..frames import TraceEvent
from .outbox import Grade, Letter

MAX_TEXT = 4000
"""Characters of one text in a message; longer ones are cut and end in an ellipsis."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of trace event: the topic's last part, the fields that are passed on, and what the message is worth."""

    topic: str
    fields: tuple[str, ...]
    grade: Grade
    of_turn: bool = False
    """Whether the open turn's number is added to an event that has none."""
    speculative: bool = False
    """Told only where that was asked for."""


_TURN = Grade.PROMISED
TABLE: Mapping[str, Row] = {
    "speech_started": Row("turn", ("onset_s",), _TURN),
    "speech_paused": Row("turn", ("last_voiced_s",), _TURN, of_turn=True),
    "speech_resumed": Row("turn", ("onset_s",), _TURN, of_turn=True),
    "speech_ignored": Row("turn", ("turn", "reason"), _TURN),
    "state_changed": Row("turn", ("turn", "before", "state"), _TURN),
    "turn_confirmed": Row("turn", ("turn", "last_voiced_s"), _TURN),
    "turn_reopened": Row("turn", ("turn",), _TURN),
    "turn_closed": Row("turn", ("turn", "reason"), _TURN),
    "muted": Row("turn", (), _TURN),
    "unmuted": Row("turn", (), _TURN),
    "session_failed": Row("turn", ("error",), _TURN),
    "turn_end_predicted": Row("gate", ("p_end", "audio_end_s"), Grade.LIVE, of_turn=True),
    "act_classified": Row("gate", ("p_deep",), Grade.LIVE, of_turn=True),
    "branch_opened": Row("reply", ("turn",), Grade.PROMISED, speculative=True),
    "branch_discarded": Row("reply", ("turn", "reason"), Grade.PROMISED, speculative=True),
    "reply_opened": Row("reply", ("turn",), Grade.PROMISED),
    "reply_committed": Row("reply", ("turn",), Grade.PROMISED),
    "reply_withdrawn": Row("reply", ("turn", "reason"), Grade.PROMISED),
    "playback_started": Row("reply", ("turn",), Grade.PROMISED),
    "reply_held": Row("reply", ("turn", "reason", "heard", "played_s"), Grade.PROMISED),
    "reply_resumed": Row("reply", ("turn", "reason"), Grade.PROMISED),
    "reply_interrupted": Row("reply", ("turn", "reason", "heard", "played_s"), Grade.PROMISED),
    "reply_served": Row("reply", ("turn", "user", "agent", "approximate"), Grade.PROMISED),
    "say_started": Row("reply", ("turn", "text"), Grade.PROMISED),
    "say_finished": Row("reply", ("turn", "text", "heard"), Grade.PROMISED),
    "say_withdrawn": Row("reply", ("turn", "reason"), Grade.PROMISED),
    "say_refused": Row("reply", ("reason",), Grade.PROMISED),
    "session_ended": Row("metrics", ("frames_dropped",), Grade.KEPT),
}
"""Kinds that pass on their fields as they are. ``transcript_updated``, ``reply_generated`` and ``reply_failed`` need
more care (below); every other kind stays inside."""
NAMES: Mapping[str, str] = {
    "branch_opened": "prepared",
    "branch_discarded": "withdrawn",
    "reply_withdrawn": "withdrawn",
    "reply_opened": "committed",
    "reply_committed": "committed",
    "session_ended": "talk_ended",
    "session_failed": "talk_failed",
}
"""Events whose name in a message is not the trace's."""


@dataclass
class _Branch:
    """What is known of the reply that is on its way."""

    committed: bool = False
    audible: bool = False
    text: str | None = None
    told_text: bool = False
    prepared: bool = False
    first_token_s: float | None = None
    confirmed_s: float | None = None
    last_voiced_s: float | None = None
    first_audio_s: float | None = None


class Translator:
    """Turns the events of one talk, in order, into letters. ``talk`` names the talk in every message."""

    def __init__(self, site: str, talk: str, announce_prepared: bool = False) -> None:
        self._base = f"pads/{site}/"
        self._talk, self._announce = talk, announce_prepared
        self._seq = 0
        self._turn = 0
        self._branch = _Branch()
        self._confirmed: tuple[float, float | None] | None = None
        self._wasted = {"tokens": 0, "cpu_ms": 0.0}
        self._special: Mapping[str, Callable[[TraceEvent], list[Letter]]] = {
            "transcript_updated": self._transcript,
            "reply_generated": self._generated,
            "reply_failed": self._failed,
        }

    def letters(self, event: TraceEvent) -> list[Letter]:
        """What ``event`` has to say to others: usually one letter, often none."""
        self._note(event)
        special = self._special.get(event.kind)
        if special is not None:
            return special(event)
        row = TABLE.get(event.kind)
        if row is None or (row.speculative and not self._announce):
            return []
        name = NAMES.get(event.kind, event.kind)
        fields = {key: event.fields[key] for key in row.fields if key in event.fields}
        if row.of_turn:
            fields = {"turn": self._turn, **fields}
        if event.kind in ("reply_opened", "reply_committed"):
            fields["prepared"] = event.kind == "reply_committed"
        letters = [self._letter(row.topic, name, event.t_s, fields, row.grade)]
        if event.kind == "playback_started":
            letters += self._text(event)
        if event.kind == "reply_served":
            letters.append(self._metrics(event))
        return letters

    # ------------------------------------------------------------ what is remembered

    def _note(self, event: TraceEvent) -> None:
        match event.kind:
            case "state_changed":
                self._turn = event.fields.get("turn", self._turn)
            case "turn_confirmed":
                self._confirmed = (event.t_s, event.fields.get("last_voiced_s"))
            case "branch_opened":
                self._branch = _Branch(prepared=True)
            case "branch_discarded" | "reply_withdrawn":
                self._waste(event)
                self._branch = _Branch()
            case "reply_opened":
                self._branch = _Branch(committed=True)
                self._settle()
            case "say_started":
                self._branch = _Branch(committed=True, told_text=True)  # its text came from outside
            case "reply_committed":
                self._branch.committed = True
                self._settle()
            case "first_token":
                self._branch.first_token_s = event.t_s
            case "reply_generated":
                self._branch.text = event.fields.get("text", "")
            case "playback_started":
                self._branch.audible = True
                self._branch.first_audio_s = event.t_s

    def _settle(self) -> None:
        if self._confirmed is not None:
            self._branch.confirmed_s, self._branch.last_voiced_s = self._confirmed

    def _waste(self, event: TraceEvent) -> None:
        self._wasted["tokens"] += event.fields.get("tokens", 0)
        self._wasted["cpu_ms"] += event.fields.get("cpu_ms", 0.0)

    # ------------------------------------------------------------ kinds that need care

    def _transcript(self, event: TraceEvent) -> list[Letter]:
        fields = {key: event.fields.get(key, "") for key in ("stable", "unstable")}
        final = bool(event.fields.get("final"))
        grade = Grade.PROMISED if final else Grade.LIVE
        fields = {"turn": self._turn, **fields, "final": final}
        return [self._letter("transcript", event.kind, event.t_s, fields, grade)]

    def _generated(self, event: TraceEvent) -> list[Letter]:
        return self._text(event) if self._branch.audible else []

    def _text(self, event: TraceEvent) -> list[Letter]:
        """The reply's text, once, as soon as it is whole and has begun to sound."""
        branch = self._branch
        if not branch.committed or branch.text is None or branch.told_text:
            return []
        branch.told_text = True
        fields = {"turn": event.fields.get("turn", self._turn), "text": branch.text}
        return [self._letter("reply", "reply_text", event.t_s, fields, Grade.PROMISED)]

    def _failed(self, event: TraceEvent) -> list[Letter]:
        self._waste(event)
        told = self._branch.committed or self._announce
        self._branch = _Branch(committed=self._branch.committed)
        if not told:
            return []  # nobody was told of it
        fields = {key: value for key, value in event.fields.items() if key in ("turn", "error")}
        return [self._letter("reply", "reply_failed", event.t_s, fields, Grade.PROMISED)]

    def _metrics(self, event: TraceEvent) -> Letter:
        """The figures of the turn just served; a figure that is not known is left out."""
        branch = self._branch
        fields: dict[str, Any] = {"turn": event.fields.get("turn", self._turn), "prepared": branch.prepared}
        if branch.first_token_s is not None and branch.confirmed_s is not None:
            fields["post_confirm_ttft_ms"] = round(max(0.0, branch.first_token_s - branch.confirmed_s) * 1000, 3)
        if branch.first_audio_s is not None and branch.last_voiced_s is not None:
            fields["dead_air_ms"] = round((branch.first_audio_s - branch.last_voiced_s) * 1000, 3)
        fields["wasted_tokens"] = self._wasted["tokens"]
        fields["wasted_cpu_ms"] = round(self._wasted["cpu_ms"], 3)
        self._wasted = {"tokens": 0, "cpu_ms": 0.0}
        self._branch = _Branch()
        self._confirmed = None
        return self._letter("metrics", "turn_metrics", event.t_s, fields, Grade.KEPT)

    def _letter(self, topic: str, name: str, t_s: float, fields: Mapping[str, Any], grade: Grade) -> Letter:
        payload: dict[str, Any] = {"event": name, "t_s": t_s, "talk": self._talk}
        if grade is Grade.PROMISED:
            self._seq += 1
            payload["seq"] = self._seq
        return Letter(self._base + topic, encode({**payload, **fields}), grade)


def encode(payload: Mapping[str, Any]) -> bytes:
    """Small JSON in UTF-8: no spaces, texts cut at MAX_TEXT, half a surrogate pair written as a question mark."""
    short = {key: _short(value) for key, value in payload.items()}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[: MAX_TEXT - 1] + "…"
    return value
