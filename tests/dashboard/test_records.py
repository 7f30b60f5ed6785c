"""Run records as the page lists them: whole, cut off, odd, and out of bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.dashboard import records


def states(runs: Any) -> dict[str, str]:
    return {record.name: record.state for record in records.latest(runs.folder, 50)}


def test_the_latest_runs_come_first_and_only_so_many(runs: Any) -> None:
    for hour in range(10, 15):
        runs.add(f"20270101T{hour}0000Z-talk")
    found = [record.name for record in records.latest(runs.folder, 3)]
    assert found == ["20270101T140000Z-talk", "20270101T130000Z-talk", "20270101T120000Z-talk"]


def test_a_run_whose_process_is_gone_is_cut_off_and_not_running(runs: Any) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    runs.add("a", status="running", pid=int(gone.stdout))
    runs.add("b", status="running", pid=os.getpid())
    runs.add("c", status="running", pid=os.getpid(), began_utc="2001-01-01T00:00:00+00:00")
    runs.add("d", status="running", pid=None)
    runs.add("e", status="failed", error="the disk\nis full")
    assert states(runs) == {"a": "cut off", "b": "running", "c": "cut off", "d": "running", "e": "failed"}
    assert records.read(runs.folder, "e").error == "the disk is full"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": ', '{"settings": 3}', "\x00\xff", "[" * 100_000])
def test_a_manifest_that_was_cut_off_or_is_odd_is_no_fault(runs: Any, text: str) -> None:
    folder = runs.add("a")
    runs.add("b")
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    assert "b" in states(runs)
    record = records.read(runs.folder, "a")
    assert record is None or record.state == "unknown"


def test_a_huge_manifest_is_not_read(runs: Any) -> None:
    folder = runs.add("a")
    (folder / "manifest.json").write_text(json.dumps({"x": "y" * records.MANIFEST_BYTES}), encoding="utf-8")
    assert records.read(runs.folder, "a") is None


def test_a_folder_without_a_record_and_no_folder_at_all_are_no_fault(runs: Any, tmp_path: Path) -> None:
    (runs.folder / "empty").mkdir()
    (runs.folder / "a-file").write_text("x", encoding="utf-8")
    assert states(runs) == {}
    assert list(records.latest(tmp_path / "nowhere", 5)) == []


@pytest.mark.parametrize(
    "name", ["..", ".", "../runs", "a/../../x", "/etc", "", ".hidden", "a\0b", "a b", "..%2f", "é", "x" * 300]
)
def test_no_name_leads_out_of_the_folder(runs: Any, name: str) -> None:
    runs.add("a")
    (runs.folder.parent / "manifest.json").write_text("{}", encoding="utf-8")
    assert records.folder_of(runs.folder, name) is None
    assert records.file_of(runs.folder, name, "manifest.json") is None


def test_a_link_that_leads_elsewhere_is_not_followed(runs: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "timeline.html").write_text("secret", encoding="utf-8")
    (runs.folder / "linked").symlink_to(secret)
    inside = runs.add("inside")
    (inside / "timeline.html").symlink_to(secret / "timeline.html")
    assert records.file_of(runs.folder, "linked", "timeline.html") is None
    assert records.file_of(runs.folder, "inside", "timeline.html") is None
    assert not records.read(runs.folder, "inside").has_timeline  # type: ignore[union-attr]


def test_figures_of_a_talk_are_its_totals(runs: Any) -> None:
    runs.add("a")
    row = {"turns": 8, "post_confirm_ttft_ms": {"p50": 0.4}, "dead_air_ms": None, "prepared": 7, "committed": 5}
    runs.metrics("a", row, {"turn": 1})
    record = records.read(runs.folder, "a")
    assert record is not None
    assert records.figures(runs.folder, record) == [
        ["turns", "8"],
        ["wait for the model", "0 ms"],
        ["prepared replies used", "5 of 7"],
    ]


def test_figures_of_a_benchmark_are_the_first_ones_that_are_known(runs: Any) -> None:
    runs.add("a", name="bench-stages")
    rows = [{"name": f"m{i}", "unit": "ms", "p50": i * 1.23456} for i in range(9)]
    runs.metrics("a", {"name": "unknown", "unit": "", "p50": float("nan")}, *rows)
    record = records.read(runs.folder, "a")
    assert record is not None
    found = records.figures(runs.folder, record)
    assert found[:2] == [["m0", "0 ms"], ["m1", "1.235 ms"]]
    assert found[-1] == ["further figures", "5"]


def test_metrics_that_were_cut_off_count_as_far_as_they_go(runs: Any) -> None:
    folder = runs.add("a")
    (folder / "metrics.jsonl").write_text('{"turns": 2}\n{"turn": 1, "us', encoding="utf-8")
    record = records.read(runs.folder, "a")
    assert record is not None
    assert records.figures(runs.folder, record) == [["turns", "2"]]
    (folder / "metrics.jsonl").write_text('{"tur', encoding="utf-8")
    assert records.figures(runs.folder, record) == []
