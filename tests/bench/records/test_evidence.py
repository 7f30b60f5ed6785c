"""Run records read back, whole and cut off, and what is committed of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.records.evidence import MOST_BYTES, cite, entry, load_evidence
from bench.records.read import Run, read_run, read_runs
from pads_runtime.errors import DataError

NAME = "20261130T101200Z-bench-x"
MANIFEST: dict[str, Any] = {
    "name": "bench-x",
    "status": "finished",
    "pid": 77,
    "command": ["/home/me/pads/.venv/bin/python", "-m", "bench", "x", "--ami", "../shared/data/ami.tar.xz"],
    "machine": {"product": None, "cpu": "c", "system": "Linux 6.18.44-some-host", "cores": 2},
    "reportable_as_target_hardware": False,
    "settings": {"clock": {"kind": "virtual"}, "run": {"dir": "/home/me/runs"}},
}
LINES = [{"name": "step", "p50": 8.4, "note": "from /home/me/model.gguf at 3 MB/s"}, {"protocol": {"breaches": []}}]


def record(base: Path, name: str = NAME, manifest: dict[str, Any] | None = None, lines: Any = LINES) -> Path:
    folder = base / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST | (manifest or {})), encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder


def tagged(**manifest: Any) -> str:
    return Run(NAME, MANIFEST | manifest, (), ()).tag


def test_a_tag_follows_from_the_machine_the_clock_the_end_and_the_protocol() -> None:
    assert tagged() == "MEASURED dev-host"
    assert tagged(reportable_as_target_hardware=True) == "MEASURED target"
    assert tagged(name="demo") == "DESCRIPTIVE"
    assert tagged(name="demo", settings={"clock": {"kind": "real"}}) == "MEASURED dev-host"
    assert [tagged(status=s) for s in ("running", "failed", "killed", "stopped")] == ["DESCRIPTIVE"] * 4
    broken = Run(NAME, MANIFEST, ({"protocol": {"breaches": ["busy"]}},), ())
    assert (broken.tag, broken.why) == ("DESCRIPTIVE", "busy")


def test_a_record_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = record(tmp_path)
    whole = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(whole[: len(whole) - 9], encoding="utf-8")
    run = read_run(folder)
    assert [line["name"] for line in run.figures] == ["step"]
    assert (run.tag, run.why) == ("DESCRIPTIVE", "line 2 of the figures is cut off")
    (folder / "manifest.json").write_text('{"status": "fini', encoding="utf-8")
    assert "the manifest is cut off" in read_run(folder).faults
    (folder / "manifest.json").unlink()
    (folder / "metrics.jsonl").unlink()
    assert read_run(folder).faults == ("no manifest",)
    assert [run.name for run in read_runs(tmp_path)] == [NAME]
    with pytest.raises(DataError, match="not a folder"):
        read_runs(tmp_path / "none")


def test_evidence_holds_the_figures_and_no_folder_of_the_machine(tmp_path: Path) -> None:
    path = cite(record(tmp_path / "runs"), evidence=tmp_path / "evidence")
    text = path.read_text()
    kept = load_evidence(tmp_path / "evidence")[NAME]
    assert kept["command"] == "python -m bench x --ami ami.tar.xz"
    assert kept["figures"] == [{"name": "step", "p50": 8.4, "note": "from model.gguf at 3 MB/s"}]
    assert kept["machine"]["system"] == "Linux 6.18"
    assert [word for word in ("/home", "some-host", "pid", "..") if word in text] == []


def test_a_large_record_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    kept = entry(read_run(record(tmp_path, lines=[{"name": f"row{i}", "note": "x" * 250} for i in range(500)])))
    assert len(json.dumps(kept)) < MOST_BYTES + 2_000
    assert len(kept["figures"]) + kept["figures_left_out"] == 500


def test_a_run_that_replaces_another_marks_it_superseded(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    cite(record(tmp_path), evidence=evidence)
    cite(record(tmp_path, "20261130T111200Z-bench-x"), supersedes=NAME, evidence=evidence)
    old = load_evidence(evidence)[NAME]
    assert (old["tag"], old["superseded_by"]) == ("SUPERSEDED", "20261130T111200Z-bench-x")


def test_what_cannot_be_cited_or_believed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no manifest"):
        cite(tmp_path / "none", evidence=tmp_path / "evidence")
    with pytest.raises(DataError, match="no evidence of run"):
        cite(record(tmp_path), supersedes="20200101T000000Z-x", evidence=tmp_path / "evidence")
    claimed = record(tmp_path, "20261130T121200Z-bench-x", {"reportable_as_target_hardware": True})
    cite(claimed, evidence=tmp_path / "lies")
    with pytest.raises(DataError, match="claims the target"):
        load_evidence(tmp_path / "lies")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / f"{NAME}.json").write_text('{"run', encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        load_evidence(tmp_path / "cut")
