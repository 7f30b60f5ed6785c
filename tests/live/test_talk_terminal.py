"""The real ``pads talk`` on a pseudo-terminal, with the rig for its devices: the screen, the keys, and the way out."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.models import Registry

pytestmark = pytest.mark.slow

LEAVES = "\x1b[?1049l"
"""Back from the alternate screen (xterm)."""


class Terminal:
    """A terminal of 100 x 30 in which ``pads talk`` runs as a session of its own, as after ssh."""

    def __init__(self, env: dict[str, str], runs: Path) -> None:
        self.person, self.program = pty.openpty()
        termios.tcsetwinsize(self.program, (30, 100))
        self.before = termios.tcgetattr(self.program)
        self.text = ""
        words = [sys.executable, "-m", "pads_runtime.cli", "talk", "--set", f"run.dir={runs}"]
        words += ["--set", "audio.input_device=pads_mic", "--set", "audio.output_device=pads_speaker"]
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words],
            env={**os.environ, **env, "TERM": "xterm-256color"},
            stdin=self.program,
            stdout=self.program,
            stderr=self.program,
        )

    def until(self, pattern: str, within_s: float = 60.0) -> None:
        give_up_s = time.monotonic() + within_s
        while not re.search(pattern, self.text):
            assert time.monotonic() < give_up_s, f"never seen: {pattern}\n{self.text[-3000:]}"
            if select.select([self.person], [], [], 0.2)[0]:
                self.text += os.read(self.person, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        self.text = ""
        os.write(self.person, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self.person)
        os.close(self.program)


@pytest.fixture
def terminal(rig: Any, models: Registry, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(rig.env, tmp_path / "runs")
    yield made
    made.close()


def manifest(runs: Path) -> Any:
    (folder,) = runs.iterdir()
    assert (folder / "timeline.html").exists()
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def test_keys_mute_and_end_the_talk_and_the_terminal_is_as_it_was(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until("PADS listens")
    assert not termios.tcgetattr(terminal.program)[3] & termios.ECHO
    terminal.type("m")
    terminal.until("MICROPHONE MUTED")
    terminal.type("q")
    terminal.until("turns answered")
    assert LEAVES in terminal.text
    assert terminal.process.wait(20) == 0
    assert termios.tcgetattr(terminal.program) == terminal.before
    assert manifest(tmp_path / "runs")["status"] == "finished"


def test_ctrl_c_ends_it_with_130_and_the_terminal_is_as_it_was(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until("PADS listens")
    terminal.type("\x03")
    terminal.until("stopped; the run record holds what was done")
    assert terminal.process.wait(20) == 128 + signal.SIGINT
    assert termios.tcgetattr(terminal.program) == terminal.before
    assert manifest(tmp_path / "runs")["status"] == "stopped"
