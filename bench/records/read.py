"""Run folders as they are, cut off or not. Nothing here raises for a damaged record: it says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pads_runtime.errors import DataError

TAGS = ("MEASURED target", "MEASURED dev-host", "EXTRAPOLATED", "DESCRIPTIVE", "SUPERSEDED")
TARGET, DEV_HOST, EXTRAPOLATED, DESCRIPTIVE, SUPERSEDED = TAGS


@dataclass(frozen=True)
class Run:
    """One record: its manifest, its lines of figures, and what is wrong with it."""

    name: str
    """The folder's."""
    manifest: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]
    faults: tuple[str, ...]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The last line's conditions and essentials; empty for a record that has none."""
        found = [line["protocol"] for line in self.lines if isinstance(line.get("protocol"), Mapping)]
        return found[-1] if found else {}

    @property
    def figures(self) -> tuple[Mapping[str, Any], ...]:
        """The lines without the protocol."""
        return tuple(line for line in self.lines if "protocol" not in line)

    @property
    def tag(self) -> str:
        """What may be called of this run's figures."""
        return tag_of(self.manifest, self.protocol, self.faults)[0]

    @property
    def why(self) -> str:
        """Why it is no measurement; empty for one."""
        return tag_of(self.manifest, self.protocol, self.faults)[1]


def tag_of(manifest: Mapping[str, Any], protocol: Mapping[str, Any], faults: tuple[str, ...]) -> tuple[str, str]:
    """The tag of a run and, where it is descriptive, why."""
    if faults:
        return DESCRIPTIVE, "; ".join(faults)
    if manifest.get("status") != "finished":
        return DESCRIPTIVE, f"it is {manifest.get('status', 'of unknown end')}"
    breaches = protocol.get("breaches") or ()
    if breaches:
        return DESCRIPTIVE, "; ".join(map(str, breaches))
    if _on_declared_costs(manifest):
        return DESCRIPTIVE, "virtual clock: declared costs, not wall time"
    return (TARGET if manifest.get("reportable_as_target_hardware") is True else DEV_HOST), ""


def read_run(folder: Path) -> Run:
    """One record, whatever is left of it."""
    faults: list[str] = []
    manifest: Any = {}
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except OSError:
        faults.append("no manifest")
    except ValueError:
        faults.append("the manifest is cut off")
    if not isinstance(manifest, dict):
        faults.append("the manifest is no object")
        manifest = {}
    return Run(folder.name, manifest, tuple(_lines(folder / "metrics.jsonl", faults)), tuple(faults))


def read_runs(base: Path) -> list[Run]:
    """All records in ``base``, oldest first. Raises DataError if it is no folder."""
    if not base.is_dir():
        raise DataError(f"no run records: '{base}' is not a folder; give one with --runs")
    return [read_run(path) for path in sorted(base.iterdir()) if path.is_dir()]


def _lines(path: Path, faults: list[str]) -> Iterator[Mapping[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = json.loads(line)
        except ValueError:
            faults.append(f"line {number} of the figures is cut off")
            continue
        if isinstance(found, dict):
            yield found


def _on_declared_costs(manifest: Mapping[str, Any]) -> bool:
    settings = manifest.get("settings")
    clock = settings.get("clock") if isinstance(settings, Mapping) else None
    virtual = isinstance(clock, Mapping) and clock.get("kind") == "virtual"
    # A benchmark times real work whatever the setting says; a talk runs on its clock.
    return virtual and not str(manifest.get("name", "")).startswith(("bench-", "train-"))
