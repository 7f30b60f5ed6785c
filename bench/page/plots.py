"""Two pictures as inline SVG: bars of medians on a logarithmic scale, and dots of one figure against another. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pads_runtime.timeline.svg import box, esc, line, num, tag, titled

from ..records.read import TAGS
from .tables import figure

_NAMES, _WIDTH, _ROW, _TOP = 260.0, 860.0, 20.0, 22.0

Bar = tuple[str, float, float, str]
"""Name, median, 95 % point, tag."""
Dot = tuple[float, float, str, bool, str]
"""x, y, what it is, whether it is the plain way, link."""


def bars(rows: Sequence[Bar], unit: str, href: str) -> str:
    """One bar a row from the axis to its median, with a line to its 95 % point; dashed where it is no measurement."""
    values = [v for _, low, high, _ in rows for v in (low, high) if v > 0 and math.isfinite(v)]
    if not values:
        return ""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last = max(last, first + 1)

    def x(value: float) -> float:
        return _NAMES + (math.log10(max(value, 10.0**first)) - first) / (last - first) * (_WIDTH - _NAMES - 60)

    height = _TOP + _ROW * len(rows) + 8
    parts = []
    for power in range(first, last + 1):
        at = x(10.0**power)
        parts.append(line(at, _TOP - 6, at, height - 8, "tick"))
        parts.append(tag("text", esc(f"{10.0**power:g}"), x=at, y=_TOP - 9, text_anchor="middle", class_="small dim"))
    for index, (name, median, high, kind) in enumerate(rows):
        y = _TOP + _ROW * index
        look = "bar" if kind in TAGS[:2] else "bar other"
        shapes = [box(_NAMES, y + 4, x(median) - _NAMES, _ROW - 9, look)]
        shapes.append(line(x(median), y + _ROW / 2, max(x(high), x(median)), y + _ROW / 2, "whisker"))
        label = figure(median)
        shapes.append(tag("text", esc(label), x=max(x(high), x(median)) + 5, y=y + 14, class_="small"))
        shapes.append(tag("text", esc(_short(name)), x=_NAMES - 8, y=y + 14, text_anchor="end", class_="small"))
        told = f"{name}: median {median:.4g} {unit}, 95 % under {high:.4g} {unit} [{kind}]"
        parts.append(tag("a", titled(told, *shapes), href=href))
    caption = f"{unit}, logarithmic; bar: median, line: 95 % under; dashed: no measurement of a machine"
    return _figure(parts, _WIDTH, height, caption)


def scatter(dots: Sequence[Dot], x_name: str, y_name: str) -> str:
    """One dot a run; the plain way in another colour, every dot with its words."""
    width, height, left, bottom = 620.0, 260.0, 60.0, 34.0
    most_x = max(max(dot[0] for dot in dots), 1.0)
    most_y = max(max(dot[1] for dot in dots), 1.0)
    parts = [
        line(left, height - bottom, width - 10, height - bottom, "rule"),
        line(left, 10, left, height - bottom, "rule"),
    ]
    for part in (0.0, 0.5, 1.0):
        at_x, at_y = left + part * (width - left - 30), height - bottom - part * (height - bottom - 20)
        label_x, label_y = esc(figure(most_x * part)), esc(figure(most_y * part))
        parts.append(tag("text", label_x, x=at_x, y=height - 18, text_anchor="middle", class_="small dim"))
        parts.append(tag("text", label_y, x=left - 6, y=at_y + 4, text_anchor="end", class_="small dim"))
    for x, y, told, plain, href in dots:
        at_x = left + x / most_x * (width - left - 30)
        at_y = height - bottom - y / most_y * (height - bottom - 20)
        look = "dot never" if plain else "dot"
        shape = tag("circle", cx=num(at_x), cy=num(at_y), r="5", class_=look)
        parts.append(tag("a", titled(f"{told}: {x:.4g} {x_name}, {y:.4g} {y_name}", shape), href=href))
    parts.append(tag("text", esc(x_name), x=width / 2, y=height - 3, text_anchor="middle", class_="small"))
    caption = f"{y_name} (upwards) against {x_name}; one dot a talk, the other colour: gate never"
    return _figure(parts, width, height, caption)


def _figure(parts: Sequence[str], width: float, height: float, caption: str) -> str:
    drawing = tag(
        "svg", "".join(parts), width=width, height=height, viewBox=f"0 0 {num(width)} {num(height)}", role="img"
    )
    return tag("figure", drawing + tag("figcaption", esc(caption)))


def _short(name: str) -> str:
    text = name.replace("_", " ")
    return text if len(text) <= 38 else text[:37] + "\u2026"
