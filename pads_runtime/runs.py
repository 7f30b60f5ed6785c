"""Run records: what was run, on what, with which models and settings, and what came of it.

``runs/<UTC time>-<name>/`` holds ``cmd.sh`` (the command, ready to run again), ``manifest.json``, ``trace.jsonl``,
``metrics.jsonl`` and ``log.txt``. The record is made before the work begins and kept whatever becomes of it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from .config import ROOT, PadsSettings
from .errors import PadsError

TARGET_PRODUCT = "Latitude 5490"
"""Figures may be called the target's only when the machine says it is this."""
DMI = Path("/sys/devices/virtual/dmi/id")
"""Where Linux shows what the firmware says of the machine."""
GUARD_VARIABLE = "PADS_GUARD_RECORDS"
"""Where `scripts/guard` wants to be told the folders of the records that its job makes."""
_NAME_CHARS = 80
_SECRET = re.compile(r"^((?:--set=)?bus(?:\.password)?=).*", re.DOTALL)
"""A setting on the command line that must not be kept."""


class RunRecord:
    """One run's folder. A context manager: how it ended is written when it ends."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self._manifest = manifest
        self._write_manifest()

    @classmethod
    def begin(
        cls,
        name: str,
        purpose: str,
        settings: PadsSettings,
        models: Mapping[str, str],
        command: Sequence[str],
        dmi: Path = DMI,
    ) -> RunRecord:
        """Make the folder. ``models`` maps each model's name to its sha256. Raises PadsError if it cannot be made."""
        began = datetime.now(UTC)
        path = _fresh_folder(settings.run.dir, f"{began:%Y%m%dT%H%M%SZ}-{_plain(name)}")
        command = [_SECRET.sub(r"\1**********", word) for word in command]
        _write_command(path / "cmd.sh", command)
        manifest = {
            "name": name,
            "purpose": purpose,
            "began_utc": began.isoformat(timespec="seconds"),
            "status": "running",
            "pid": os.getpid(),
            "command": list(command),
            "git": git_state(),
            "machine": machine(dmi),
            "reportable_as_target_hardware": is_target(dmi),
            "models": dict(models),
            "settings": settings.model_dump(mode="json"),
        }
        record = cls(path, manifest)
        _tell_guard(path)
        return record

    @property
    def trace_path(self) -> Path:
        return self.path / "trace.jsonl"

    def metrics(self, **figures: Any) -> None:
        """Append one line of figures to metrics.jsonl."""
        self._append("metrics.jsonl", json.dumps(figures, ensure_ascii=False))

    def log(self, line: str) -> None:
        """Append one line to log.txt, with the wall time."""
        self._append("log.txt", f"{datetime.now(UTC):%H:%M:%S} {line}")

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._manifest["status"] = "finished" if exc is None else "stopped" if _was_stopped(exc) else "failed"
        if exc is not None and not _was_stopped(exc):
            self._manifest["error"] = f"{type(exc).__name__}: {exc}"
        self._manifest["ended_utc"] = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            self._write_manifest()
            self.log(": ".join(str(self._manifest[key]) for key in ("status", "error") if key in self._manifest))
        except PadsError:
            if exc is None:  # else what went wrong first is the thing to tell
                raise

    def _write_manifest(self) -> None:
        beside = self.path / "manifest.json.part"
        with _writing(self.path):
            # A name that is not UTF-8 is escaped, which JSON reads back as it was.
            text = json.dumps(self._manifest, indent=2, ensure_ascii=False) + "\n"
            beside.write_text(text, encoding="utf-8", errors="backslashreplace")
            beside.replace(self.path / "manifest.json")

    def _append(self, name: str, line: str) -> None:
        path = self.path / name
        with _writing(self.path), path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(line + "\n")


def mark_killed(folder: Path, why: str) -> None:
    """Say in a record that its process was ended from outside. A record that is gone or had ended is left alone."""
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if manifest.get("status") == "running":
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = RunRecord(folder, manifest | {"status": "killed", "error": why, "ended_utc": now})
        record.log(f"killed: {why}")


def _tell_guard(folder: Path) -> None:
    where = os.environ.get(GUARD_VARIABLE)
    if where:
        with suppress(OSError), Path(where).open("a", encoding="utf-8") as file:
            file.write(f"{folder.resolve()}\n")


def machine(dmi: Path = DMI) -> dict[str, Any]:
    """What this machine is: product, processor, cores, memory, system."""
    return {
        "product": product_name(dmi),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def product_name(dmi: Path = DMI) -> str | None:
    """The vendor's name of this machine as its firmware gives it; None where it cannot be read."""
    try:
        return (dmi / "product_name").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def is_target(dmi: Path = DMI) -> bool:
    """True only on the target laptop itself."""
    return product_name(dmi) == TARGET_PRODUCT


def git_state() -> dict[str, Any] | None:
    """Commit of the source tree and whether it has changes; None outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def command_line() -> list[str]:
    """The command that runs now, in a form that runs again."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m name
        return [sys.executable, "-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    return [str(Path(sys.argv[0]).absolute()), *sys.argv[1:]]


def _write_command(path: Path, command: Sequence[str]) -> None:
    """A script that runs ``command`` again from the folder where it ran."""
    lines = ["#!/bin/sh", f"cd {shlex.quote(str(Path.cwd()))} || exit", f"exec {shlex.join(command)}"]
    with _writing(path.parent):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        path.chmod(0o755)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise PadsError(f"run record '{folder}' cannot be written: {exc.strerror}; use --set run.dir=PATH") from None


def _plain(name: str) -> str:
    """A name that any file system takes: letters, digits, ``._-``, and not too many."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII)[:_NAME_CHARS]


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
