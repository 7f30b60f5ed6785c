"""``scripts/guard [options] [--] CMD...``: see the README beside this.

Exit codes: the job's own; 137 if the memory cap ended it; 75 if it was not let in; 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pads_runtime.errors import PadsError, UsageError
from pads_runtime.runs import GUARD_VARIABLE, mark_killed

from . import watched
from .admission import admit, available_mb, hottest_c
from .job import Ended
from .kernel import CgroupV2, SystemdScope

REFUSED = 75
"""sysexits' EX_TEMPFAIL: try again later."""
DEFAULT_FLOOR_MB = 1000.0

Run = Callable[[Sequence[str], float, dict[str, str]], Ended]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    asked = _parsed(argv)
    try:
        return guard(asked.command, asked.memory_floor, asked.memory_cap, asked.how)
    except PadsError as exc:
        _say(str(exc))
        return exc.exit_code
    except KeyboardInterrupt:
        return 130


def guard(command: Sequence[str], floor_mb: float, cap_mb: float | None, how: str) -> int:
    """Let ``command`` in, run it under the cap, say what became of it in its run records. Returns the exit code."""
    free = available_mb()
    cap = cap_mb if cap_mb is not None else max(free - floor_mb, 1.0)
    answer = admit(free, floor_mb, cap, hottest_c())
    for warning in answer.warnings:
        _say(f"warning: {warning}")
    if answer.refused:
        _say(f"not started: {answer.refused}")
        return REFUSED
    with tempfile.TemporaryDirectory(prefix="pads-guard-") as folder:
        records = Path(folder) / "records"
        ended = _backend(how)(command, cap, os.environ | {GUARD_VARIABLE: str(records)})
        if ended.breached:
            _say(f"memory cap breached: {ended.told}; the job was ended, nothing else was touched")
            for path in _lines(records):
                mark_killed(Path(path), f"memory cap breached: {ended.told}")
                _say(f"said so in {path}")
    return ended.code


def _backend(how: str) -> Run:
    if how in ("auto", "systemd") and (scope := SystemdScope.find()) is not None:
        return scope.run
    if how in ("auto", "cgroup") and (group := CgroupV2.find()) is not None:
        return group.run
    if how in ("auto", "watch"):
        return watched.run
    raise UsageError(f"--how {how}: this machine does not offer it; leave --how out")


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="guard", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--memory-floor", type=float, default=DEFAULT_FLOOR_MB, metavar="MB", help="free memory to start"
    )
    parser.add_argument("--memory-cap", type=float, metavar="MB", help="memory of the job; default: free less floor")
    parser.add_argument("--how", choices=("auto", "systemd", "cgroup", "watch"), default="auto", help="who enforces it")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="what to run")
    asked = parser.parse_args(argv)
    asked.command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not asked.command:
        parser.error("name a command to run")
    if asked.memory_floor < 0 or (asked.memory_cap is not None and asked.memory_cap <= 0):
        parser.error("--memory-floor cannot be negative, and --memory-cap must be above 0")
    return asked


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _say(line: str) -> None:
    print(f"guard: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
