"""The engine benchmark's arithmetic on plain numbers, and its made models on the real library."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench.engine import _asked
from bench.engine.common import Obeying, prompts
from bench.engine.draws import chi_square
from bench.engine.exact import _jobs
from bench.engine.files import Shape, random_model
from bench.engine.speed import break_even
from pads_runtime.config import ROOT
from pads_runtime.engine.costs import exit_ladder
from pads_runtime.errors import UsageError


def drawn(probabilities: list[float], count: int, seed: int) -> Counter[int]:
    rng = np.random.default_rng(seed)
    return Counter(rng.choice(len(probabilities), count, p=probabilities).tolist())


TRUTH = {0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05}


def test_draws_from_the_distribution_are_rejected_as_seldom_as_asked() -> None:
    p_values = [chi_square(drawn(list(TRUTH.values()), 500, seed), TRUTH, 500) for seed in range(200)]
    assert sum(p < 0.01 for p in p_values) <= 8
    assert 0.4 < float(np.mean(p_values)) < 0.6


def test_draws_from_another_distribution_are_rejected() -> None:
    assert chi_square(drawn([0.4, 0.3, 0.2, 0.1], 1000, 1), TRUTH, 1000) < 1e-4


def test_a_token_that_never_may_come_rejects_at_once() -> None:
    assert chi_square(Counter({0: 499, 9: 1}), TRUTH, 500) == 0.0


def test_rare_tokens_are_counted_as_one() -> None:
    rare = {0: 0.9, **dict.fromkeys(range(1, 101), 0.001)}
    assert chi_square(Counter({0: 90} | dict.fromkeys(range(1, 11), 1)), rare, 100) > 0.9


def test_the_reduced_grid_meets_every_configuration_and_every_prompt() -> None:
    grid = list(itertools.product(exit_ladder(30), range(1, 7), (False, True)))
    jobs = _jobs(grid, 40, full=False)
    assert {config for _, config in jobs} == set(grid)
    assert {prompt for prompt, _ in jobs} == set(range(40))
    assert len(_jobs(grid, 40, full=True)) == 40 * 60


def test_there_are_forty_prompts_and_none_twice() -> None:
    assert len(set(prompts())) == 40


def test_the_break_even_lies_on_the_line_between_two_points() -> None:
    assert break_even((0.0, 0.5, 1.0), [0.5, 0.8, 1.2]) == pytest.approx(0.75)
    assert break_even((0.0, 0.5), [1.1, 1.3]) == 0.0
    assert break_even((0.0, 1.0), [0.3, 0.9]) is None


def test_parts_run_in_one_order_and_an_unknown_one_is_refused() -> None:
    assert _asked(("b", "a"), ["a", "b", "c"]) == ["a", "b"]
    assert _asked((), ["a", "b"]) == ["a", "b"]
    with pytest.raises(UsageError, match="no such part"):
        _asked(("d",), ["a"])


def test_a_controller_that_obeys_counts_what_came_of_it() -> None:
    told = Obeying()
    told.tell(6, 3)
    told.learn(told.plan(), 3, 2)
    assert (told.plan().exit_layer, told.plan().draft_len, told.drafted, told.accepted) == (6, 3, 3, 2)


def test_a_model_of_random_weights_loads_and_has_the_shape_asked_for(tmp_path: Path) -> None:
    from pads_runtime.engine.model import Model

    shape = Shape(layers=3, embedding=64, feed_forward=128, heads=4, kv_heads=2, vocab=640)
    model = Model(random_model(tmp_path / "tiny.gguf", shape))
    try:
        assert (model.n_layer, model.n_embd, model.n_vocab) == (3, 64, 640)
    finally:
        model.close()


@pytest.mark.slow
def test_the_memory_part_prints_one_report() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "engine", "--json", "--only", "memory"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["measurements"]}
    assert rows["rss_peak_two_depths"]["p50"] > 100
    assert 0.5 < rows["weights_mapped_two_depths"]["p50"] < 1.01
