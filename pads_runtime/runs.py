"""Run records: what was run, on what, with which models and settings, and what came of it.

``runs/<UTC time>-<name>/`` holds ``cmd.sh`` (the command, ready to run again), ``manifest.json``, ``trace.jsonl``,
``metrics.jsonl`` and ``log.txt``. The record is made before the work begins and kept whatever becomes of it.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from .config import ROOT, PadsSettings
from .errors import PadsError

TARGET_PRODUCT = "Latitude 5490"
"""Figures may be called the target's only when the machine says it is this."""


class RunRecord:
    """One run's folder. A context manager: how it ended is written when it ends."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self._manifest = manifest
        self._write_manifest()

    @classmethod
    def begin(
        cls, name: str, purpose: str, settings: PadsSettings, models: Mapping[str, str], command: Sequence[str]
    ) -> RunRecord:
        """Make the folder. ``models`` maps each model's name to its sha256. Raises PadsError if it cannot be made."""
        began = datetime.now(UTC)
        path = _fresh_folder(settings.run.dir, f"{began:%Y%m%dT%H%M%SZ}-{name}")
        (path / "cmd.sh").write_text(f"#!/bin/sh\n{shlex.join(command)}\n", encoding="utf-8")
        manifest = {
            "name": name,
            "purpose": purpose,
            "began_utc": began.isoformat(timespec="seconds"),
            "status": "running",
            "command": list(command),
            "git": git_state(),
            "machine": machine(),
            "reportable_as_target_hardware": is_target(),
            "models": dict(models),
            "settings": settings.model_dump(mode="json"),
        }
        return cls(path, manifest)

    @property
    def trace_path(self) -> Path:
        return self.path / "trace.jsonl"

    def metrics(self, **figures: Any) -> None:
        """Append one line of figures to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures, ensure_ascii=False) + "\n")

    def log(self, line: str) -> None:
        """Append one line to log.txt, with the wall time."""
        with (self.path / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%H:%M:%S} {line}\n")

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._manifest["status"] = "finished" if exc is None else "stopped" if _was_stopped(exc) else "failed"
        if exc is not None and not _was_stopped(exc):
            self._manifest["error"] = f"{type(exc).__name__}: {exc}"
        self._manifest["ended_utc"] = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_manifest()

    def _write_manifest(self) -> None:
        beside = self.path / "manifest.json.part"
        beside.write_text(json.dumps(self._manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(self.path / "manifest.json")


def machine() -> dict[str, Any]:
    """What this machine is: product, processor, cores, memory, system."""
    return {
        "product": product_name(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def product_name() -> str | None:
    """The vendor's name of this machine as its firmware gives it; None where it cannot be read."""
    try:
        return Path("/sys/devices/virtual/dmi/id/product_name").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def is_target() -> bool:
    """True only on the target laptop itself."""
    return product_name() == TARGET_PRODUCT


def git_state() -> dict[str, Any] | None:
    """Commit of the source tree and whether it has changes; None outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def command_line() -> list[str]:
    """The command that runs now, as a person would type it."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _fresh_folder(base: Path, name: str) -> Path:
    for attempt in range(1, 1000):
        path = base / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if not base.is_dir():
                raise PadsError(
                    f"run folder '{base}' is not a folder; choose another with --set run.dir=PATH"
                ) from None
        except OSError as exc:
            raise PadsError(f"run folder '{base}' cannot be written: {exc.strerror}; use --set run.dir=PATH") from None
    raise PadsError(f"run folder '{base}' already holds a thousand runs named '{name}'")


def _was_stopped(exc: BaseException) -> bool:
    return isinstance(exc, KeyboardInterrupt | SystemExit)
