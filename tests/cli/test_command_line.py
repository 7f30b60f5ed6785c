"""What every command has in common: help, one JSON object on stdout, a reader that goes away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from pads_runtime import __version__
from pads_runtime.models import Registry

Pads = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["demo", "replay", "chat", "models", "doctor", "version"]),
        (["demo"], ["--json", "--set", "--config", "--clock", "--compare"]),
        (["models"], ["list", "pull", "verify"]),
    ],
)
def test_help_names_what_there_is(pads_here: Pads, words: list[str], names: list[str]) -> None:
    # The helper puts its run folder last, where --help has already ended the command.
    done = pads_here(*words, "--help")
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in names)


def test_the_version_is_printed(pads: Pads) -> None:
    done = pads("version")
    assert (done.code, done.out, done.err) == (0, f"{__version__}\n", "")


def test_models_are_told_as_one_object(pads: Pads, models: Registry) -> None:
    listed = pads("models", "list", "--json").json
    assert {row["name"] for row in listed["models"]} == set(models.entries)
    checked = pads("models", "verify", "smart-turn-v3.2", "--json").json
    assert checked["ok"] is True


def test_the_doctor_tells_one_object_whether_content_or_not(pads: Pads) -> None:
    import json

    done = pads("doctor", "--json")
    assert done.code in (0, 1)
    assert isinstance(json.loads(done.out), dict)
    assert "Traceback" not in done.err


def test_a_reader_that_goes_away_is_no_fault_to_complain_of(pads_command: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*pads_command, "models", "list", "--json"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 1


def test_standard_input_that_is_closed_is_told(pads_command: list[str], tmp_path: Any) -> None:
    words = [*pads_command, "chat", "--set", f"run.dir={tmp_path}"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard input is closed, so nothing can be typed"
    assert "Traceback" not in done.stderr
