"""The benchmarks' arithmetic and format, on plain numbers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench.report import Measurement, measurement, missing, report
from bench.timing import percentile, timed
from pads_runtime.config import ROOT
from pads_runtime.runs import is_target


def bench(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *args], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_first_runs_are_thrown_away_and_preparation_is_not_timed() -> None:
    now = [0.0]
    calls: list[str] = []

    def prepare() -> None:
        calls.append("prepare")
        now[0] += 100.0

    def call() -> int:
        calls.append("call")
        now[0] += 9.0 if calls.count("call") <= 2 else 0.5
        return calls.count("call")

    spent = timed(call, 3, prepare=prepare, warm_up=2, clock=lambda: now[0])
    assert spent.ms == pytest.approx((500.0, 500.0, 500.0))
    assert spent.results == (3, 4, 5)
    assert calls == ["prepare", "call"] * 5


def test_percentiles_lie_between_neighbours() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile(list(range(101)), 95) == 95.0
    assert percentile([7.0], 95) == 7.0


def test_a_measurement_is_within_its_limit_by_its_median() -> None:
    assert measurement("x", [1.0, 2.0, 90.0], limit=3.0).within is True
    assert measurement("x", [4.0], limit=3.0).within is False
    assert measurement("x", [4.0]).within is None
    assert measurement("x", [1.0], at_least=1.0).within is True
    assert measurement("x", [0.99], at_least=1.0).within is False


def test_a_figure_that_could_not_be_found_has_no_numbers_and_no_verdict() -> None:
    row = report("engine", [missing("x", "no wheel")], ["x"]).as_json()["measurements"][0]
    assert (row["n"], row["p50"], row["p95"], row["within"], row["note"]) == (0, None, None, None, "no wheel")


def test_a_report_says_what_where_and_how_in_plain_json() -> None:
    done = report("stages", [measurement("decode_token", [10.123456, 12.0], note="n")], ["python", "-m", "bench"])
    plain = json.loads(json.dumps(done.as_json()))
    assert plain["command"] == "python -m bench"
    assert plain["tag"].startswith("MEASURED ")
    assert plain["tag"].endswith(" target") == is_target()
    assert {"cpu", "cores", "memory_gb", "load_1m"} <= plain["machine"].keys()
    row = plain["measurements"][0]
    interval = row.pop("interval")
    assert interval["value"] == 11.06
    assert interval["low"] < 11.06 < interval["high"]
    assert interval["method"].startswith("normal approximation of the mean")
    assert row == {
        "name": "decode_token",
        "unit": "ms",
        "n": 2,
        "p50": 11.06,
        "p95": 11.91,
        "limit": None,
        "within": None,
        "note": "n",
        "at_least": None,
        "tag": "",
    }


def test_the_table_names_the_tag_the_command_and_each_verdict() -> None:
    out = io.StringIO()
    rows = [Measurement("fast_one", "ms", 3, 1.0, 2.0, 5.0), Measurement("slow_one", "ms", 3, 9.0, 9.0, 5.0)]
    report("stages", rows, ["python", "-m", "bench", "stages"]).show(Console(file=out, width=120))
    text = out.getvalue()
    assert "[MEASURED" in text
    assert "python -m bench stages" in text
    assert "< 5 yes" in text
    assert "< 5 NO" in text


def test_a_wrong_command_line_or_setting_is_a_usage_error() -> None:
    assert bench("nothing").returncode == 2
    assert bench("stages", "--runs", "0").returncode == 2
    wrong = bench("stages", "--set", "engine.thread=1")
    assert wrong.returncode == 2
    assert "engine.threads" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_stage_is_measured_on_the_real_models(tmp_path: Path) -> None:
    done = bench("stages", "--json", "--runs", "1", "--set", f"run.dir={tmp_path}")
    if "pads models pull" in done.stderr:
        pytest.skip(f"the embedded models are not on this machine: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["measurements"]}
    partials = {f"recognizer_partial_{s}s" for s in (2, 5, 8)}
    assert partials | {"voice_activity_frame", "predictor_call", "classifier", "prefill_token"} <= rows.keys()
    assert {"decode_token", "first_phrase_synthesized", "rss_peak"} <= rows.keys()
    assert all(row["p50"] > 0 for row in rows.values())
    assert all(rows[name]["p50"] > 5 for name in partials), "a remembered answer was timed, not a reading"
    assert "market" in rows["recognizer_partial_8s"]["note"]
    assert rows["rss_peak"]["p50"] >= 150
    assert len(list(tmp_path.glob("*-bench-stages/metrics.jsonl"))) == 1
