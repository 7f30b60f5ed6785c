"""``pads dashboard`` as a process of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pads_runtime.cli import main


def here(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pads", "dashboard", *words])
    return main()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end_which_is_no_fault(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pads_runtime.cli", "dashboard", "--port", "0", "--json"]
    command += ["--set", f"run.dir={tmp_path / 'runs'}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert "<title>PADS</title>" in answer.read().decode()
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "", "Ctrl-C ends it\n")


def test_a_taken_port_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert here(monkeypatch, "--port", str(port)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: port {port} of 127.0.0.1 is taken; choose another with --port, or 0 for any free one\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--host", "0.0.0.0"), "give a token as well: --token or PADS_DASHBOARD_TOKEN"),
        (("--host", "0.0.0.0", "--token", "short"), "the dashboard's token must have 16 characters or more"),
        (("--port", "70000"), "'--port'"),
        (("--set", "run.nowhere=x"), "unknown setting 'run.nowhere'"),
    ],
)
def test_what_cannot_be_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert here(monkeypatch, *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.count("\n") == 1
