"""One climb of the ladder is the full pass, and shows every exit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.model import Model
from pads_runtime.errors import ContextFull, InputError, ModelError
from training.exits.fit import Translator
from training.exits.head import read_head
from training.exits.ladder import Ladder

TOKENS = [int(token) for token in np.random.default_rng(3).integers(5, 261, 60)]


@pytest.fixture
def model(tiny: Path) -> Iterator[Model]:
    model = Model(tiny)
    yield model
    model.close()


@pytest.fixture
def ladder(model: Model) -> Iterator[Ladder]:
    ladder = Ladder(model, (1, 3), 128)
    yield ladder
    ladder.close()


def test_a_batch_climbs_like_its_tokens_one_by_one(ladder: Ladder) -> None:
    together = ladder.extend(TOKENS)
    ladder.trim(0)
    for row, token in enumerate(TOKENS):
        alone = ladder.extend([token])
        assert np.array_equal(alone.states[0], together.states[row])
        assert np.array_equal(alone.outputs[0], together.outputs[row])
        assert alone.choices[0] == together.choices[row]


def test_states_are_the_same_whatever_other_exits_are_on_the_way(model: Model, ladder: Ladder) -> None:
    wanted = ladder.extend(TOKENS)
    other = Ladder(model, (1, 2, 3), 128)
    found = other.extend(TOKENS)
    other.close()
    assert np.array_equal(found.states[:, [0, 2]], wanted.states)
    assert np.array_equal(found.outputs, wanted.outputs)
    assert not np.array_equal(found.states[:, 0], found.states[:, 2])


def test_the_head_is_that_of_the_file_and_reads_the_output_state_as_the_model_does(
    model: Model, ladder: Ladder, weights: dict[str, Any]
) -> None:
    head = read_head(model, 256)
    assert np.array_equal(head.rows, weights["output.weight"][:256])
    assert np.array_equal(head.norm, weights["output_norm.weight"])
    rows = ladder.extend(TOKENS)
    whole = read_head(model, 100_000)
    assert len(whole.rows) == model.n_vocab
    scores = rows.outputs @ whole.rows.T
    chosen = scores[np.arange(len(scores)), rows.choices]
    assert (scores.max(axis=1) - chosen < 0.02 * scores.std()).all()


def test_a_translator_in_the_native_draft_head_guesses_as_the_plain_numbers_do(model: Model, ladder: Ladder) -> None:
    rng = np.random.default_rng(5)
    head = read_head(model, 128)
    heads = {k: Translator(_values(rng, 64, 64) / 4, _values(rng, 64)).stored() for k in ladder.exits}
    states = ladder.extend(TOKENS).states
    ladder.trim(0)
    ladder.use_heads({k: (each.matrix, each.bias) for k, each in heads.items()}, 128)
    found = ladder.guesses(TOKENS)
    for at, each in enumerate(heads.values()):
        scores = head.scores(each(states[:, at]))
        guessed = scores[np.arange(len(scores)), found[:, at]]
        assert (scores.max(axis=1) - guessed < 0.02 * scores.std()).all()
        assert np.mean(found[:, at] == scores.argmax(axis=1)) > 0.9
        assert np.mean(found[:, at] == head.scores(states[:, at]).argmax(axis=1)) < 0.9


def _values(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def test_a_full_context_is_refused_before_anything_runs(ladder: Ladder) -> None:
    ladder.extend(TOKENS)
    with pytest.raises(ContextFull):
        ladder.extend(TOKENS * 2)
    assert len(ladder) == len(TOKENS)


@pytest.mark.parametrize("exits", [(), (0,), (4,), (1, 9)])
def test_exits_that_the_model_does_not_have_are_refused(model: Model, exits: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="exits 1 to 3"):
        Ladder(model, exits, 128)


def test_an_architecture_without_early_exits_is_refused_by_name(other_architecture: Path) -> None:
    model = Model(other_architecture)
    try:
        with pytest.raises(ModelError, match="gpt2; early exits work for llama, qwen2, qwen3"):
            read_head(model, 64)
    finally:
        model.close()
