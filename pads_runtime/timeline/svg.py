"""Small pieces of markup: escaping, elements, and text that has to fit without a browser's measuring it."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence

_EM = 0.54
"""Mean advance of a Latin letter in a sans-serif face, in em; on the wide side, so that text rather breaks early."""

_ALONE = frozenset({"circle", "line", "meta", "path", "rect"})
"""Elements without content. HTML takes ``<b/>`` for an opening tag, so every other one is closed in full."""


def esc(text: object) -> str:
    """Text as it may stand in an element or an attribute of HTML and XML alike.

    Characters that XML 1.0 (section 2.2) forbids, control characters and lone surrogates, become U+FFFD.
    """
    return html.escape("".join(c if _allowed(ord(c)) else "\ufffd" for c in str(text)), quote=True)


def _allowed(code: int) -> bool:
    if code < 32:
        return code in (9, 10, 13)
    return code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF


def num(value: float) -> str:
    """A coordinate with a tenth of a pixel."""
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; ``content`` is markup. A trailing underscore is dropped, others are hyphens; floats are rounded."""
    parts = []
    for key, value in attributes.items():
        if value is None or value == "":
            continue
        shown = num(value) if isinstance(value, float) else esc(value)
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{shown}"')
    opening = f"<{name}{''.join(parts)}"
    return f"{opening}/>" if name in _ALONE else f"{opening}>{content}</{name}>"


def titled(title: str, *shapes: str, class_: str = "") -> str:
    """Shapes that show ``title`` when pointed at."""
    return tag("g", tag("title", esc(title)) + "".join(shapes), class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, radius: float = 3.0) -> str:
    """A rectangle that is never too narrow to be seen."""
    return tag("rect", x=x, y=y, width=max(1.5, width), height=height, rx=radius, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def label(x: float, y: float, text: str, class_: str = "", anchor: str = "") -> str:
    """One line of text whose baseline is ``y``."""
    return tag("text", esc(text), x=x, y=y, class_=class_, text_anchor=anchor)


def width_of(text: str, size: float) -> float:
    """Estimated width in px of ``text`` at a font size in px."""
    return sum(size if unicodedata.east_asian_width(c) in "WF" else size * _EM for c in text)


def fit(text: str, width: float, size: float) -> str:
    """``text`` cut to ``width`` px with an ellipsis; empty if not even a letter fits."""
    if width_of(text, size) <= width:
        return text
    while text and width_of(text, size) + size > width:
        text = text[:-1]
    return f"{text.rstrip()}…" if text else ""


def wrap(text: str, width: float, size: float, lines: int) -> list[str]:
    """``text`` in at most ``lines`` lines of ``width`` px; the last ends in an ellipsis if words are left over."""
    rows: list[str] = []
    words = text.split()
    while words and len(rows) < lines:
        row = words.pop(0)
        while words and width_of(f"{row} {words[0]}", size) <= width:
            row = f"{row} {words.pop(0)}"
        rows.append(row)
    if words:
        rows[-1] = f"{rows[-1]} {' '.join(words)}"
    return [shown for row in rows if (shown := fit(row, width, size))]


def stack(spans: Sequence[tuple[float, float]], rows: int, gap: float) -> list[int | None]:
    """A row for each (start, end) in px, in order, so that none overlaps in its row; None where all are taken."""
    free_from = [float("-inf")] * rows
    placed: list[int | None] = []
    for start, end in spans:
        row = next((i for i in range(rows) if free_from[i] <= start), None)
        if row is not None:
            free_from[row] = end + gap
        placed.append(row)
    return placed
