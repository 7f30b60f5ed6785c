"""Whether a job may start. Pure but for the reading of sensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

HOT_C = 85.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer: ``refused`` says why not, ``warnings`` what to know."""

    refused: str
    warnings: tuple[str, ...]


def admit(available_mb: float, floor_mb: float, cap_mb: float, hottest_c: float | None) -> Admission:
    """Refuses below the floor of free memory; a hot or unseen processor and a cap beyond what is free only warn."""
    refused = ""
    if available_mb < floor_mb:
        refused = f"{available_mb:.0f} MB of memory are free, {floor_mb:.0f} MB are asked for; close other programs"
    warnings = []
    if cap_mb > available_mb:
        warnings.append(f"the cap of {cap_mb:.0f} MB is more than the {available_mb:.0f} MB that are free")
    if hottest_c is None:
        warnings.append("no temperature sensor: a slow-down through heat cannot be seen here")
    elif hottest_c >= HOT_C:
        warnings.append(f"{hottest_c:.0f} C at the hottest sensor: the job may be throttled")
    return Admission(refused, tuple(warnings))


def available_mb() -> float:
    """Memory that can be had without swapping, MB (10^6 bytes)."""
    return float(psutil.virtual_memory().available) / 1e6


def hottest_c() -> float | None:
    """The highest temperature any sensor shows, degrees Celsius; None where there is no sensor."""
    # psutil has this function on some platforms only.
    sensors: Mapping[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()
    readings = [float(entry.current) for entries in sensors.values() for entry in entries if entry.current]
    return max(readings, default=None)
