"""Passes over some of the layers compute what one pass over all of them does, on the same cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.errors import EngineError

MODELS = [("llama", {}), ("llama", {"tied": True}), ("llama", {"rope_freqs": True}), ("qwen2", {}), ("qwen3", {})]
K = 2  # the exit of most tests, half of the tiny models' layers


def tokens(n: int, seed: int = 1) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 640, n)]


@pytest.fixture
def model(native: Callable[..., Any], tiny: Callable[..., Path]) -> Any:
    return native(tiny())


@pytest.mark.parametrize(("arch", "options"), MODELS, ids=str)
def test_shallow_and_deep_passes_equal_a_full_pass(
    native: Callable[..., Any], tiny: Callable[..., Path], arch: str, options: dict[str, bool]
) -> None:
    model = native(tiny(arch, **options))
    for before, n in ((0, 1), (0, 40), (3, 4), (250, 8), (511, 3), (5, 100)):
        text = tokens(before + n)
        prefix, new = text[:before], text[before:]
        model.trim(0)
        if prefix:
            model.run(prefix)
        full = model.run(new, before)
        after = model.run([7], before + n)
        for k in (1, 2, 3):
            for size in (1, n):
                model.trim(before)
                parts = [model.shallow(k, new[i : i + size], before + i) for i in range(0, n, size)]
                assert np.array_equal(model.deep(k, np.concatenate(parts), before), full), (k, before, n, size)
                model.layers()
                assert np.array_equal(model.run([7], before + n), after), (k, before, n, size)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 6, 15, 29])
def test_the_default_model_can_be_split_at_any_layer(native: Callable[..., Any], model_path: Path, k: int) -> None:
    model, text = native(model_path), tokens(560)
    assert model.decode(text[:500], 0, "none") == 0
    for at, n in ((500, 1), (500, 8), (508, 7), (515, 40)):
        model.trim(at)
        full = model.run(text[at : at + n], at)
        after = model.run([7], at + n)
        model.trim(at)
        states = [model.shallow(k, text[i : i + 1], i)[0] for i in range(at, at + n)]
        assert np.array_equal(model.deep(k, np.stack(states), at), full)
        model.layers()
        assert np.array_equal(model.run([7], at + n), after)


def test_long_rope_frequencies_are_in_use(native: Callable[..., Any], tiny: Callable[..., Path]) -> None:
    plain, scaled = native(tiny()), native(tiny("llama", rope_freqs=True))
    assert not np.array_equal(plain.run(tokens(4))[3], scaled.run(tokens(4))[3])


def test_exit_states_come_for_tokens_without_output_too(model: Any) -> None:
    text = tokens(9)
    none = model.shallow(K, text, 0, "none")
    model.trim(0)
    assert np.array_equal(model.shallow(K, text, 0, "last"), none)
    model.trim(0)
    assert np.array_equal(model.shallow(K, text, 0, "all"), none)
    assert none.shape == (9, model.n_embd)
    assert np.isfinite(none).all()


def test_exit_states_and_deep_passes_of_several_microbatches_are_whole(
    native: Callable[..., Any], tiny: Callable[..., Path], model: Any
) -> None:
    text = tokens(50)
    whole = model.shallow(K, text, 0)
    pieces = native(tiny(), n_ubatch=16)
    assert np.array_equal(pieces.shallow(K, text, 0), whole)
    assert np.array_equal(pieces.deep(K, whole, 0), model.deep(K, whole, 0))


def test_three_depths_in_a_row_equal_a_full_pass(model: Any) -> None:
    text = tokens(6)
    full = model.run(text)
    model.trim(0)
    states = model.shallow(1, text, 0)
    model.layers(1, 3)
    assert model.resume(states, 0, "none") == 0
    assert np.array_equal(model.deep(3, model.states(6), 0), full)


def test_a_deep_pass_takes_no_new_cells(native: Callable[..., Any], tiny: Callable[..., Path]) -> None:
    model, text = native(tiny(), n_ctx=256), tokens(256)
    states = model.shallow(K, text, 0)
    model.deep(K, states, 0)
    assert model.length() == 256
    model.layers()
    assert model.decode([1], 256) == 1, "a full pass still needs a free cell, and there is none"


def test_rejected_drafts_leave_no_trace(model: Any) -> None:
    text = tokens(30)
    model.run(text[:20])
    plain = model.run(text[20:], 20)
    model.trim(20)
    for draft in (tokens(4, seed=2), tokens(7, seed=3)):
        model.deep(K, model.shallow(K, draft, 20), 20)
        model.trim(20)
    assert np.array_equal(model.deep(K, model.shallow(K, text[20:], 20), 20), plain)


def test_the_branch_of_a_copied_sequence_has_its_own_tail(
    native: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    model, text = native(tiny(), n_seq=2), tokens(12)
    plain = model.run(text)
    model.trim(8)
    model.lib.llama_memory_seq_cp(model.memory, 0, 1, -1, -1)
    model.layers(0, K)
    assert model.decode(text[8:], 8, "none", seq=1) == 0
    states = model.states(4)
    model.layers(K)
    assert model.resume(states, 8, seq=0) == 1, "sequence 0 has no such cells"
    assert model.resume(states, 8, seq=1) == 0
    assert np.array_equal(model.logits(4), plain[8:])
    assert model.length() == 8


@pytest.mark.parametrize(("begin", "end"), [(-1, None), (2, 2), (3, 1), (4, None), (0, 5)])
def test_a_range_that_is_none_is_refused_and_the_old_one_stays(model: Any, begin: int, end: int | None) -> None:
    model.layers(0, K)
    with pytest.raises(EngineError, match="not a range of the 4 layers"):
        model.layers(begin, end)
    assert model.decode(tokens(3), 0) == 0
    assert model.states(3).shape == (3, model.n_embd)


def test_other_architectures_are_refused_by_name_and_still_run_whole(
    native: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    model = native(tiny("gemma", tied=True))
    with pytest.raises(EngineError, match=r"architecture gemma.*llama, qwen2, qwen3"):
        model.layers(0, K)
    model.layers()
    assert np.isfinite(model.run(tokens(3))).all()


def test_a_deep_pass_without_a_cell_changes_nothing(model: Any) -> None:
    text = tokens(10)
    full = model.run(text)
    model.trim(6)
    states = model.shallow(K, text[6:], 6)
    model.layers(K)
    assert model.resume(states, 7) == 1, "position 10 has no cell"
    assert model.resume(states, 10) == 1
    assert model.length() == 10
    assert np.array_equal(model.deep(K, states, 6), full[6:])


def test_a_deep_pass_does_not_take_tokens(model: Any) -> None:
    model.run(tokens(4))
    model.layers(K)
    assert model.decode(tokens(1), 3) == -1
    assert model.length() == 4


def test_there_are_no_exit_states_after_a_full_pass(model: Any) -> None:
    model.shallow(K, tokens(4), 0)
    model.layers()
    model.run(tokens(1), 4)
    with pytest.raises(EngineError, match="no exit states"):
        model.states(1)


def test_an_aborted_deep_pass_keeps_its_cells_and_can_be_done_again(model: Any) -> None:
    text = tokens(40)
    full = model.run(text)
    after = model.run([7], 40)
    model.trim(30)
    states = model.shallow(K, text[30:], 30)
    for nodes in (0, 1, 5, 12, 25):
        model.abort_after(nodes)
        model.layers(K)
        assert model.resume(states, 30) == 2, f"stopped after {nodes} nodes"
        assert model.length() == 40
    model.abort_after(None)
    assert np.array_equal(model.deep(K, states, 30), full[30:])
    model.layers()
    assert np.array_equal(model.run([7], 40), after)


def test_an_aborted_shallow_pass_loses_its_own_tokens_only(model: Any) -> None:
    text = tokens(40)
    full = model.run(text)
    model.trim(30)
    model.abort_after(9)
    model.layers(0, K)
    assert model.decode(text[30:], 30) == 2
    assert model.length() == 30
    with pytest.raises(EngineError, match="no exit states"):
        model.states(10)
    model.abort_after(None)
    assert np.array_equal(model.deep(K, model.shallow(K, text[30:], 30), 30), full[30:])
