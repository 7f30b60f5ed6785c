"""Under which conditions a benchmark ran, and whether they keep to the protocol.

A run that breaks it is kept and marked ``DESCRIPTIVE``: its figures say what happened, not what the machine can do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

OTHERS_CORES = 0.25
"""Cores that other programs may keep busy on average while a benchmark runs."""
STEAL_SHARE = 0.05
"""Part of the machine's time that a hypervisor may take away."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What was seen of the machine while a benchmark ran. None is what cannot be seen here."""

    governors: tuple[str, ...] | None
    on_mains: bool | None
    load_1m_before: float
    others_cores: float
    """Cores kept busy by anything but the benchmark and its children, on average."""
    steal_share: float
    seconds: float

    def breaches(self) -> tuple[str, ...]:
        """What broke the protocol, in words; nothing is fine."""
        found = []
        if self.others_cores > OTHERS_CORES:
            found.append(f"other programs kept {self.others_cores:.2f} cores busy; {OTHERS_CORES} are allowed")
        if self.steal_share > STEAL_SHARE:
            found.append(f"the hypervisor took {self.steal_share:.0%} of the time; {STEAL_SHARE:.0%} are allowed")
        if self.governors is not None and self.governors != ("performance",):
            found.append(f"CPU governor {', '.join(self.governors)} instead of performance")
        if self.on_mains is False:
            found.append("on battery")
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Plain data with a note for what cannot be seen."""
        notes = {}
        if self.governors is None:
            notes["governors"] = "not visible here (virtual machine or container)"
        if self.on_mains is None:
            notes["on_mains"] = "no battery seen"
        return asdict(self) | {"notes": notes}


class Watch:
    """Looks at the machine when made and when asked."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._load = os.getloadavg()[0]
        self._began_s, self._own_s, self._all = time.monotonic(), _own_s(), machine_times()

    def conditions(self) -> Conditions:
        """What was seen since this was made. Children that have not ended yet count as other programs."""
        seconds = max(time.monotonic() - self._began_s, 1e-6)
        spent = {name: value - self._all.get(name, 0.0) for name, value in machine_times().items()}
        others, steal = shares(spent, _own_s() - self._own_s, seconds)
        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        return Conditions(
            governors(self._root),
            None if battery is None else bool(battery.power_plugged),
            round(self._load, 2),
            round(others, 3),
            round(steal, 3),
            round(seconds, 1),
        )


def shares(spent_s: Mapping[str, float], own_s: float, seconds: float) -> tuple[float, float]:
    """Cores others kept busy, and the stolen share, from the machine's times by kind and the benchmark's own."""
    idle = spent_s.get("idle", 0.0) + spent_s.get("iowait", 0.0)
    steal = spent_s.get("steal", 0.0)
    total = sum(spent_s.values())
    busy = total - idle - steal
    return max(busy - own_s, 0.0) / seconds, steal / total if total > 0 else 0.0


def machine_times() -> dict[str, float]:
    """Seconds of all cores by kind since the machine started; guests are in user already."""
    times = psutil.cpu_times()._asdict()
    return {name: value for name, value in times.items() if name not in ("guest", "guest_nice")}


def governors(root: Path = Path("/")) -> tuple[str, ...] | None:
    """The CPU governors in use; None where none is visible."""
    found = set()
    for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"):
        try:
            found.add(path.read_text(encoding="utf-8").strip())
        except OSError:
            continue
    return tuple(sorted(found)) or None


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
