"""``pads calibrate``: the break-even it shows, and what it says when it cannot measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pads_runtime.cli_calibrate import _break_even
from pads_runtime.config import ROOT
from pads_runtime.engine.costs import DepthCosts, ExitCosts


def calibrate(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pads_runtime.cli", "calibrate", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_break_even_is_the_lowest_acceptance_at_which_some_draft_pays() -> None:
    costs = DepthCosts(
        full={1: 10.0},
        exits={
            6: ExitCosts(1.0, 2.0, 1.0, {1: 9.0, 2: 9.0, 3: 9.0}),
            15: ExitCosts(9.0, 9.0, 9.0, {1: 9.0, 2: 18.0, 3: 27.0}),
        },
    )
    assert _break_even(costs) == {6: 0.1, 15: None}  # one draft: 11 ms for 1 + a tokens


def test_a_model_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    done = calibrate("--set", f"engine.model={tmp_path / 'none.gguf'}")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "none.gguf" in done.stderr


def test_a_file_that_is_no_model_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("nothing")
    done = calibrate("--set", f"engine.model={tmp_path / 'text.gguf'}")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("error: model file")
    assert len(lines) == 1 or (len(lines) == 2 and "busy" in lines[0])
