"""Each kill signal is made to fire with planted figures, and what could not be measured is never a GO."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from bench.gonogo import verdicts
from bench.gonogo.verdicts import KILL_SIGNALS, Answer, Bandwidth, Sample, Verdict, overall

GB = 1e9


def fit(model: str, share: float, corpus: str = "ami", rule: str = "words_only", tag: str = "") -> dict[str, Any]:
    return {"corpus": corpus, "rule": rule, "model": model, "step_ms": 9.0, "tag": tag, "share_of_pauses": share}


def soak(rates: list[float], celsius: list[float | None], mhz: list[float | None]) -> list[Sample]:
    return [Sample(float(i), c, f, r) for i, (r, c, f) in enumerate(zip(rates, celsius, mhz, strict=True))]


COOL: list[float | None] = [60.0] * 8
HOT: list[float | None] = [88.0] * 8
CLOCK: list[float | None] = [3000.0] * 8
STEADY = [20.0] * 8
SAGGING = [20.0] * 4 + [12.0] * 4


def test_bandwidth_kills_below_speaking_rate() -> None:
    found = verdicts.bandwidth(Bandwidth({1: 2.0, 2: 3.1}, 4 * GB, 14.0))
    assert found.answer is Answer.NO_GO
    assert "no plateau" in " ".join(found.reasons)


def test_bandwidth_finds_the_plateau_and_what_the_rate_is_bound_by() -> None:
    bound = verdicts.bandwidth(Bandwidth({1: 12.0, 2: 19.5, 4: 20.0}, 0.7 * GB, 15.0))
    assert bound.answer is Answer.GO
    assert (bound.figures["plateau_threads"], bound.figures["achieved_gb_s"]) == (2, 14.0)
    assert "memory-bound" in bound.reasons[-1]
    assert "compute-bound" in verdicts.bandwidth(Bandwidth({1: 100.0, 2: 90.0}, 0.1 * GB, 25.0)).reasons[-1]


def test_a_rate_that_memory_cannot_give_is_not_a_measurement() -> None:
    assert verdicts.bandwidth(Bandwidth({1: 50.0}, GB, 10.0)).answer is Answer.NOT_MEASURED
    assert verdicts.bandwidth(Bandwidth({}, GB, 10.0)).answer is Answer.NOT_MEASURED
    assert verdicts.bandwidth(Bandwidth({1: 50.0}, GB, math.nan)).answer is Answer.NOT_MEASURED


def test_pauses_kill_when_a_step_fits_into_too_few_of_any_corpus() -> None:
    rows = [fit("own", 0.9), fit("own", 0.49, "switchboard"), fit("7B", 0.1, tag="EXTRAPOLATED")]
    found = verdicts.pauses(rows, "own")
    assert found.answer is Answer.NO_GO
    assert "7B" in found.reasons[1]
    assert "[EXTRAPOLATED]" in found.reasons[1]
    assert verdicts.pauses([fit("own", 0.5), fit("own", 0.2, rule="every_timed_element")], "own").answer is Answer.GO
    assert verdicts.pauses(rows, "other").answer is Answer.NOT_MEASURED


def test_acceptance_kills_when_no_exit_is_faster_than_plain() -> None:
    assert verdicts.acceptance({"exit 6, 2 drafts": 0.99, "exit 10, 4 drafts": 0.7}, "r").answer is Answer.NO_GO
    assert verdicts.acceptance({"exit 6, 2 drafts": 1.2, "exit 10, 4 drafts": 0.7}, "r").answer is Answer.GO
    assert verdicts.acceptance({}, "").answer is Answer.NOT_MEASURED


@pytest.mark.parametrize(
    ("samples", "answer"),
    [
        (soak(STEADY, COOL, CLOCK), Answer.GO),
        (soak(STEADY, HOT, CLOCK), Answer.GO),
        (soak(SAGGING, HOT, CLOCK), Answer.NO_GO),
        (soak(STEADY, HOT, [3000.0] * 4 + [2000.0] * 4), Answer.NO_GO),
        (soak(STEADY, [60.0] * 7 + [96.0], CLOCK), Answer.NO_GO),
        (soak(SAGGING, COOL, CLOCK), Answer.GO),
        (soak(SAGGING, [None] * 8, [None] * 8), Answer.NOT_MEASURED),
        (soak(STEADY, [None] * 8, CLOCK), Answer.NOT_MEASURED),
        ([], Answer.NOT_MEASURED),
    ],
)
def test_thermal_kills_when_heat_slows_the_machine(samples: list[Sample], answer: Answer) -> None:
    assert verdicts.thermal(samples).answer is answer


def test_without_a_sensor_the_soak_says_so_and_what_it_saw() -> None:
    told = " ".join(verdicts.thermal(soak(SAGGING, [None] * 8, [None] * 8)).reasons)
    assert "no temperature sensor" in told
    assert "rate at 60%" in told


def test_memory_kills_above_the_budget() -> None:
    assert verdicts.memory(2001.0, 2000.0).answer is Answer.NO_GO
    assert verdicts.memory(2000.0, 2000.0).answer is Answer.GO
    assert verdicts.memory(math.nan, 2000.0).answer is Answer.NOT_MEASURED
    assert verdicts.memory(0.0, 2000.0).answer is Answer.NOT_MEASURED


def test_one_no_go_decides_and_go_needs_all() -> None:
    go, no_go, open_ = (Verdict("memory", answer, (), "") for answer in Answer)
    assert overall([go, go]) is Answer.GO
    assert overall([go, open_]) is Answer.NOT_MEASURED
    assert overall([go, open_, no_go]) is Answer.NO_GO


def test_every_test_has_a_kill_signal_and_a_plain_form() -> None:
    for name in KILL_SIGNALS:
        plain = json.loads(json.dumps(verdicts.not_measured(name, "why").as_json()))
        assert plain["answer"] == "NOT MEASURED"
        assert plain["kill_signal"]
