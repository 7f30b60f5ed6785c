"""The real command as a process of its own, and recordings to give it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from pads_runtime.cli import main

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str
    runs: Path

    @property
    def json(self) -> Any:
        """Stdout, which must be exactly one JSON object."""
        assert self.code == 0, self.err
        told = json.loads(self.out)
        assert isinstance(told, dict)
        assert self.out.count("\n") == 1
        assert self.out.endswith("\n")
        return told

    @property
    def records(self) -> list[Path]:
        """The run folders, oldest first."""
        return sorted(self.runs.iterdir()) if self.runs.is_dir() else []

    def manifest(self) -> dict[str, Any]:
        """Of the only run there is."""
        (record,) = self.records
        told: dict[str, Any] = json.loads((record / "manifest.json").read_text(encoding="utf-8"))
        return told

    def refused(self, code: int, message: str) -> None:
        """Exactly one line that begins with ``error:`` and holds ``message``, last on stderr; nothing on stdout."""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert lines[-1] == errors[0]
        assert message in errors[0]
        assert all(line.startswith(("loading models", "talking: ", "replaying ")) for line in lines[:-1]), self.err
        assert self.code == code
        assert self.out == ""


def _command() -> list[str]:
    script = Path(sys.executable).with_name("pads")
    return [str(script)] if script.exists() else [sys.executable, "-m", "pads_runtime.cli"]


def _words(runs: Path, args: Sequence[str | Path]) -> list[str]:
    records = ["--set", f"run.dir={runs}"] if args and args[0] in ("demo", "replay", "chat") else []
    return [*map(os.fspath, args), *records]


def _run(
    runs: Path, *args: str | Path, typed: bytes = b"", extra: Mapping[str, str] | None = None, privileged: bool = True
) -> Ran:
    words = [*_command(), *_words(runs, args)]
    environment = {**os.environ, "COLUMNS": "200", **(extra or {})}
    before = None if privileged else _without_privileges
    done = subprocess.run(
        words, input=typed, capture_output=True, env=environment, timeout=300, check=False, preexec_fn=before
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), runs)


@pytest.fixture
def pads(tmp_path: Path) -> Callable[..., Ran]:
    """``pads("replay", file)`` runs the command; its records go to a folder of this test.

    ``typed`` is its standard input, ``extra`` goes into its environment, ``privileged=False`` takes root's rights away.
    """
    return lambda *args, **more: _run(tmp_path / "runs", *args, **more)


def _without_privileges() -> None:
    """In the child: what a file's mode forbids is forbidden to root too."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
    libc.prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0)


@pytest.fixture
def pads_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """The same without a process of its own: for what ends before anything is loaded."""

    def here(*args: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["pads", *_words(tmp_path / "runs", args)])
        code = main()
        return Ran(code, *capsys.readouterr(), tmp_path / "runs")

    return here


@pytest.fixture(scope="session")
def question() -> np.ndarray[Any, np.dtype[np.float32]]:
    """A second or two of speech at 24 kHz with silence behind it, as floats."""
    from hibari import Hibari

    spoken = np.asarray(Hibari()("What is the time in London?", seed=0), np.float32)
    return np.concatenate([np.zeros(12_000, np.float32), spoken, np.zeros(48_000, np.float32)])


@pytest.fixture
def recording(tmp_path: Path, question: np.ndarray[Any, np.dtype[np.float32]]) -> Callable[..., Path]:
    """``recording(rate, channels, "x.wav")`` writes the question at that rate; all channels but the first are quiet."""

    def written(rate: int, channels: int, name: str) -> Path:
        mono = soxr.resample(question, 24_000, rate)
        path = tmp_path / name
        soundfile.write(path, np.stack([mono] + [mono * 0.01] * (channels - 1), axis=1), rate)
        return path

    return written
