"""Measured processes: what goes wrong in one is an error with what it said, never a figure of zero."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pads_runtime.errors import PadsError

_TAIL = 4000


class ChildFailed(PadsError):
    """A measured process exited with a code other than 0, ran too long, or left a figure out."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output
        """The end of what it wrote to stdout and stderr."""


def run_child(
    command: Sequence[str],
    needed: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> dict[str, Any]:
    """Run ``command`` and read the JSON object on the last line of its stdout.

    Every figure in ``needed`` must be there, a number and finite. Raises ChildFailed otherwise, or if the process exits
    with another code than 0 or runs longer than ``timeout_s`` (it and its children are killed then).
    """
    process = subprocess.Popen(
        list(command),
        env=os.environ | dict(environment or {}),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    called = shlex.join(command)[:120]
    try:
        out, err = process.communicate(timeout=timeout_s)
    except BaseException as exc:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        if isinstance(exc, subprocess.TimeoutExpired):
            raise ChildFailed(f"'{called}' ran longer than {timeout_s:g} s and was killed", _tail(out, err)) from None
        raise
    if process.returncode:
        why = (err.strip().splitlines() or out.strip().splitlines() or ["it said nothing"])[-1]
        raise ChildFailed(f"'{called}' exited with {process.returncode}: {why[:300]}", _tail(out, err))
    return _figures(out, err, needed, called)


def _figures(out: str, err: str, needed: Sequence[str], called: str) -> dict[str, Any]:
    try:
        found = json.loads((out.strip().splitlines() or [""])[-1])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ChildFailed(f"'{called}' printed no JSON object", _tail(out, err))
    for name in needed:
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ChildFailed(f"'{called}' left out the figure {name}", _tail(out, err))
    return found


def _tail(out: str, err: str) -> str:
    return f"stdout: {out[-_TAIL:].strip() or '-'}\nstderr: {err[-_TAIL:].strip() or '-'}"
