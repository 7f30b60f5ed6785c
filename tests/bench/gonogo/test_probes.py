"""What the tests are decided on, from planted records; and that one broken test does not take the others along."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from bench.gonogo import run as gonogo
from bench.gonogo import verdicts
from bench.gonogo.memory_speed import memory_gb_s
from bench.gonogo.probes import recorded_agreement, speed_ups, thread_counts
from bench.gonogo.verdicts import Answer
from bench.harness.child import ChildFailed
from bench.records.read import Run
from pads_runtime.engine.costs import DepthCosts, ExitCosts
from pads_runtime.errors import DataError

COSTS = DepthCosts({1: 10.0}, {6: ExitCosts(2.0, 3.0, 1.0, {1: 8.0, 2: 9.0, 3: 10.0})})


def acceptance(name: str, share: Any, status: str = "finished", **row: Any) -> Run:
    line = {"exits": "smollm, bare exits", "mode": "greedy", "exit": 6, "agreement": share} | row
    return Run(name, {"name": "bench-acceptance", "status": status}, (line,), ())


def test_threads_are_tried_by_doubling_up_to_all_cores() -> None:
    assert [thread_counts(n) for n in (1, 2, 4, 6)] == [(1,), (1, 2), (1, 2, 4), (1, 2, 4, 6)]


def test_the_latest_finished_acceptance_record_counts() -> None:
    runs = [acceptance("a", 0.3), acceptance("b", [0.5, 0.4, 0.6]), acceptance("c", 0.9, status="killed")]
    assert recorded_agreement(runs) == ("b", {6: 0.5})
    assert recorded_agreement([]) == ("", {})
    assert recorded_agreement([acceptance("d", None)]) == ("", {})
    assert recorded_agreement([acceptance("e", 0.5, mode="sampled")]) == ("", {})


def test_the_better_kind_of_exit_counts_and_another_model_does_not() -> None:
    first = acceptance("a", 0.3)
    more = [
        first.figures[0] | {"exits": "smollm, translators", "agreement": 0.45},
        first.figures[0] | {"exits": "other, bare exits", "agreement": 0.99},
    ]
    assert recorded_agreement([Run("a", first.manifest, (first.figures[0], *more), ())]) == ("a", {6: 0.45})


def test_acceptance_and_costs_give_the_expected_speed_up() -> None:
    found = speed_ups(COSTS, {6: 0.5, 10: 0.9})
    assert found == {
        "exit 6, 1 drafts": pytest.approx(1.5 * 10.0 / (2.0 + 1.0 + 9.0)),
        "exit 6, 2 drafts": pytest.approx(1.75 * 10.0 / (4.0 + 1.0 + 10.0)),
    }
    assert verdicts.acceptance(found, "r").answer is Answer.GO
    assert verdicts.acceptance(speed_ups(COSTS, {6: 0.0}), "r").answer is Answer.NO_GO


def test_a_test_that_breaks_is_not_measured_with_the_reason() -> None:
    def child() -> gonogo.Found:
        raise ChildFailed("'demo' exited with 1: no model", "stderr: no model")

    def corpus() -> gonogo.Found:
        raise DataError("AMI corpus 'x' not found")

    broken = gonogo._tried("memory", child)
    assert (broken.verdict.answer, broken.detail) == (Answer.NOT_MEASURED, {"output": "stderr: no model"})
    assert "not found" in gonogo._tried("pauses", corpus).verdict.reasons[0]


def test_memory_speed_counts_the_bytes_that_were_asked_for() -> None:
    ticks = iter(range(1000))
    lock = threading.Lock()

    def clock() -> float:
        with lock:
            return float(next(ticks))

    assert memory_gb_s(2, array_mb=2, clock=clock) == pytest.approx(5 * 2e6 / 1e9, rel=0.01)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_real_tests_end_with_a_verdict_each(tmp_path: Path) -> None:
    import json
    import subprocess
    import sys

    from pads_runtime.config import ROOT

    words = tmp_path / "ami" / "words" / "ES1a.A.words.xml"
    words.parent.mkdir(parents=True)
    spans = "".join(f'<w starttime="{i}.0" endtime="{i}.4">a</w>' for i in range(20))
    words.write_text(f"<root>{spans}</root>", encoding="utf-8")
    options = ["--only", "bandwidth,pauses,acceptance,thermal", "--soak", "5", "--ami", str(tmp_path / "ami")]
    options += ["--runs", str(tmp_path / "none"), "--set", f"run.dir={tmp_path / 'runs'}", "--json"]
    command = [sys.executable, "-m", "bench", "gonogo", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "pads models pull" in done.stderr:
        pytest.skip(f"the embedded models are not on this machine: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    detail = json.loads(done.stdout)["detail"]
    answers = {verdict["test"]: verdict["answer"] for verdict in detail["verdicts"]}
    assert set(answers) == {"bandwidth", "pauses", "acceptance", "thermal"}
    assert answers["acceptance"] == "NOT MEASURED"
    assert all(verdict["reasons"] and verdict["kill_signal"] for verdict in detail["verdicts"])
    assert len(list((tmp_path / "runs").glob("*-bench-gonogo/metrics.jsonl"))) == 1
