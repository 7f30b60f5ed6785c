"""How the machine does, and the talk's own process: what psutil knows, null where this machine has no such sensor."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil

_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal", "acpitz")
"""Names of the kernel's drivers for processor temperatures, the most exact first."""


class Vitals:
    """Keeps what a percentage needs: the counters of the last call. (psutil's own are per thread; any may ask here.)"""

    def __init__(self) -> None:
        self._times = _cpu_times()
        self._process: psutil.Process | None = None

    def read(self, pid: int | None) -> dict[str, Any]:
        """The machine now, and the process ``pid`` if there is one. Percentages are of the time since the last call."""
        memory = psutil.virtual_memory()
        temperature = _temperature()
        return {
            "cpu_percent": self._cpu_percent(),
            "cores": psutil.cpu_count(),
            "memory_used_mb": round((memory.total - memory.available) / 1e6),
            "memory_total_mb": round(memory.total / 1e6),
            "temperature_c": temperature,
            "temperature_note": "" if temperature is not None else "no sensor on this machine",
            "talk": self._talk(pid),
        }

    def _cpu_percent(self) -> float | None:
        """Share of all cores' time that was not idle; None where the counters have not moved."""
        before, self._times = self._times, _cpu_times()
        busy_s, all_s = (now - then for now, then in zip(self._times, before, strict=True))
        return round(100.0 * min(1.0, max(0.0, busy_s / all_s)), 1) if all_s > 0.0 else None

    def _talk(self, pid: int | None) -> dict[str, Any] | None:
        if pid is None:
            self._process = None
            return None
        try:
            if self._process is None or self._process.pid != pid:
                self._process = psutil.Process(pid)
                self._process.cpu_percent(None)
            with self._process.oneshot():
                cpu_percent = self._process.cpu_percent(None)
                return {"cpu_percent": cpu_percent, "memory_mb": round(self._process.memory_info().rss / 1e6)}
        except psutil.Error:
            self._process = None
            return None


def _cpu_times() -> tuple[float, float]:
    """Seconds that all cores were busy, and all seconds they had."""
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    # guest time is part of user time already
    all_s = sum(value for name, value in times._asdict().items() if not name.startswith("guest"))
    return all_s - idle_s, all_s


def _temperature() -> float | None:
    """The hottest reading of the processor's own sensor, in degrees Celsius."""
    read = getattr(psutil, "sensors_temperatures", None)
    found: dict[str, list[Any]] = {}
    if read is not None:
        with contextlib.suppress(OSError, RuntimeError):
            found = read()
    for name in _CPU_SENSORS:
        known = [float(sensor.current) for sensor in found.get(name, ()) if sensor.current]
        if known:
            return round(max(known), 1)
    return None
