"""What a trace says in figures: one row a turn, and totals. A pure function of the events.

``post_confirm_ttft_ms`` = max(0, first token - confirm): what the person waits for the model once the turn is over.
``dead_air_ms`` = first reply sample - end of speech: what the person feels. The end of speech is the labelled one
where a label is known, else the last voiced frame. Times are on the session's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .frames import TraceEvent

USER_SPOKE = "the user spoke"
FALSE_CUTOFF_S = 1.0
"""Speech over a reply that begins this soon after the confirm says that the turn was not over."""


@dataclass
class TurnRow:
    """One turn of the user's and what became of it."""

    turn: int
    user: str = ""
    agent: str = ""
    prepared: int = 0
    committed: int = 0
    discarded: int = 0
    discard_reasons: list[str] = field(default_factory=list)
    interrupted: bool = False
    false_interruptions: int = 0
    """How often its reply was held for what turned out to be no interruption, and went on."""
    approximate: bool = False
    """Whether a word of the reply left the model at an exit, unverified."""
    confirms: int = 0
    false_cutoffs: int = 0
    speech_end_s: float | None = None
    pause_s: float | None = None
    prepare_s: float | None = None
    confirm_s: float | None = None
    first_token_s: float | None = None
    first_audio_s: float | None = None
    post_confirm_ttft_ms: float | None = None
    dead_air_ms: float | None = None
    served_tokens: int = 0
    wasted_tokens: int = 0
    wasted_cpu_ms: float = 0.0
    discard_ms: list[float] = field(default_factory=list)
    error: str | None = None


def summarise(
    events: Iterable[TraceEvent], speech_ends_s: Sequence[float] = (), loop_lags_s: Sequence[float] = ()
) -> dict[str, Any]:
    """The figures of one session. ``speech_ends_s`` are labelled ends of speech, ``loop_lags_s`` the loop's delays."""
    rows: dict[int, TurnRow] = {}
    dropped, turn, pause_s, onset_s = 0, 0, None, 0.0
    for event in events:
        turn = event.fields.get("turn", turn)
        row = rows.setdefault(turn, TurnRow(turn))
        if event.kind == "speech_paused":
            pause_s = event.t_s
        elif event.kind in ("speech_started", "speech_resumed"):
            onset_s = event.fields["onset_s"]
        elif event.kind == "turn_confirmed":
            row.pause_s = pause_s
        elif event.kind == "session_ended":
            dropped = event.fields["frames_dropped"]
        _apply(row, event, onset_s)
    turns = [row for row in rows.values() if row.confirm_s is not None or row.prepared]
    for row in turns:
        _finish(row, speech_ends_s)
    answered = [row for row in turns if row.first_token_s is not None and row.agent]
    return {
        "turns": len(answered),
        "approximate_replies": sum(row.approximate for row in answered),
        **_totals(turns),
        "post_confirm_ttft_ms": spread([row.post_confirm_ttft_ms for row in answered]),
        "dead_air_ms": spread([row.dead_air_ms for row in answered]),
        "discard_ms": spread([ms for row in turns for ms in row.discard_ms]),
        "loop_lag_p99_ms": round(float(np.percentile(loop_lags_s, 99)) * 1000, 3) if len(loop_lags_s) else None,
        "frames_dropped": dropped,
        "per_turn": [asdict(row) for row in turns],
    }


def _apply(row: TurnRow, event: TraceEvent, onset_s: float) -> None:
    fields = event.fields
    match event.kind:
        case "branch_opened":
            row.prepared += 1
            row.prepare_s, row.first_token_s = event.t_s, None
        case "branch_discarded":
            row.discarded += 1
            row.discard_reasons.append(fields["reason"])
            row.wasted_tokens += fields["tokens"]
            row.wasted_cpu_ms += fields["cpu_ms"]
            row.discard_ms.append(fields["discard_ms"])
            row.prepare_s = row.first_token_s = None
        case "turn_confirmed":
            row.confirms += 1
            row.confirm_s, row.speech_end_s = event.t_s, fields["last_voiced_s"]
        case "reply_opened":
            row.first_token_s = None
        case "reply_committed":
            row.committed += 1
        case "first_token":
            row.first_token_s = event.t_s
        case "playback_started":
            row.first_audio_s = event.t_s
        case "playback_finished":
            row.served_tokens = fields["tokens"]
        case "reply_interrupted":
            row.interrupted = True
            soon = row.confirm_s is not None and onset_s - row.confirm_s < FALSE_CUTOFF_S
            row.false_cutoffs += soon and fields["reason"] == USER_SPOKE  # and not a key or another program
        case "reply_resumed":
            row.false_interruptions += 1
        case "reply_withdrawn":
            row.first_token_s = row.first_audio_s = None
            if fields["prepared"]:  # committed, then not heard: a guess that did not come true after all
                row.wasted_tokens += fields["tokens"]
                row.wasted_cpu_ms += fields["cpu_ms"]
                row.prepare_s = None
                row.committed -= 1
                row.discarded += 1
                row.discard_reasons.append(fields["reason"])
        case "turn_reopened":
            row.false_cutoffs += 1
        case "reply_failed":
            row.error = fields["error"]
            if fields.get("prepared") and row.prepared > row.committed + row.discarded:  # a branch, not yet the reply
                row.wasted_tokens += fields["tokens"]
                row.wasted_cpu_ms += fields["cpu_ms"]
                row.prepare_s = row.first_token_s = None
                row.discarded += 1
                row.discard_reasons.append("it failed")
        case "reply_served":
            row.user, row.agent = fields["user"], fields["agent"]
            row.approximate = fields.get("approximate", False)


def _finish(row: TurnRow, speech_ends_s: Sequence[float]) -> None:
    if row.confirm_s is None:
        return
    labels = [t for t in speech_ends_s if t <= row.confirm_s]
    if labels and row.speech_end_s is not None and abs(labels[-1] - row.speech_end_s) < FALSE_CUTOFF_S:
        row.speech_end_s = round(labels[-1], 6)
    if row.first_token_s is not None:
        row.post_confirm_ttft_ms = round(max(0.0, row.first_token_s - row.confirm_s) * 1000, 3)
    if row.first_audio_s is not None and row.speech_end_s is not None:
        row.dead_air_ms = round((row.first_audio_s - row.speech_end_s) * 1000, 3)


def _totals(turns: Sequence[TurnRow]) -> dict[str, Any]:
    prepared = sum(row.prepared for row in turns)
    committed = sum(row.committed for row in turns)
    confirms = sum(row.confirms for row in turns)
    false_cutoffs = sum(row.false_cutoffs for row in turns)
    return {
        "prepared": prepared,
        "committed": committed,
        "discarded": sum(row.discarded for row in turns),
        "spec_hit_rate": round(committed / prepared, 4) if prepared else None,
        "spec_wasted_tokens": sum(row.wasted_tokens for row in turns),
        "spec_wasted_cpu_ms": round(sum(row.wasted_cpu_ms for row in turns), 3),
        "interruptions": sum(row.interrupted for row in turns),
        "false_interruptions": sum(row.false_interruptions for row in turns),
        "false_cutoffs": false_cutoffs,
        "false_cutoff_rate": round(false_cutoffs / confirms, 4) if confirms else None,
    }


def spread(values: Sequence[float | None]) -> dict[str, float | int] | None:
    """Median, 95th percentile and number of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95 = (round(float(np.percentile(known, q)), 3) for q in (50, 95))
    return {"p50": p50, "p95": p95, "n": len(known)}
