"""``pads chat`` with typed turns from a pipe."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.models import Registry
from pads_runtime.trace import read

Pads = Callable[..., Any]
SHORT = ("--set", "engine.max_reply_tokens=6")


def test_an_empty_chat_is_no_fault(pads: Pads, models: Registry) -> None:
    told = pads("chat", "--json", typed=b"").json
    assert (told["turns"], told["per_turn"]) == (0, [])


def test_piped_turns_are_answered_in_order(pads: Pads, models: Registry) -> None:
    done = pads("chat", "--json", *SHORT, typed=b"What is the sea?\n\nI like it.\n")
    told = done.json
    assert told["turns"] == 2
    assert [row["user"] for row in told["per_turn"]] == ["What is the sea?", "I like it."]
    assert [row["deep"] for row in told["per_turn"]] == [True, False]
    assert all(row["agent"] and 0 < row["tokens"] <= 6 for row in told["per_turn"])
    record = Path(told["run"])
    assert [json.loads(line) for line in (record / "metrics.jsonl").read_text().splitlines()] == told["per_turn"]
    served = [event.fields for event in read(record / "trace.jsonl") if event.kind == "reply_served"]
    assert served == [{**row, "p_deep": round(row["p_deep"], 6)} for row in told["per_turn"]]


@pytest.mark.slow
def test_the_same_turns_are_answered_the_same_also_with_chance(pads: Pads, models: Registry) -> None:
    def replies(*more: str) -> list[str]:
        told = pads("chat", "--json", "--set", "engine.temperature=1.0", *SHORT, *more, typed=b"Hello.\nAnd you?\n")
        return [row["agent"] for row in told.json["per_turn"]]

    first = replies("--set", "engine.seed=1")
    assert replies("--set", "engine.seed=1") == first
    assert replies("--set", "engine.seed=2") != first


def test_without_json_the_replies_are_what_is_printed(pads: Pads, models: Registry) -> None:
    done = pads("chat", *SHORT, typed=b"Hello.\n")
    assert (done.code, done.err) == (0, "loading models\n")
    (record,) = done.records
    (row,) = [json.loads(line) for line in (record / "metrics.jsonl").read_text().splitlines()]
    assert done.out.strip() == row["agent"]
    assert "you>" not in done.out, "nobody sits at a terminal"


def test_a_turn_longer_than_the_context(pads: Pads, models: Registry) -> None:
    done = pads("chat", "--json", "--set", "engine.n_ctx=128", *SHORT, typed=b"word " * 400 + b"\n")
    done.refused(1, "the last turn needs 4")
    assert "say less at once, or raise engine.n_ctx" in done.err
    assert done.manifest()["status"] == "failed"


def test_the_turns_before_one_that_is_too_long_are_kept(pads: Pads, models: Registry) -> None:
    done = pads("chat", "--set", "engine.n_ctx=128", *SHORT, typed=b"Hello.\n" + b"word " * 400)
    assert done.code == 1
    assert done.err.count("error: ") == 1
    (record,) = done.records
    assert len((record / "metrics.jsonl").read_text().splitlines()) == 1
    assert [event.kind for event in read(record / "trace.jsonl")].count("reply_served") == 1


def test_bytes_that_are_not_utf_8(pads: Pads, models: Registry) -> None:
    done = pads("chat", "--json", typed=b"\ncaf\xe9\n")
    done.refused(1, "typed line 2 is not UTF-8 text (byte 4)")
    assert done.manifest()["status"] == "failed"


@pytest.mark.parametrize("setting", ["engine.n_ctx=100", "engine.max_reply_tokens=0", "engine.temperature=-1"])
def test_a_setting_out_of_range(pads_here: Pads, setting: str) -> None:
    pads_here("chat", "--set", setting).refused(2, f"setting '{setting.split('=')[0]}'")


def test_a_reply_that_leaves_no_room_for_a_prompt(pads: Pads, models: Registry) -> None:
    pads("chat", "--set", "engine.n_ctx=128", "--set", "engine.max_reply_tokens=128").refused(2, "leaves no room")


def test_ctrl_c_ends_a_chat_that_waits_for_a_line(tmp_path: Path, models: Registry, pads_command: list[str]) -> None:
    words = [*pads_command, "chat", "--set", f"run.dir={tmp_path / 'runs'}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as chat:
        assert chat.stdin and chat.stdout and chat.stderr
        try:
            chat.stdin.write(b"Hello.\n")
            chat.stdin.flush()
            assert chat.stdout.readline().strip(), "the reply, after which it waits for the next line"
            time.sleep(0.2)
            chat.send_signal(signal.SIGINT)
            code = chat.wait(timeout=10)
        finally:
            chat.kill()
        told = chat.stderr.read()
    assert code == 130
    assert told.endswith(b"error: stopped; the run record holds what was done\n")
    (record,) = (tmp_path / "runs").iterdir()
    assert json.loads((record / "manifest.json").read_text())["status"] == "stopped"
    assert read(record / "trace.jsonl")[-1].kind == "reply_served"
