"""Whole talks through the real command, each held once for all tests that look at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.errors import PadsError
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


def _command() -> list[str]:
    script = Path(sys.executable).with_name("pads")
    return [str(script)] if script.exists() else [sys.executable, "-m", "pads_runtime.cli"]


@pytest.fixture(scope="session")
def pads_command() -> list[str]:
    """The words that start the command."""
    return _command()


@pytest.fixture(scope="session")
def models() -> Registry:
    registry = Registry.load()
    for entry in registry.entries.values():
        if entry.embedded:
            try:
                registry.path(entry.name)
            except PadsError as exc:
                pytest.skip(f"an embedded model is not on this machine: {exc}")
    return registry


@pytest.fixture(scope="session")
def told(models: Registry, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[dict[str, Any], str]]:
    """``told("demo", "--compare")`` runs the command with --json; returns its one object and its stderr."""

    def run(*words: str | Path) -> tuple[dict[str, Any], str]:
        runs = tmp_path_factory.mktemp("runs")
        command = [*_command(), *map(os.fspath, words), "--json", "--set", f"run.dir={runs}"]
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
