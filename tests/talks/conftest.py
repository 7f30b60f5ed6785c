"""Whole talks through the real command, each held once for all tests that look at it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.frames import TraceEvent
from pads_runtime.models import Registry
from pads_runtime.trace import read


@dataclass(frozen=True)
class Held:
    """A talk that was held: the figures the command printed, what it told on the way, and its folder."""

    figures: dict[str, Any]
    told: str
    folder: Path

    @property
    def events(self) -> list[TraceEvent]:
        return read(self.folder / "trace.jsonl")

    @property
    def replies(self) -> list[tuple[int, str, str]]:
        """Turn, what the user was understood to say, what was answered."""
        return [(row["turn"], row["user"], row["agent"]) for row in self.figures["per_turn"]]


@pytest.fixture(scope="session")
def told(
    models: Registry, pads_command: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[dict[str, Any], str]]:
    """``told("demo", "--compare")`` runs the command with --json; returns its one object and its stderr."""

    def run(*words: str | Path) -> tuple[dict[str, Any], str]:
        runs = tmp_path_factory.mktemp("runs")
        command = [*pads_command, *map(os.fspath, words), "--json", "--set", f"run.dir={runs}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1, "exactly one line on stdout"
        figures = json.loads(done.stdout)
        assert isinstance(figures, dict)
        return figures, done.stderr

    return run


@pytest.fixture(scope="session")
def hold(told: Callable[..., tuple[dict[str, Any], str]]) -> Callable[..., Held]:
    """``hold("demo")`` or ``hold("replay", file)``: the talk that came of it."""

    def held(*words: str | Path) -> Held:
        figures, progress = told(*words)
        return Held(figures, progress, Path(figures["run"]))

    return held
