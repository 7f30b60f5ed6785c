"""Caps that the kernel enforces: a systemd scope with MemoryMax, or a cgroup of version 2 that we may write to.

Version 1 is not used: where it is still mounted the hierarchy belongs to whoever runs the machine or the container.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .job import Ended, exit_code, start


@dataclass(frozen=True, slots=True)
class SystemdScope:
    """``systemd-run --scope``, the user's own manager unless we are root."""

    user: bool

    @classmethod
    def find(cls, root: Path = Path("/")) -> SystemdScope | None:
        """None where systemd does not run this machine or does not let us make a scope."""
        if not (root / "run/systemd/system").is_dir() or shutil.which("systemd-run") is None:
            return None
        scope = cls(os.geteuid() != 0)
        return scope if _silent(scope.command(["true"], 64, "pads-guard-probe")) == 0 else None

    def command(self, command: Sequence[str], cap_mb: float, unit: str) -> list[str]:
        """The job inside a scope that holds at most ``cap_mb``, none of it swapped out."""
        manager = ["--user"] if self.user else []
        limits = ["-p", f"MemoryMax={round(cap_mb * 1e6)}", "-p", "MemorySwapMax=0"]
        return ["systemd-run", *manager, "--scope", "--quiet", f"--unit={unit}", *limits, "--", *command]

    def run(self, command: Sequence[str], cap_mb: float, environment: dict[str, str]) -> Ended:
        """Run the job; the manager says whether memory ended it."""
        unit = f"pads-guard-{os.getpid()}"
        job = start(self.command(command, cap_mb, unit), environment)
        code = exit_code(job.wait())
        manager = ["--user"] if self.user else []
        show = ["systemctl", *manager, "show", f"{unit}.scope", "--property=Result", "--value"]
        asked = subprocess.run(show, capture_output=True, text=True, check=False)
        _silent(["systemctl", *manager, "stop", f"{unit}.scope"])
        _silent(["systemctl", *manager, "reset-failed", f"{unit}.scope"])
        breached = asked.stdout.strip() == "oom-kill"
        told = f"{cap_mb:.0f} MB allowed (systemd scope)"
        return Ended(137 if breached else code, breached, told)


@dataclass(frozen=True, slots=True)
class CgroupV2:
    """A group beside our own, in a parent that lets us limit memory."""

    parent: Path

    @classmethod
    def find(cls, root: Path = Path("/")) -> CgroupV2 | None:
        """None where version 2 does not hold the memory controller here or the parent is not ours to write."""
        try:
            lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
            own = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
            parent = (root / "sys/fs/cgroup" / own.lstrip("/")).parent
            if own == "/" or "memory" not in (parent / "cgroup.subtree_control").read_text(encoding="utf-8").split():
                return None
        except (OSError, StopIteration):
            return None
        return cls(parent) if os.access(parent, os.W_OK) else None

    def run(self, command: Sequence[str], cap_mb: float, environment: dict[str, str]) -> Ended:
        """Run the job in a new group and remove it afterwards, with whatever is left in it."""
        group = self.parent / f"pads-guard-{os.getpid()}"
        group.mkdir()
        try:
            for name, value in (("memory.max", str(round(cap_mb * 1e6))), ("memory.oom.group", "1")):
                (group / name).write_text(value, encoding="utf-8")
            with contextlib.suppress(OSError):  # no swap accounting
                (group / "memory.swap.max").write_text("0", encoding="utf-8")
            job = start(command, environment, join=group / "cgroup.procs")
            code = exit_code(job.wait())
            breached = killed_by_memory((group / "memory.events").read_text(encoding="utf-8"))
            return Ended(137 if breached else code, breached, f"{cap_mb:.0f} MB allowed (cgroup)")
        finally:
            with contextlib.suppress(OSError):
                (group / "cgroup.kill").write_text("1", encoding="utf-8")
            with contextlib.suppress(OSError):
                group.rmdir()


def killed_by_memory(events: str) -> bool:
    """Whether a group's ``memory.events`` counts a kill."""
    return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in events.splitlines())


def _silent(command: list[str]) -> int:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
