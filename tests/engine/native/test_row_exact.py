"""With the row-exact setting a token's logits do not depend on how it was batched, on the threads or on the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.engine.native import symbols

# The number of a file type is that of enum llama_ftype in llama.h.
FILE_TYPES = {"F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q2_K": 10, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18}


@pytest.fixture(autouse=True)
def exact_afterwards() -> Iterator[None]:
    yield
    if symbols.capabilities().no_split_kv:
        symbols.set_row_exact(True)


def tokens(n: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(1).integers(0, 640, n)]


def in_pieces(model: Any, text: list[int], size: int) -> Any:
    """Logits of every token, decoded ``size`` at a time from an empty cache."""
    model.trim(0)
    return np.concatenate([model.run(text[at : at + size], at) for at in range(0, len(text), size)])


@pytest.mark.slow
@pytest.mark.parametrize("name", FILE_TYPES)
def test_rows_are_equal_in_every_batch_and_with_two_threads(
    native: Callable[..., Any], quantized: Callable[[str, int], Path], name: str
) -> None:
    path, text = quantized(name, FILE_TYPES[name]), tokens(530)
    alone = in_pieces(native(path), text, 1)
    for threads, sizes in ((1, (2, 3, 4, 7, 8, 33, 64, 512)), (2, (1, 5, 9, 512))):
        model = native(path, threads=threads)
        for size in sizes:
            assert np.array_equal(in_pieces(model, text, size), alone), f"{name}, {threads} threads, {size} a pass"


def test_without_the_setting_long_prompts_and_single_tokens_differ(
    native: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    model, text = native(tiny()), tokens(66)
    symbols.set_row_exact(False)
    assert not np.array_equal(in_pieces(model, text, 66), in_pieces(model, text, 6))
    symbols.set_row_exact(True)
    assert np.array_equal(in_pieces(model, text, 66), in_pieces(model, text, 6))


@pytest.mark.slow
def test_the_default_model_is_row_exact_across_256_512_and_1024_cells(
    native: Callable[..., Any], model_path: Path
) -> None:
    model = native(model_path, n_ctx=1280, threads=2)  # that one thread equals two is held on the whole engine
    text = [int(token) for token in np.random.default_rng(2).integers(100, 40_000, 1040)]
    for start in (0, 512):
        assert model.decode(text[start : start + 512], start, "none") == 0
    for edge in (250, 506, 1018):
        model.trim(edge)
        alone = np.concatenate([model.run(text[at : at + 1], at) for at in range(edge, edge + 16)])
        for size in range(2, 9):
            model.trim(edge)
            rows = [model.run(text[at : min(at + size, edge + 16)], at) for at in range(edge, edge + 16, size)]
            assert np.array_equal(np.concatenate(rows), alone), f"{size} a pass from cell {edge}"
        model.trim(edge)
        for at in range(edge, len(text), 64):
            assert model.decode(text[at : at + 64], at, "none") == 0
