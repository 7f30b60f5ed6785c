"""What every benchmark is run with, on plain numbers, planted counters and short-lived children."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.harness.child import ChildFailed, run_child
from bench.harness.conditions import Conditions, Watch, governors, shares
from bench.harness.energy import Energy, EnergyMeter, joules
from bench.harness.essentials import NAMES, Essentials, essentials_of
from bench.harness.intervals import cluster_interval, interleaved, normal_interval
from bench.harness.run import Harness, tag_for
from bench.report import comparison, measurement
from pads_runtime.config import load
from pads_runtime.runs import RunRecord

FINE = Conditions(("performance",), True, 0.1, 0.05, 0.0, 10.0)


def child(code: str, needed: tuple[str, ...] = (), timeout_s: float = 20.0) -> dict[str, object]:
    return run_child([sys.executable, "-c", code], needed, timeout_s)


def test_a_childs_last_line_is_its_figures() -> None:
    assert child("print('loading'); print('{\"x\": 1.5}')", ("x",)) == {"x": 1.5}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; print('half'); print('no model', file=sys.stderr); sys.exit(3)", "exited with 3: no model"),
        ("print('{}')", "left out the figure x"),
        ("print('{\"x\": null}')", "left out the figure x"),
        ("print('{\"x\": NaN}')", "left out the figure x"),
        ("print('{\"x\": true}')", "left out the figure x"),
        ("print('done')", "no JSON object"),
        ("pass", "no JSON object"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exited with -9"),
    ],
)
def test_a_failed_child_is_an_error_with_what_it_said_and_never_a_zero(code: str, told: str) -> None:
    with pytest.raises(ChildFailed, match=told) as caught:
        child(code, ("x",))
    assert "stdout:" in caught.value.output


def test_a_child_that_hangs_is_killed_with_its_children() -> None:
    code = "import subprocess, sys\nprint('so far', flush=True)\nsubprocess.run([sys.executable, '-c', 'input()'])"
    with pytest.raises(ChildFailed, match="longer than 1 s") as caught:
        run_child([sys.executable, "-c", f"import time\n{code}\ntime.sleep(60)"], (), 1.0)
    assert "so far" in caught.value.output


def test_every_essential_figure_is_a_number_or_says_why_not() -> None:
    rows = [measurement("ttft", [30.0, 32.0]), measurement("decode_token", [10.0])]
    found = essentials_of(rows, 625.0, Energy(None, "no RAPL on this machine"), {"tokens_per_s": "decode_token"})
    assert (found.ttft_ms, found.tokens_per_s, found.peak_rss_mb) == (31.0, 100.0, 625.0)
    assert found.acceptance is None
    plain = found.as_json()
    assert set(NAMES) < set(plain)
    assert all(plain[name] is not None or plain["notes"][name] for name in NAMES)


@pytest.mark.parametrize(
    "bad", [{"acceptance": None}, {"tokens_per_s": 0.0}, {"ttft_ms": math.nan}, {"peak_rss_mb": -1}]
)
def test_a_figure_that_is_missing_without_a_reason_or_zero_is_refused(bad: dict[str, float | None]) -> None:
    good: dict[str, float | None] = dict.fromkeys(NAMES, 1.0)
    with pytest.raises(ValueError, match=next(iter(bad))):
        Essentials(**(good | bad))


def powercap(root: Path, energy: str | None, wrap: int = 1_000_000) -> Path:
    package = root / "intel-rapl:0"
    (root / "intel-rapl:0:0").mkdir(parents=True, exist_ok=True)
    package.mkdir(exist_ok=True)
    (package / "max_energy_range_uj").write_text(str(wrap))
    if energy is not None:
        (package / "energy_uj").write_text(energy)
    return root


def test_energy_is_counted_per_package_and_a_wrapped_counter_goes_on(tmp_path: Path) -> None:
    meter = EnergyMeter(powercap(tmp_path, "900000"))
    powercap(tmp_path, "200000")
    assert meter.spent().joules == pytest.approx(0.3)
    assert joules({"a": 5, "b": 10}, {"a": 10, "b": 20}, {"a": 0, "b": 0}) == pytest.approx(15e-6)


def test_without_a_readable_counter_energy_is_null_with_a_note(tmp_path: Path) -> None:
    assert EnergyMeter(tmp_path / "none").spent() == Energy(None, "no RAPL on this machine")
    hidden = EnergyMeter(powercap(tmp_path, None)).spent()
    assert hidden.joules is None
    assert "cannot be read" in hidden.note
    assert EnergyMeter(powercap(tmp_path, "garbage")).spent().joules is None


def test_what_breaks_the_protocol_makes_a_run_descriptive() -> None:
    assert FINE.breaches() == ()
    assert tag_for(False, FINE.breaches()) == "MEASURED dev-host"
    assert tag_for(True, ()) == "MEASURED target"
    broken = Conditions(("powersave",), False, 3.0, 1.4, 0.2, 10.0).breaches()
    assert [word for word in ("1.40 cores", "20%", "powersave", "battery") if not any(word in b for b in broken)] == []
    assert tag_for(True, broken) == "DESCRIPTIVE"


def test_what_cannot_be_seen_breaks_nothing_and_is_noted() -> None:
    unseen = Conditions(None, None, 0.0, 0.0, 0.0, 1.0)
    assert unseen.breaches() == ()
    assert "not visible" in unseen.as_json()["notes"]["governors"]


def test_others_load_is_the_machines_busy_time_less_ones_own() -> None:
    assert shares({"user": 15.0, "system": 1.0, "idle": 4.0, "steal": 0.0}, own_s=6.0, seconds=10.0) == (1.0, 0.0)
    assert shares({"user": 1.0, "idle": 8.0, "steal": 1.0}, own_s=5.0, seconds=5.0) == (0.0, 0.1)


def test_governors_are_read_once_each(tmp_path: Path) -> None:
    assert governors(tmp_path) is None
    for cpu, word in enumerate(("powersave", "performance", "powersave")):
        file = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
        file.parent.mkdir(parents=True)
        file.write_text(word + "\n")
    assert governors(tmp_path) == ("performance", "powersave")


def test_a_watch_sees_time_pass_and_counts_no_negative_load() -> None:
    watch = Watch()
    seen = watch.conditions()
    assert seen.others_cores >= 0
    assert seen.seconds >= 0


def test_the_harness_ends_with_a_tag_conditions_and_essentials() -> None:
    plain = Harness().finish([measurement("ttft", [1.0])]).as_json()
    assert set(plain) == {"tag", "breaches", "conditions", "essentials"}
    assert plain["essentials"]["peak_rss_mb"] > 10


def test_a_benchmark_with_its_own_report_gets_tag_and_protocol_into_report_and_record(tmp_path: Path) -> None:
    with RunRecord.begin("x", "", load(None, [f"run.dir={tmp_path}"]), {}, ["x"]) as record:
        done: dict[str, Any] = {"rows": []}
        Harness().close(record, done, timed=False)
    assert done["tag"].startswith("MEASURED")
    assert done["protocol"]["breaches"] == []
    (line,) = (record.path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["protocol"]["tag"] == done["tag"]


def test_an_interval_names_its_method() -> None:
    found = normal_interval([9.0, 10.0, 11.0])
    assert found is not None
    assert (found.value, round(found.high - found.value, 4)) == (10.0, 1.1316)
    assert "normal approximation" in found.method
    assert normal_interval([9.0]) is None


def test_a_paired_comparison_draws_whole_clusters() -> None:
    same = cluster_interval({f"p{i}": [(10.0, 9.0)] * 3 for i in range(8)})
    assert (same.value, same.low, same.high) == pytest.approx((0.9, 0.9, 0.9))
    split = cluster_interval({"a": [(10.0, 5.0)] * 50, "b": [(10.0, 15.0)] * 50})
    assert (round(split.low, 2), split.value, round(split.high, 2)) == (0.5, 1.0, 1.5)
    assert "2 clusters" in split.method
    with pytest.raises(ValueError, match="pairs"):
        cluster_interval({"a": []})


def test_a_comparison_is_a_measurement_with_its_interval() -> None:
    row = comparison("faster", {"a": [(10.0, 8.0)], "b": [(20.0, 18.0)]}, at_least=0.5)
    assert (row.p50, row.within) == (pytest.approx(0.85), True)
    assert row.interval is not None
    assert "cluster bootstrap" in row.interval.method


def test_baseline_and_candidate_run_in_turn_with_a_changing_order() -> None:
    calls: list[str] = []
    kept = interleaved(lambda: calls.append("b"), lambda: calls.append("c"), rounds=3)
    assert calls == list("bccbbccb")
    assert len(kept) == 3
