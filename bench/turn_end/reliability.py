"""Whether p_end means what it says: how often the turn really was over when a predictor said so, as table and plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pads_runtime.timeline.svg import label, line, num, tag, titled

BANDS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SIDE, _LEFT, _TOP = 360.0, 56.0, 24.0
_COLOURS = ("#1f6feb", "#d1720a", "#2da44e", "#8250df")
_STYLE = (
    "text{font:12px sans-serif;fill:#24292f}.dim{fill:#57606a}.axis{stroke:#57606a}.rule{stroke:#d0d7de}"
    ".even{stroke:#57606a;stroke-dasharray:4 4}"
)

Band = dict[str, float]


def bands(rows: Sequence[tuple[float, bool]]) -> list[Band]:
    """Of (p_end, was it a turn end), by fifths of p_end: how many, their mean, and the share that were ends."""
    found = []
    for low, high in pairwise(BANDS):
        mine = [row for row in rows if low <= row[0] and (row[0] < high or high == BANDS[-1])]
        if mine:
            said, was = (sum(row[i] for row in mine) / len(mine) for i in (0, 1))
            found.append({"from": low, "to": high, "silences": len(mine), "said": round(said, 3), "was": round(was, 3)})
    return found


def error(table: Sequence[Band]) -> float:
    """Expected calibration error: the mean distance of said and was, weighted by silences; nan without any."""
    total = sum(band["silences"] for band in table)
    apart = sum(band["silences"] * abs(band["said"] - band["was"]) for band in table)
    return apart / total if total else float("nan")


def plot(tables: Mapping[str, Sequence[Band]], title: str) -> str:
    """A reliability diagram as one SVG document: said against was, area of a point by its number of silences."""
    width, height = _LEFT + _SIDE + 220.0, _TOP + _SIDE + 56.0
    parts = [tag("style", _STYLE), tag("rect", width=width, height=height, fill="#ffffff")]
    parts += [label(_LEFT, 16, title)]
    for step in range(6):
        at = step / 5
        parts += [line(_x(0), _y(at), _x(1), _y(at), "rule"), line(_x(at), _y(0), _x(at), _y(1), "rule")]
        parts += [
            label(_x(at), _y(0) + 16, f"{at:.1f}", "dim", "middle"),
            label(_x(0) - 8, _y(at) + 4, f"{at:.1f}", "dim", "end"),
        ]
    parts += [line(_x(0), _y(0), _x(1), _y(1), "even"), line(_x(0), _y(0), _x(1), _y(0), "axis")]
    parts += [line(_x(0), _y(0), _x(0), _y(1), "axis")]
    parts += [label(_x(0.5), _y(0) + 40, "p_end said", "", "middle"), label(8, 16, "was")]
    most = max((band["silences"] for table in tables.values() for band in table), default=1.0)
    for place, (name, table) in enumerate(tables.items()):
        parts.append(_series(name, table, most, _COLOURS[place % len(_COLOURS)], place))
    size = {"width": num(width), "height": num(height), "viewBox": f"0 0 {num(width)} {num(height)}"}
    return tag("svg", "".join(parts), xmlns="http://www.w3.org/2000/svg", role="img", aria_label=title, **size)


def _series(name: str, table: Sequence[Band], most: float, colour: str, place: int) -> str:
    path = " ".join(
        f"{'L' if index else 'M'}{num(_x(band['said']))} {num(_y(band['was']))}" for index, band in enumerate(table)
    )
    parts = [tag("path", d=path, stroke=colour, fill="none")]
    for band in table:
        told = f"{name}: {band['silences']} silences, said {band['said']}, was {band['was']}"
        radius = 2.0 + 8.0 * (band["silences"] / most) ** 0.5
        parts.append(
            titled(told, tag("circle", cx=_x(band["said"]), cy=_y(band["was"]), r=radius, fill=colour, opacity="0.7"))
        )
    top = _TOP + 20.0 * place + 12.0
    parts.append(tag("circle", cx=_x(1) + 24, cy=top - 4, r=5.0, fill=colour))
    return "".join(parts) + label(_x(1) + 36, top, name)


def _x(p: float) -> float:
    return _LEFT + _SIDE * p


def _y(p: float) -> float:
    return _TOP + _SIDE * (1.0 - p)
