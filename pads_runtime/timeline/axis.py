"""The common axis of seconds, the turns on it, and the moments of each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .facts import Turn
from .svg import box, fit, label, line, num, tag, titled

SMALL = 11.0
"""Size in px of remarks."""
PAD = 14.0
"""Room left and right of the axis, in px."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds to px."""

    px_per_s: float
    end_s: float
    pad: float = PAD

    @classmethod
    def of(cls, end_s: float) -> Scale:
        """Room for the words of a short talk; less per second the longer the session is."""
        for up_to_s, px_per_s in ((90.0, 130.0), (300.0, 110.0), (1200.0, 80.0), (3600.0, 50.0)):
            if end_s <= up_to_s:
                return cls(px_per_s, end_s)
        return cls(30.0, end_s)

    def x(self, t_s: float) -> float:
        """The place of an instant."""
        return self.pad + t_s * self.px_per_s

    @property
    def width(self) -> float:
        """Of the whole drawing."""
        return self.x(self.end_s) + self.pad + 40


# ---------------------------------------------------------------- axis and turns


def axis(scale: Scale, y: float) -> str:
    """Ticks and times."""
    step = 1 if scale.px_per_s >= 100 else 5 if scale.px_per_s >= 50 else 10
    parts = []
    for t in range(int(scale.end_s) + 1):
        x = scale.x(t)
        if t % step == 0:
            parts.append(line(x, y, x, y + 6, "tick") + label(x, y + 18, clock(t), "small dim", "middle"))
        elif scale.px_per_s >= 40:
            parts.append(line(x, y, x, y + 3, "tick"))
    return "".join(parts)


def clock(t: int) -> str:
    """A whole second as 7 s or, from a minute on, 1:07."""
    return f"{t} s" if t < 60 else f"{t // 60}:{t % 60:02d}"


def turn_ground(turns: Sequence[Turn], scale: Scale, height: float) -> str:
    """A tinted ground behind each turn."""
    return "".join(
        box(scale.x(t.start_s), 24, scale.x(t.end_s) - scale.x(t.start_s) - 3, height - 50, "ground", 6) for t in turns
    )


def turn_heads(turns: Sequence[Turn], scale: Scale, y: float) -> str:
    """The turns' numbers."""
    return "".join(
        label(
            scale.x(t.start_s) + 6, y + 16, fit(f"Turn {t.number}", scale.x(t.end_s) - scale.x(t.start_s), 13), "head"
        )
        for t in turns
    )


# ---------------------------------------------------------------- moments

MOMENTS = ("speech ends", "turn confirmed", "first token", "first sound")
_SHAPES = ("dot", "square", "triangle", "diamond")


def _times(turn: Turn) -> tuple[float | None, ...]:
    return turn.speech_end_s, turn.confirmed_s, turn.first_token_s, turn.first_audio_s


def moment_lines(turns: Sequence[Turn], scale: Scale, y: float, height: float) -> str:
    """A line through all lanes for each moment."""
    parts = []
    for turn in turns:
        for i, t_s in enumerate(_times(turn)):
            if t_s is not None:
                x = scale.x(t_s)
                parts.append(line(x, y + 16 + 18 * i, x, height - 26, f"moment m{i}"))
    return "".join(parts)


def moments(turns: Sequence[Turn], scale: Scale, y: float) -> str:
    """The moments of every turn, a row for each kind, with their times."""
    parts = []
    for i, name in enumerate(MOMENTS):
        row = y + 16 + 18 * i
        those = [(turn, t_s) for turn in turns if (t_s := _times(turn)[i]) is not None]
        for (turn, t_s), following in zip(those, [*those[1:], None], strict=False):
            x = scale.x(t_s)
            until = scale.x(following[1]) - 8 if following else scale.width
            text = f"{t_s:.2f} s{_remark(turn, i)}"
            if i == 3 and turn.speech_end_s is not None:
                parts.append(line(scale.x(turn.speech_end_s), row, x, row, "dead"))
            shown = label(x + 9, row + 4, fit(text, until - x - 9, SMALL), "small")
            glyph = _glyph(_SHAPES[i], x, row, f"glyph g{i}")
            parts.append(titled(f"Turn {turn.number}, {name} at {text}", glyph, shown))
    return "".join(parts)


def _remark(turn: Turn, moment: int) -> str:
    if moment == 2 and turn.confirmed_s is not None and turn.first_token_s is not None:
        early_ms = (turn.confirmed_s - turn.first_token_s) * 1000
        return (
            f", {early_ms:.0f} ms before confirmation" if early_ms > 0 else f", {-early_ms:.0f} ms after confirmation"
        )
    if moment == 3 and turn.dead_air_ms is not None:
        return f", dead air {turn.dead_air_ms:.0f} ms"
    return ""


def _glyph(shape: str, x: float, y: float, class_: str) -> str:
    match shape:
        case "dot":
            return tag("circle", cx=x, cy=y, r=4.0, class_=class_)
        case "square":
            return box(x - 4, y - 4, 8, 8, class_, 0)
        case "triangle":
            return tag("path", d=f"M{num(x - 5)} {num(y + 4)}h10l-5 -9z", class_=class_)
        case _:
            return tag("path", d=f"M{num(x)} {num(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", class_=class_)
