"""The five figures that every record has, a number or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .energy import Energy

NAMES = ("ttft_ms", "tokens_per_s", "peak_rss_mb", "acceptance", "energy_j")
NOT_MEASURED = "this benchmark does not measure it"


class Row(Protocol):
    """What a figure is taken from: see ``bench.report.Measurement``."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def p50(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Essentials:
    """Time to the first token, decoding rate, peak memory, share of drafts accepted, energy of the whole run."""

    ttft_ms: float | None
    tokens_per_s: float | None
    peak_rss_mb: float | None
    acceptance: float | None
    energy_j: float | None
    notes: Mapping[str, str] = field(default_factory=dict)
    """Why a figure is None, or what it is of."""

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if value is None and not self.notes.get(name):
                raise ValueError(f"{name} is missing and nothing says why")
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} = {value} is no figure")
        for name in ("tokens_per_s", "peak_rss_mb"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} = 0: a run that failed is an error, not a zero")

    def as_json(self) -> dict[str, Any]:
        """Plain data, four significant digits."""
        values = {name: getattr(self, name) for name in NAMES}
        rounded = {name: None if v is None else float(f"{v:.4g}") for name, v in values.items()}
        return rounded | {"notes": dict(self.notes)}


def essentials_of(
    rows: Sequence[Row], peak_rss_mb: float, energy: Energy, named: Mapping[str, str] | None = None
) -> Essentials:
    """From a benchmark's rows ``ttft`` (ms), ``tokens_per_s`` and ``acceptance``, or those that ``named`` says.

    A row in ms for ``tokens_per_s`` is the time of one token.
    """
    asked = {"ttft_ms": "ttft", "tokens_per_s": "tokens_per_s", "acceptance": "acceptance"} | dict(named or {})
    by_name = {row.name: row for row in rows}
    values: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for figure, row_name in asked.items():
        row = by_name.get(row_name)
        if row is None or math.isnan(row.p50):
            values[figure], notes[figure] = None, NOT_MEASURED
            continue
        rate = figure == "tokens_per_s" and row.unit == "ms"
        values[figure] = 1000.0 / row.p50 if rate else row.p50
        notes[figure] = f"median of {row_name}"
    notes["peak_rss_mb"] = "of the benchmark's own process"
    notes["energy_j"] = energy.note
    return Essentials(peak_rss_mb=peak_rss_mb, energy_j=energy.joules, notes=notes, **values)
