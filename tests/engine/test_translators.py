"""Translator files: what is read, what is refused, and that none of them can change a reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime import assemble
from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators, fitted_for
from pads_runtime.errors import ModelError
from pads_runtime.frames import Message
from pads_runtime.models import Registry
from pads_runtime.models.entries import Entry

HASH, OTHER = "ab" * 32, "cd" * 32
WIDTH = 8


def write(path: Path, sha256: str = HASH, exits: tuple[int, ...] = (2,), width: int = WIDTH, **arrays: Any) -> Path:
    whole: dict[str, Any] = {
        "meta": np.array(json.dumps({"model_sha256": sha256, "draft_vocab": 64, "exits": exits})),
        **{f"A_{k}": np.full((width, width), 0.5, np.float16) for k in exits},
        **{f"b_{k}": np.arange(width, dtype=np.float32) for k in exits},
    }
    np.savez(path, **{name: value for name, value in (whole | arrays).items() if value is not None})
    return path


def test_a_file_holds_a_matrix_and_a_bias_for_each_exit(tmp_path: Path) -> None:
    loaded = Translators.load(write(tmp_path / "t.npz", exits=(2, 5)), HASH)
    assert loaded.exits == (2, 5)
    matrix, bias = loaded.at(5)
    assert matrix is not None and bias is not None
    assert matrix.dtype == bias.dtype == np.float32
    assert (matrix == 0.5).all() and bias[3] == 3.0
    assert loaded.at(3) == (None, None)
    loaded.check_fits(WIDTH, 6)


def test_a_matrix_may_be_given_by_its_factors(tmp_path: Path) -> None:
    u, v = np.ones((WIDTH, 3), np.float16), np.full((3, WIDTH), 2, np.float16)
    matrix, _ = Translators.load(write(tmp_path / "t.npz", A_2=None, U_2=u, V_2=v), HASH).at(2)
    assert matrix is not None
    assert matrix.shape == (WIDTH, WIDTH) and (matrix == 6).all()


def test_a_translator_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.npz", OTHER)
    with pytest.raises(ModelError, match=r"was fitted for another model \(sha256 cdcdcdcdcdcd, this one is abab"):
        Translators.load(path, HASH)
    assert fitted_for(path) == OTHER


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"meta": None}, "has no 'meta'"),
        ({"A_2": None}, "has no 'A_2'"),
        ({"b_2": None}, "has no 'b_2'"),
        ({"meta": np.array("{}")}, "has no 'model_sha256'"),
        ({"meta": np.array("{")}, "is malformed"),
        ({"meta": np.array([object()])}, "is no npz file"),
        ({"U_2": np.ones((WIDTH, 3)), "V_2": np.ones((4, WIDTH))}, "is malformed"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        Translators.load(write(tmp_path / "t.npz", **arrays), HASH)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 broken", b"\x93NUMPY", b"words"])
def test_a_file_that_is_no_npz_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.npz").write_bytes(data)
    for read in (lambda path: Translators.load(path, HASH), fitted_for):
        with pytest.raises(ModelError, match=r"translator '.*t.npz'"):
            read(tmp_path / "t.npz")
    with pytest.raises(ModelError, match="cannot be read"):
        Translators.load(tmp_path / "none.npz", HASH)


@pytest.mark.parametrize(
    ("width", "layers", "arrays"), [(WIDTH + 1, 6, {}), (WIDTH, 2, {}), (WIDTH, 6, {"b_2": np.full(WIDTH, np.nan)})]
)
def test_arrays_that_do_not_fit_the_model_are_refused(
    width: int, layers: int, arrays: dict[str, Any], tmp_path: Path
) -> None:
    loaded = Translators.load(write(tmp_path / "t.npz", **arrays), HASH)
    with pytest.raises(ModelError, match=r"fits no model|not numbers"):
        loaded.check_fits(width, layers)


def test_a_translator_changes_the_drafts_and_not_the_reply(
    model: Model,
    make_engine: Callable[..., LlamaEngine],
    talk: Callable[..., list[Message]],
    answer: Callable[..., tuple[tuple[int, ...], str]],
    tmp_path: Path,
) -> None:
    if not row_exact():
        pytest.skip("this llama.cpp has one depth only: build ours with ./scripts/setup")
    n, messages = model.n_embd, talk("What is the capital of France?")
    ruin = np.random.default_rng(0).normal(size=(n, n)).astype(np.float16)
    path = write(tmp_path / "t.npz", exits=(29,), width=n, A_29=ruin)
    settings = EngineSettings(exit_layer=29, draft_len=2, max_reply_tokens=16)
    accepted = []
    for translators in (None, Translators.load(path, HASH)):
        engine = LlamaEngine(model, settings, translators=translators)
        try:
            assert answer(engine, messages) == answer(make_engine(), messages)
            engine.open(messages, 1)
            accepted.append(0)
            done = False
            while not done:
                step = engine.step()
                accepted[-1] += step.counts.accepted
                done = step.done
        finally:
            engine.close()
    assert accepted[0] > 0 == accepted[1]


def test_the_registry_s_translator_for_the_model_is_found(tmp_path: Path) -> None:
    def entry(name: str, kind: str, sha256: str | None = None) -> Entry:
        file = {"name": name, "sha256": sha256}
        return Entry.model_validate(
            {"name": name, "kind": kind, "licence": "MIT", "source": {"path": str(tmp_path)}, "files": [file]}
        )

    write(tmp_path / "exits-a", OTHER)
    write(tmp_path / "exits-b", HASH)
    for name in ("exits-a", "exits-b"):
        (tmp_path / f"{name}.npz").rename(tmp_path / name)
    named = [entry("model", "llm", HASH), *(entry(f"exits-{x}", "exits") for x in "cab")]
    registry = Registry({each.name: each for each in named}, tmp_path)

    def chosen(**settings: Any) -> str | None:
        return assemble.translator_name(EngineSettings(model="model", **settings), registry)

    assert chosen(exit_layer=2) == chosen(exit_layer="auto") == "exits-b"
    assert chosen() is chosen(exit_layer=2, translator="none") is None
    assert chosen(exit_layer=2, translator="exits-a") == "exits-a"
