"""Shapes with a meaning of their own: a reply's bar, a voice's loudness, the hatching; and their words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .facts import Reply
from .svg import box, line, num, tag

LOUDNESS_S = 0.05
"""Time of one loudness value."""
BAR = 22.0

DEFS = tag(
    "defs",
    tag(
        "pattern",
        tag("rect", width=8, height=8, class_="hatch-ground")
        + tag("path", d="M-2 2l4 -4M0 8l8 -8M6 10l4 -4", class_="hatch-line"),
        id="hatch",
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )
    + tag(
        "pattern",
        tag("rect", width=8, height=8, class_="dots-ground") + tag("circle", cx=4, cy=4, r=1, class_="dots-dot"),
        id="dots",
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    ),
)
"""Patterns that carry a meaning together with a colour, so that none is needed to read the page."""


def seconds(s: float) -> str:
    """A length of time for a sentence."""
    return f"{s:.1f} s" if s < 60 else f"{int(s) // 60} min {int(s) % 60} s"


def reply_bar(reply: Reply, x: Callable[[float], float], end_s: float, y: float) -> str:
    """Full height while it is computed, low while it is ready and waits, with first token and first phrase."""
    last_s = reply.ended_s if reply.ended_s is not None else max(reply.committed_s or 0.0, reply.generated_s or 0.0)
    last_s = last_s if last_s > reply.opened_s else end_s
    computed_s = last_s if reply.generated_s is None else min(reply.generated_s, last_s)
    kind = "no" if reply.thrown_away else "open" if reply.outcome == "open" else "ok" if reply.prepared else "plain"
    parts = [box(x(reply.opened_s), y, x(computed_s) - x(reply.opened_s), BAR, f"reply {kind}")]
    if last_s > computed_s:
        parts.append(box(x(computed_s), y + BAR / 2 - 4, x(last_s) - x(computed_s), 8, f"reply {kind}", 1))
    if reply.thrown_away:
        parts.append(line(x(last_s), y - 3, x(last_s), y + BAR + 3, "cut"))
    if reply.first_token_s is not None:
        at = x(reply.first_token_s)
        parts.append(tag("path", d=f"M{num(at - 4.5)} {num(y + 15.5)}h9l-4.5 -8z", class_="mark"))
    if reply.first_phrase_s is not None:
        at = x(reply.first_phrase_s)
        parts.append(tag("path", d=f"M{num(at)} {num(y + 6)}l5 5l-5 5l-5 -5z", class_="mark"))
    return "".join(parts)


def reply_label(reply: Reply) -> str:
    """What became of it, in a few words."""
    tokens = f", {reply.tokens} tokens wasted" if reply.tokens else ""
    match reply.outcome:
        case "committed":
            return "✓ committed"
        case "plain":
            return "computed after the turn"
        case "open":
            return "… still open at the end"
        case _:
            return f"✕ {reply.outcome}: {reply.reason or 'no reason given'}{tokens}"


def reply_title(reply: Reply) -> str:
    """Everything about it, as sentences."""
    how = "Prepared in the pause" if reply.prepared else "Computed after the turn"
    parts = [f"{how}, from {reply.opened_s:.2f} s on, as an answer to: {reply.premise or '(no words)'}."]
    for name, t_s in (("First token", reply.first_token_s), ("First phrase as sound", reply.first_phrase_s)):
        if t_s is not None:
            parts.append(f"{name} after {(t_s - reply.opened_s) * 1000:.0f} ms.")
    if reply.prepared and reply.committed_s is not None:
        parts.append(f"Committed at {reply.committed_s:.2f} s.")
    if reply.thrown_away:
        cpu = "" if reply.cpu_ms is None else f" and {reply.cpu_ms:.0f} ms of computing"
        parts.append(
            f"{reply.outcome.capitalize()}: {reply.reason or 'no reason given'}. Wasted {reply.tokens} tokens{cpu}."
        )
    elif reply.said:
        parts.append(f"Reply: {reply.said}")
    return " ".join(parts)


def loudness_path(
    values: Sequence[float], peak: float, x: Callable[[float], float], end_s: float, y: float, class_: str
) -> str:
    """Loudness, one value per 50 ms, mirrored about ``y``; silence is left out, quiet speech is lifted."""
    runs: list[list[tuple[float, float]]] = []
    before = 0.0
    for i, value in enumerate(values[: round(end_s / LOUDNESS_S) + 1]):
        height = 16.0 * (min(1.0, value / peak) ** 0.7) if value > 0 else 0.0
        if height < 0.6:
            before = 0.0
            continue
        if not before:
            runs.append([])
        before = height
        runs[-1].append((x((i + 0.5) * LOUDNESS_S), height))
    half = (x(LOUDNESS_S) - x(0.0)) / 2
    shapes = []
    for run in runs:
        outline = [(run[0][0] - half, 0.0), *run, (run[-1][0] + half, 0.0)]
        there = " ".join(f"{num(at)} {num(y - height)}" for at, height in outline)
        back = " ".join(f"{num(at)} {num(y + height)}" for at, height in reversed(outline[1:-1]))
        shapes.append(f"M{there} {back}z")
    return tag("path", d="".join(shapes), class_=class_) if shapes else ""
