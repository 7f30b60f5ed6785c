"""The one report format: named measurements, the machine they were made on, and the command that made them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from pads_runtime.runs import command_line, is_target, machine

from .harness.intervals import Interval, Pair, cluster_interval, normal_interval
from .timing import percentile


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure: the spread of ``n`` values of ``unit``. A single value has p50 = p95 = it.

    ``limit`` is what the figure's median should stay under, ``at_least`` what it should reach, None where nothing is
    asked. A figure that could not be found has n = 0 and no numbers, and says why in its note.
    """

    name: str
    unit: str
    n: int
    p50: float
    p95: float
    limit: float | None = None
    note: str = ""
    at_least: float | None = None
    interval: Interval | None = None
    """Of the mean of repeated runs, or of a paired comparison; it names its method."""
    tag: str = ""
    """Where it is another than the report's, e.g. EXTRAPOLATED."""

    @property
    def within(self) -> bool | None:
        """Whether the median keeps to what is asked; None where nothing is, and where there is no figure."""
        if math.isnan(self.p50) or (self.limit is None and self.at_least is None):
            return None
        return (self.limit is None or self.p50 < self.limit) and (self.at_least is None or self.p50 >= self.at_least)


def measurement(
    name: str,
    values: Sequence[float],
    unit: str = "ms",
    limit: float | None = None,
    note: str = "",
    at_least: float | None = None,
) -> Measurement:
    """The spread of ``values``, which must not be empty."""
    middle, high = percentile(values, 50), percentile(values, 95)
    return Measurement(name, unit, len(values), middle, high, limit, note, at_least, normal_interval(values))


def comparison(
    name: str, clusters: Mapping[str, Sequence[Pair]], note: str = "", at_least: float | None = None
) -> Measurement:
    """A candidate over its baseline from pairs (baseline, candidate) that were measured in turn, by cluster.

    The figure is the median of the pairs' ratios; the interval is that of the ratio of sums.
    """
    ratios = [candidate / base for pairs in clusters.values() for base, candidate in pairs if base > 0]
    middle, high = percentile(ratios, 50), percentile(ratios, 95)
    return Measurement(name, "x", len(ratios), middle, high, None, note, at_least, cluster_interval(clusters))


def missing(name: str, why: str, unit: str = "") -> Measurement:
    """A figure that could not be found here."""
    return Measurement(name, unit, 0, math.nan, math.nan, note=why)


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found."""

    bench: str
    measurements: tuple[Measurement, ...]
    tag: str
    command: tuple[str, ...]
    machine: dict[str, Any]
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """Conditions, what broke the protocol, and the five figures of every record; see ``bench.harness``."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What does not fit into rows."""

    def named(self, name: str) -> Measurement:
        """One measurement by its name."""
        return next(m for m in self.measurements if m.name == name)

    def as_json(self) -> dict[str, Any]:
        """Plain data: the same keys for every benchmark, figures with four significant digits."""
        return {
            "bench": self.bench,
            "tag": self.tag,
            "command": " ".join(self.command),
            "machine": self.machine,
            **({"protocol": dict(self.protocol)} if self.protocol else {}),
            **({"detail": dict(self.detail)} if self.detail else {}),
            "measurements": [_plain(m) for m in self.measurements],
        }

    def show(self, console: Console) -> None:
        """A table for people."""
        table = Table(title=f"{self.bench} [{self.tag}]".replace("[", r"\["))
        table.add_column("what")
        for column in ("median", "95 % under", "unit", "runs", "asked for"):
            table.add_column(column, justify="right")
        for m in self.measurements:
            asked = "" if m.within is None else f"{_bounds(m)} {'yes' if m.within else 'NO'}"
            table.add_row(
                f"{m.name.replace('_', ' ')}{_own_tag(m)}", _figure(m.p50), _figure(m.p95), m.unit, str(m.n), asked
            )
        console.print(table)
        for breach in self.protocol.get("breaches", ()):
            console.print(f"descriptive only: {breach}", markup=False)
        console.print(f"command: {' '.join(self.command)}", markup=False)


def report(
    bench: str,
    measurements: Sequence[Measurement],
    command: Sequence[str] | None = None,
    tag: str | None = None,
    protocol: Mapping[str, Any] | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Report:
    """Measurements with this machine's description. Figures of another machine than the target are never its own."""
    here = machine() | {"load_1m": round(os.getloadavg()[0], 2)}
    tag = tag or ("MEASURED target" if is_target() else "MEASURED dev-host")
    return Report(bench, tuple(measurements), tag, tuple(command or command_line()), here, protocol or {}, detail or {})


def _plain(m: Measurement) -> dict[str, Any]:
    interval = None if m.interval is None else m.interval.as_json()
    figures = {"p50": _rounded(m.p50), "p95": _rounded(m.p95), "within": m.within, "interval": interval}
    return asdict(m) | figures


def _own_tag(m: Measurement) -> str:
    return rf" \[{m.tag}]" if m.tag else ""


def _bounds(m: Measurement) -> str:
    below = "" if m.limit is None else f"< {m.limit:g}"
    return below if m.at_least is None else f"{below} >= {m.at_least:g}".strip()


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.4g}")


def _figure(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
