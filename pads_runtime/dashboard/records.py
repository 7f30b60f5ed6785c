"""Run records as the page lists them. Every read is bounded; a record that was cut off counts as far as it goes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

MANIFEST_BYTES = 256 * 1024
METRICS_BYTES = 64 * 1024
TEXT_CHARS = 300
"""Longest purpose or error that is passed on."""
BENCH_FIGURES = 4

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)

_TALK_FIGURES = (
    ("turns", "turns", "{:.0f}"),
    ("post_confirm_ttft_ms", "wait for the model", "{:.0f} ms"),
    ("dead_air_ms", "silence before the answer", "{:.0f} ms"),
)


@dataclass(frozen=True, slots=True)
class Record:
    """One run. ``state`` is running, finished, failed, stopped, or cut off: begun, and its process is gone."""

    name: str
    kind: str
    purpose: str
    state: str
    began_utc: str
    error: str
    clock: str
    pid: int | None
    has_trace: bool
    has_timeline: bool
    theta: tuple[float, float]
    """theta_end, theta_deep."""

    @property
    def is_live(self) -> bool:
        """Whether it is a talk that goes on now."""
        return self.state == "running" and self.has_trace


def folder_of(base: Path, name: str) -> Path | None:
    """The folder of the run ``name`` in ``base``; None for any other name, and for links that lead elsewhere."""
    if not _NAME.fullmatch(name) or name.endswith(".."):
        return None
    path = base / name
    try:
        inside = path.resolve(strict=True).parent == base.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return path if inside and path.is_dir() else None


def file_of(base: Path, name: str, file: str) -> Path | None:
    """A plain file of a run's folder; None where there is none, and for links that lead elsewhere."""
    folder = folder_of(base, name)
    if folder is None:
        return None
    path = folder / file
    try:
        inside = path.resolve(strict=True).parent == folder.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return path if inside and path.is_file() else None


def names(base: Path) -> list[str]:
    """The runs, the latest first: their names begin with the time."""
    try:
        found = [entry.name for entry in base.iterdir() if _NAME.fullmatch(entry.name)]
    except OSError:
        return []
    return sorted(found, reverse=True)


def latest(base: Path, count: int) -> Iterator[Record]:
    """The latest ``count`` runs; folders that hold no record are passed over."""
    for name in names(base):
        if count <= 0:
            return
        record = read(base, name)
        if record is not None:
            count -= 1
            yield record


def read(base: Path, name: str) -> Record | None:
    """One run's record; None if it has no readable manifest."""
    path = file_of(base, name, "manifest.json")
    manifest = _json_object(path, MANIFEST_BYTES) if path else None
    if manifest is None:
        return None
    settings = _mapping(manifest.get("settings"))
    gate = _mapping(settings.get("gate"))
    pid = manifest.get("pid")
    pid = pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None
    return Record(
        name=name,
        kind=_text(manifest.get("name")),
        purpose=_text(manifest.get("purpose")),
        state=_state(_text(manifest.get("status")), pid, _text(manifest.get("began_utc"))),
        began_utc=_text(manifest.get("began_utc")),
        error=_text(manifest.get("error")),
        clock=_text(_mapping(settings.get("clock")).get("kind")),
        pid=pid,
        has_trace=file_of(base, name, "trace.jsonl") is not None,
        has_timeline=file_of(base, name, "timeline.html") is not None,
        theta=(_p(gate.get("theta_end")), _p(gate.get("theta_deep"))),
    )


def _state(status: str, pid: int | None, began_utc: str) -> str:
    """A process that was killed could not write how its run ended; a run without its number is believed."""
    if status != "running":
        return status or "unknown"
    return "running" if pid is None or _lives(pid, began_utc) else "cut off"


def _lives(pid: int, began_utc: str) -> bool:
    """Whether the process is there and began before the run: numbers are given out again."""
    try:
        created_s = psutil.Process(pid).create_time()
        return created_s <= datetime.fromisoformat(began_utc).timestamp() + 1.0
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False


def figures(base: Path, record: Record) -> list[list[str]]:
    """What came of a run, as [what, how much]: the totals of a talk, the first figures of a benchmark."""
    path = file_of(base, record.name, "metrics.jsonl")
    rows = list(_json_lines(path)) if path else []
    if not rows:
        return []
    if "turns" in rows[0]:
        return _talk_figures(rows[0])
    found = [[_text(row.get("name")), _measure(row)] for row in rows if _number(row.get("p50")) is not None]
    more = [["further figures", str(len(found) - BENCH_FIGURES)]] if len(found) > BENCH_FIGURES else []
    return found[:BENCH_FIGURES] + more


def _talk_figures(row: Mapping[str, Any]) -> list[list[str]]:
    found = []
    for key, name, form in _TALK_FIGURES:
        value = _number(_mapping(row.get(key)).get("p50", row.get(key)))
        if value is not None:
            found.append([name, form.format(value)])
    prepared, committed = _number(row.get("prepared")), _number(row.get("committed"))
    if prepared and committed is not None:
        found.append(["prepared replies used", f"{committed:.0f} of {prepared:.0f}"])
    return found


def _measure(row: Mapping[str, Any]) -> str:
    return f"{_number(row.get('p50')):.4g} {_text(row.get('unit'))}".strip()


# ---------------------------------------------------------------- careful reading


def _json_object(path: Path, most: int) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        value = json.loads(data) if len(data) <= most else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects at the beginning of a file of JSON lines; a line that was cut off is none."""
    try:
        with path.open("rb") as file:
            lines = file.read(METRICS_BYTES).split(b"\n")
    except OSError:
        return
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())[:TEXT_CHARS]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _p(value: Any) -> float:
    p = _number(value)
    return p if p is not None and 0.0 <= p <= 1.0 else 0.5
