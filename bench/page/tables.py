"""Tables, and which kind of line of a record is which. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pads_runtime.timeline.svg import esc, tag

MOST_ROWS, MOST_COLUMNS = 200, 14


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: text, or markup of ours."""

    text: str
    markup: bool = False
    number: bool = False
    title: str = ""


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = tag("thead", tag("tr", "".join(tag("th", esc(text), scope="col") for text in headings)))
    body = tag("tbody", "".join(tag("tr", "".join(map(_cell, row))) for row in rows))
    told = tag("caption", esc(caption)) if caption else ""
    return tag("div", tag("table", told + head + body), class_="table")


def figure(value: Any) -> str:
    """A number as people read it; a dash where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "\u2013"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}"


def is_measurement(row: Mapping[str, Any]) -> bool:
    """A row of ``bench.report``."""
    return {"name", "unit", "n", "p50", "p95"} <= row.keys()


def is_talk(row: Mapping[str, Any]) -> bool:
    """The totals of a talk."""
    return {"turns", "clock", "dead_air_ms"} <= row.keys()


def generic_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """Headings and cells of lines of any other kind: plain values, and [value, low, high] as such."""
    kept = [row for row in rows if sum(_plain(value) for value in row.values()) >= 3][:MOST_ROWS]
    keys = list(dict.fromkeys(key for row in kept for key, value in row.items() if _plain(value)))[:MOST_COLUMNS]
    return [key.replace("_", " ") for key in keys], [[_value(row.get(key)) for key in keys] for row in kept]


def _value(value: Any) -> Cell:
    if isinstance(value, list):
        first, low, high = (figure(x) for x in value)
        return Cell(f"{first} [{low}, {high}]", number=True)
    if isinstance(value, bool) or value is None:
        return Cell("" if value is None else "yes" if value else "no")
    return Cell(figure(value), number=True) if isinstance(value, int | float) else Cell(str(value))


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 3 and all(x is None or isinstance(x, int | float) for x in value)
    return isinstance(value, str | int | float)


def _cell(cell: Cell) -> str:
    content = cell.text if cell.markup else esc(cell.text)
    kind = "n" if cell.number else "text" if len(cell.text) > 40 and not cell.markup else "line"
    return tag("td", content, class_=kind, title=cell.title)
