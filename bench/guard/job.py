"""A guarded job: how it is started, and how it ended."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ended:
    """``code`` is what the shell would see; ``breached`` whether the memory cap ended the job."""

    code: int
    breached: bool
    told: str


def start(command: Sequence[str], environment: Mapping[str, str], join: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the job in a session of its own, first in line should the kernel run out of memory.

    ``join`` is the ``cgroup.procs`` it enters before anything runs. Raises UsageError if there is no such program.
    """

    def before() -> None:  # between fork and exec
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")
        if join is not None:
            join.write_text("0", encoding="utf-8")

    try:
        return subprocess.Popen(list(command), env=dict(environment), start_new_session=True, preexec_fn=before)
    except (FileNotFoundError, PermissionError) as exc:
        raise UsageError(f"'{command[0]}' cannot be started: {exc.strerror}") from None


def exit_code(returncode: int) -> int:
    """A shell's code: 128 + signal for a job that a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode
