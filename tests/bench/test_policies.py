"""Exit policies compared, on planted numbers, and the whole benchmark on the embedded model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.acceptance.looks import Case, Told
from bench.policies import curve
from bench.policies.cli import parse_sets
from bench.policies.curve import BUDGETS, Prompt, Swept, interpolated, sweep
from bench.policies.generation import mean, quality, rouge_l
from pads_runtime.config import ROOT
from pads_runtime.engine.policies import POLICIES, ExitView
from pads_runtime.errors import UsageError

AMI = ROOT.parent / "shared" / "data" / "ami_nxt" / "ami_manual_nxt.tar.xz"


def planted(seed: int, better: bool, prompts: int = 60, n: int = 40) -> list[Prompt]:
    """Replies in which ``top`` tells right guesses from wrong ones; ``margin`` does as well, or only a little."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(prompts):
        hits = rng.random(n) < rng.beta(4, 4)
        noise = rng.random((2, n))
        top = np.clip(0.35 * hits + 0.65 * noise[0], 0, 1)
        margin = (
            np.clip(0.10 * hits + 0.90 * noise[1], 0, 1) if better else np.clip(0.35 * hits + 0.65 * noise[1], 0, 1)
        )
        p_deep = float(rng.random())
        views = tuple(ExitView(float(t), float(m), p_deep) for t, m in zip(top, margin, strict=True))
        found.append(Prompt(hits, views))
    return found


def compared(prompts: Sequence[Prompt], budget: float) -> curve.Figure | None:
    a, b = (sweep(prompts, POLICIES[name]) for name in ("top", "margin"))
    return curve.difference(a, b, budget, curve.counts_for(a))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_planted_better_policy_is_resolved(budget: float) -> None:
    found = compared(planted(1, better=True), budget)
    assert found is not None
    assert found.value > 0.02
    assert found.resolved


@pytest.mark.parametrize("budget", BUDGETS)
def test_where_none_is_planted_none_is_resolved(budget: float) -> None:
    found = compared(planted(2, better=False), budget)
    assert found is not None
    assert abs(found.value) < 0.02
    assert not found.resolved


def test_the_same_numbers_come_out_again() -> None:
    prompts = planted(3, better=True)
    assert compared(prompts, 0.5) == compared(prompts, 0.5)


def test_a_deep_position_is_right_and_a_shallow_one_if_the_exit_agrees() -> None:
    views = tuple(ExitView(top, 0.0, 0.0) for top in (0.2, 0.4, 0.6, 0.8))
    swept = sweep([Prompt(np.array([False, True, False, True]), views)], POLICIES["top"], (0.1, 0.5, 0.9))
    assert swept.deep.tolist() == [[0, 2, 4]]
    assert swept.right.tolist() == [[2, 3, 4]]
    assert [swept.point(at) for at in range(3)] == [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)]


def test_every_position_counts_one_so_long_replies_weigh_more() -> None:
    def reply(hit: bool, n: int) -> Prompt:
        return Prompt(np.full(n, hit), tuple([ExitView(0.5, 0.5, 0.5)] * n))

    swept = sweep([reply(True, 9), reply(False, 1)], POLICIES["top"], (0.1,))
    assert swept.point(0) == (0.0, 0.9)


def test_agreement_between_two_thresholds_lies_on_the_line_between_them() -> None:
    deep, right = np.array([0.2, 0.4, 0.4, 0.8]), np.array([0.5, 0.6, 0.6, 0.9])
    assert interpolated(deep, right, 0.3) == pytest.approx(0.55)
    assert interpolated(deep, right, 0.4) == pytest.approx(0.6)
    assert interpolated(deep, right, 0.5) == pytest.approx(0.675)
    assert interpolated(deep, right, 0.8) == pytest.approx(0.9)


def test_a_budget_outside_the_measured_range_is_never_extrapolated() -> None:
    deep, right = np.array([0.3, 0.6]), np.array([0.7, 0.8])
    assert math.isnan(interpolated(deep, right, 0.25))
    assert math.isnan(interpolated(deep, right, 0.75))
    narrow = Swept(np.array([[3.0, 6.0]]), np.array([[7.0, 8.0]]), np.array([10.0]))
    counts = curve.counts_for(narrow)
    assert curve.matched(narrow, 0.25, counts) is None
    assert curve.nearest(narrow, 0.75) is None
    assert curve.over_coin(narrow, np.array([5.0]), 0.75, counts) is None
    found = curve.matched(narrow, 0.5, counts)
    assert found is not None
    assert found.value == pytest.approx(0.7 + 0.1 * 2 / 3)


def test_a_budget_that_the_resamples_lose_is_not_bracketed_either() -> None:
    deep = np.array([[0.0, 10.0]] + [[0.0, 0.0]] * 9)  # one prompt of ten ever goes deep
    swept = Swept(deep, np.full((10, 2), 10.0), np.full(10, 10.0))
    assert not math.isnan(swept.at_budget(0.1)[0])
    assert curve.matched(swept, 0.1, curve.counts_for(swept)) is None


def test_a_policy_that_sends_fewer_deep_for_a_higher_threshold_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="fewer tokens"):
        interpolated(np.array([0.5, 0.4]), np.array([0.5, 0.5]), 0.45)


def test_a_policy_that_knows_nothing_is_no_better_than_a_coin() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(80):
        views = tuple(ExitView(float(x), 0.0, 0.0) for x in rng.random(40))
        found.append(Prompt(rng.random(40) < 0.4, views))
    swept = sweep(found, POLICIES["top"])
    shallow = np.array([float(prompt.hits.sum()) for prompt in found])
    gain = curve.over_coin(swept, shallow, 0.5, curve.counts_for(swept))
    assert gain is not None
    assert abs(gain.value) < 0.02
    assert not gain.resolved
    knowing = sweep(planted(1, better=True), POLICIES["top"])
    right = np.array([float(prompt.hits.sum()) for prompt in planted(1, better=True)])
    better = curve.over_coin(knowing, right, 0.5, curve.counts_for(knowing))
    assert better is not None
    assert better.low > 0.0


def told(number: int, tokens: Sequence[int], text: str) -> Told:
    return Told(Case(number, (), "", 1), (1,), tuple(tokens), text, True, 0, 0)


class Chooses:
    """The whole model would say the position's number, whatever stood before."""

    def choices(self, reply: Told) -> np.ndarray:
        return np.arange(1, len(reply.tokens) + 1)


def test_an_empty_reply_counts_as_no_acceptance_in_the_conservative_column() -> None:
    oracle = [told(1, [0, 1, 2], "yes it is"), told(2, [0, 1], "no way"), told(3, [], "")]
    found = [told(1, [0, 1, 9], "yes it was"), told(2, [], ""), told(3, [], "")]
    figures = quality(oracle, found, Chooses(), lambda a, b: float(a == b))  # type: ignore[arg-type]
    assert figures["acceptance"][0] == 0.5
    assert figures["acceptance_conservative"][0] == pytest.approx(0.5 / 3, abs=1e-4)
    assert figures["empty"][0] == pytest.approx(2 / 3, abs=1e-4)
    assert figures["rouge_l"][0] == 0.0
    assert (figures["oracle_empty"], figures["same_replies"]) == (1, 1)


def test_a_mean_has_an_interval_by_reply() -> None:
    value, low, high = mean([0.0, 1.0] * 20)
    assert value == 0.5
    assert low is not None and high is not None
    assert 0.3 < low < 0.5 < high < 0.7
    assert mean([]) == [None, None, None]


def test_rouge_l_is_the_longest_common_subsequence_of_words() -> None:
    score = rouge_l()
    assert score("the cat sat here", "the cat sat here") == 1.0
    assert score("a b c d", "a x c y") == pytest.approx(0.5)
    assert score("a b c d", "") == 0.0


def test_sets_have_names() -> None:
    assert parse_sets("dailydialog, ami") == ("ami", "dailydialog")
    for text in ("", "switchboard"):
        with pytest.raises(UsageError, match="--sets"):
            parse_sets(text)


@pytest.mark.slow
def test_the_benchmark_runs_on_the_embedded_model_and_says_the_same_again(tmp_path: Path) -> None:
    if not AMI.is_file():
        pytest.skip(f"the AMI annotations are not here: {AMI}")
    asked = ["policies", "--json", "--prompts", "2", "--sets", "ami", "--exits", "15", "--set", f"run.dir={tmp_path}"]
    asked += ["--set", "engine.max_reply_tokens=8", "--set", "engine.threads=1"]
    first, second = (CliRunner().invoke(app, [*asked, *more]) for more in ((), ("--without-replies",)))
    assert first.exit_code == second.exit_code == 0, first.stderr + second.stderr
    found, again = json.loads(first.stdout), json.loads(second.stdout)
    assert found["curves"] == again["curves"]
    assert found["sha256"]["figures"] == again["sha256"]["figures"]
    ends = {row["policy"]: row["agreement"][0] for row in found["references"]}
    assert ends["always_deep"] == 1.0
    assert 0.0 <= ends["always_shallow"] < 1.0
    for row in found["curves"]:
        assert ends["always_shallow"] - 1e-4 <= row["agreement"] <= 1.0
        assert row["agreement"] >= row["deep_fraction"] - 1e-4
    assert {row["policy"] for row in found["generation"]} == {"top", "margin", "act"}
    assert again["generation"] == []
