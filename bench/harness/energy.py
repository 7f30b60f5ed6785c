"""Energy of the processor package from Intel's and AMD's running average power limit (RAPL) counters, where readable.

Linux powercap: ``/sys/class/powercap/intel-rapl:N/energy_uj`` counts microjoules and wraps at ``max_energy_range_uj``.
Since 2020 the counter is for root only on most systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of all packages, or None and why not."""

    joules: float | None
    note: str


class EnergyMeter:
    """Reads the counters when made and when asked."""

    def __init__(self, root: Path = POWERCAP) -> None:
        self._packages = [p for p in sorted(root.glob("intel-rapl:*")) if p.name.count(":") == 1]
        self._began, self._why = _counters(self._packages)

    def spent(self) -> Energy:
        """What was used since this was made. A run longer than one wrap of the counter (hours) cannot be told."""
        if not self._packages:
            return Energy(None, "no RAPL on this machine")
        now, why = _counters(self._packages)
        if self._why or why:
            return Energy(None, self._why or why)
        wraps = {p.name: _number(p / "max_energy_range_uj") or 0 for p in self._packages}
        return Energy(joules(self._began, now, wraps), f"RAPL, {len(self._packages)} package(s), whole machine")


def joules(began_uj: Mapping[str, int], ended_uj: Mapping[str, int], wraps_uj: Mapping[str, int]) -> float:
    """Sum over the packages; a counter that went back has wrapped once."""
    spent = 0
    for name, end in ended_uj.items():
        spent += end - began_uj[name] + (wraps_uj[name] if end < began_uj[name] else 0)
    return spent / 1e6


def _counters(packages: list[Path]) -> tuple[dict[str, int], str]:
    found: dict[str, int] = {}
    for package in packages:
        value = _number(package / "energy_uj")
        if value is None:
            return {}, "RAPL is there, but its counter cannot be read; it is for root on most systems"
        found[package.name] = value
    return found, ""


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
