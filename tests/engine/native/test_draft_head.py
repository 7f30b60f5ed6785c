"""The draft head changes what an early exit scores, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.native import symbols
from pads_runtime.errors import EngineError

K, VOCAB, WIDTH, NORM_EPS = 2, 640, 512, 1e-5
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, VOCAB, 12)]


@pytest.fixture
def model(native: Callable[..., Any], tiny: Callable[..., Path]) -> Any:
    return native(tiny())


def translator(seed: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    matrix = (rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
    return matrix, rng.standard_normal(WIDTH).astype(np.float32)


def scores(model: Any, n: int = len(TOKENS)) -> Any:
    """Logits of an early exit for the same tokens on an empty cache."""
    model.trim(0)
    model.layers(0, K)
    return model.run(TOKENS[:n])


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_the_scores_are_those_of_the_translated_state(
    native: Callable[..., Any], tiny: Callable[..., Path], weights: Callable[..., dict[str, Any]], arch: str
) -> None:
    model, tensors = native(tiny(arch)), weights(arch)
    matrix, bias = translator()
    symbols.set_draft_head(model.context, K, matrix, bias, 128)
    found, state = scores(model), model.states(len(TOKENS)).astype(np.float64)
    state = state + state @ matrix.T + bias
    state /= np.sqrt((state**2).mean(axis=1, keepdims=True) + NORM_EPS)
    wanted = (state * tensors["output_norm.weight"]) @ tensors["output.weight"][:128].T
    wanted += tensors.get("output.bias", np.zeros(VOCAB))[:128]
    assert np.abs(found[:, :128] - wanted).max() < 0.02 * wanted.std()
    assert (found[:, 128:] == -np.inf).all()


@pytest.mark.parametrize("rows", [64, 320, 640])
def test_the_first_rows_are_those_of_the_whole_head(model: Any, rows: int) -> None:
    whole = scores(model)
    symbols.set_draft_head(model.context, K, draft_vocab=rows)
    part = scores(model)
    assert np.array_equal(part[:, :rows], whole[:, :rows])
    assert (part[:, rows:] == -np.inf).all()


@pytest.mark.parametrize(("name", "file_type"), [("Q4_0", 2), ("Q4_K", 15), ("Q8_0", 7), ("Q6_K", 18)])
def test_a_view_of_repacked_rows_scores_like_the_whole_matrix(
    native: Callable[..., Any], quantized: Callable[[str, int], Path], name: str, file_type: int
) -> None:
    model = native(quantized(name, file_type))
    whole = scores(model)
    symbols.set_draft_head(model.context, K, draft_vocab=192)
    assert np.array_equal(scores(model)[:, :192], whole[:, :192])


def test_matrix_and_bias_each_work_alone(model: Any) -> None:
    matrix, bias = translator()
    plain = scores(model)
    symbols.set_draft_head(model.context, K, matrix)
    with_matrix = scores(model)
    symbols.set_draft_head(model.context, K, bias=bias)
    with_bias = scores(model)
    assert not np.allclose(with_matrix, plain)
    assert not np.allclose(with_bias, plain)
    symbols.set_draft_head(model.context, K, np.zeros((WIDTH, WIDTH), np.float32), np.zeros(WIDTH, np.float32))
    assert np.array_equal(scores(model), plain)


def test_full_passes_exit_states_and_cells_are_the_same_with_a_draft_head(model: Any) -> None:
    full = model.run(TOKENS)
    after = model.run([7], len(TOKENS))
    scores(model)
    states = model.states(len(TOKENS))
    symbols.set_draft_head(model.context, K, *translator(), 64)
    scores(model)
    assert np.array_equal(model.states(len(TOKENS)), states)
    assert np.array_equal(model.deep(K, states, 0), full)
    model.layers()
    assert np.array_equal(model.run([7], len(TOKENS)), after)
    model.trim(0)
    assert np.array_equal(model.run(TOKENS), full)


def test_a_head_belongs_to_its_exit(model: Any) -> None:
    plain = scores(model)
    symbols.set_draft_head(model.context, K + 1, *translator(), 64)
    assert np.array_equal(scores(model), plain)


def test_a_new_head_replaces_the_old_one_at_once(model: Any) -> None:
    symbols.set_draft_head(model.context, K, *translator(5), 64)
    first = scores(model)
    symbols.set_draft_head(model.context, K, *translator(6), 64)
    second = scores(model)
    symbols.set_draft_head(model.context, K, *translator(5), 64)
    assert not np.array_equal(first, second)
    assert np.array_equal(scores(model), first)


def test_a_head_that_is_taken_away_is_gone(model: Any) -> None:
    plain = scores(model)
    symbols.set_draft_head(model.context, K, *translator(), 64)
    scores(model)
    symbols.set_draft_head(model.context, K)
    assert np.array_equal(scores(model), plain)


@pytest.mark.parametrize(
    ("exit_layer", "rows", "reason"),
    [
        (0, 64, "no early exit at layer 0"),
        (4, 64, "no early exit at layer 4"),
        (K, 100, "multiple of 64"),
        (K, 704, "multiple of 64 up to 640"),
        (K, -64, "multiple of 64"),
    ],
)
def test_a_head_that_does_not_fit_is_refused_and_the_old_one_stays(
    model: Any, exit_layer: int, rows: int, reason: str
) -> None:
    symbols.set_draft_head(model.context, K, *translator(), 64)
    before = scores(model)
    with pytest.raises(EngineError, match=reason):
        symbols.set_draft_head(model.context, exit_layer, draft_vocab=rows)
    assert np.array_equal(scores(model), before)


def test_a_translator_of_another_model_is_refused_by_its_shape(model: Any) -> None:
    with pytest.raises(EngineError, match=r"matrix is \(576, 576\), the model needs \(512, 512\)"):
        symbols.set_draft_head(model.context, K, np.zeros((576, 576), np.float32))
    with pytest.raises(EngineError, match=r"bias is \(576,\)"):
        symbols.set_draft_head(model.context, K, bias=np.zeros(576, np.float32))
    with pytest.raises(EngineError, match="float16 cannot hold"):
        symbols.set_draft_head(model.context, K, np.full((WIDTH, WIDTH), 1e6, np.float32))
