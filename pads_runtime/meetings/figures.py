"""What a replayed participant comes to: the trace against the annotated ends of turns, and the sum over many. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..frames import TraceEvent
from ..summary import spread, summarise
from .party import Party, Stretch

SLACK_S = 0.3
"""Voice activity and annotation may disagree by so much about where a stretch of voice ends."""
SUMMED = (
    "stretches",
    "turn_ends",
    "turns",
    "prepared",
    "committed",
    "discarded",
    "prepared_at_turn_ends",
    "confirmed",
    "confirmed_at_turn_ends",
    "cut_offs",
    "spec_wasted_tokens",
    "spec_wasted_cpu_ms",
    "hidden_ms",
)


def row_of(party: Party, events: Sequence[TraceEvent]) -> dict[str, Any]:
    """One participant's figures. ``events`` are on the meeting's clock.

    ``hidden_ms``: time between the opening of each branch that became the reply and the confirmation, at most until
    its reply was whole: work that was done before it was known to be wanted. ``cut_offs``: confirmed silences after
    which the participant went on without anyone else having taken the floor.
    """
    figures = summarise(events)
    confirmed = [e.fields["last_voiced_s"] for e in events if e.kind == "turn_confirmed"]
    ends = [_ends_turn(party.stretches, t_s) for t_s in confirmed]
    opened = [e.t_s for e in events if e.kind == "branch_opened"]
    return {
        "meeting": party.meeting,
        "speaker": party.speaker,
        "minutes": round(party.end_s / 60.0, 3),
        "stretches": len(party.stretches),
        "turn_ends": sum(stretch.turn_ends for stretch in party.stretches),
        **{key: figures[key] for key in ("turns", "prepared", "committed", "discarded")},
        "prepared_at_turn_ends": sum(_ends_turn(party.stretches, t_s) is True for t_s in opened),
        "confirmed": len(confirmed),
        "confirmed_at_turn_ends": sum(end is True for end in ends),
        "cut_offs": sum(end is False for end in ends),
        "spec_wasted_tokens": figures["spec_wasted_tokens"],
        "spec_wasted_cpu_ms": figures["spec_wasted_cpu_ms"],
        "hidden_ms": round(sum(_hidden_ms(events)), 3),
        "ttft_ms": _values(figures["per_turn"], "post_confirm_ttft_ms"),
        "dead_air_ms": _values(figures["per_turn"], "dead_air_ms"),
    }


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums and spreads over participants. The order of ``rows`` does not matter."""
    ordered = sorted(rows, key=lambda row: (row["meeting"], row["speaker"]))
    sums = {name: round(sum(row[name] for row in ordered), 3) for name in SUMMED}
    rates = {
        "spec_hit_rate": _share(sums["committed"], sums["prepared"]),
        "cut_off_rate": _share(sums["cut_offs"], sums["confirmed"]),
        "turn_ends_prepared": _share(sums["prepared_at_turn_ends"], sums["turn_ends"]),
    }
    spreads = {name: spread([ms for row in ordered for ms in row[name]]) for name in ("ttft_ms", "dead_air_ms")}
    return {
        "meetings": len({row["meeting"] for row in ordered}),
        "participants": len(ordered),
        "hours": round(sum(row["minutes"] for row in ordered) / 60.0, 2),
        **sums,
        **rates,
        "post_confirm_ttft_ms": spreads["ttft_ms"],
        "dead_air_ms": spreads["dead_air_ms"],
    }


def _ends_turn(stretches: Sequence[Stretch], t_s: float) -> bool | None:
    """Whether the silence around ``t_s`` ends a turn; None where the annotation has voice all around it."""
    at = bisect_right(stretches, t_s + SLACK_S, key=lambda stretch: stretch.end_s) - 1
    if at < 0 or (at + 1 < len(stretches) and stretches[at + 1].start_s < t_s - SLACK_S):
        return None
    return stretches[at].turn_ends


def _hidden_ms(events: Sequence[TraceEvent]) -> list[float]:
    hidden: list[float] = []
    opened_s = ready_s = None
    for event in events:
        if event.kind == "branch_opened":
            opened_s, ready_s = event.t_s, None
        elif event.kind == "reply_generated":
            ready_s = event.t_s
        elif event.kind == "reply_committed" and opened_s is not None:
            hidden.append((min(event.t_s, ready_s or event.t_s) - opened_s) * 1000.0)
    return hidden


def _values(turns: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [turn[name] for turn in turns if turn[name] is not None]


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
