"""Calibration: what is measured, what is kept, and that an answer for another model or machine is not used."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.engine import calibration
from pads_runtime.engine.costs import DepthCosts, ExitCosts
from pads_runtime.engine.model import Model
from pads_runtime.errors import InputError

ONE, TWO = calibration.Threads(1, 1), calibration.Threads(2, 1)

COSTS = DepthCosts(full={1: 10.0, 2: 18.0}, exits={6: ExitCosts(2.0, 4.0, 1.5, {1: 8.0, 2: 14.0})})


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for a model, and an empty cache."""
    monkeypatch.setenv("PADS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "tiny model.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 9000)
    return path


def test_what_was_kept_is_found_again(gguf: Path) -> None:
    calibration.save(COSTS, gguf, TWO)
    assert calibration.load_costs(gguf, TWO) == COSTS


def test_without_a_calibration_there_are_no_costs_and_no_warning(gguf: Path) -> None:
    assert calibration.load_costs(gguf, TWO) is None


@pytest.mark.parametrize("other", [ONE, calibration.Threads(2, 2)])
def test_other_numbers_of_threads_have_their_own(gguf: Path, other: calibration.Threads) -> None:
    calibration.save(COSTS, gguf, other)
    assert calibration.load_costs(gguf, TWO) is None


@pytest.mark.parametrize("where", [10, 1_000_000, -3])
def test_another_model_under_the_same_name_is_ignored_with_a_warning(gguf: Path, where: int) -> None:
    calibration.save(COSTS, gguf, TWO)
    data = bytearray(gguf.read_bytes())
    data[where] ^= 0xFF
    gguf.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="another model; run: pads calibrate"):
        assert calibration.load_costs(gguf, TWO) is None


def test_another_machine_or_build_is_ignored_with_a_warning(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibration.save(COSTS, gguf, TWO)
    here = calibration.Setting.here(gguf, TWO)
    elsewhere = replace(here, cpu="another", library="0.0.1")
    monkeypatch.setattr(calibration.Setting, "here", lambda path, threads: elsewhere)
    with pytest.warns(RuntimeWarning, match="another cpu and library"):
        assert calibration.load_costs(gguf, TWO) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data["costs"]["full"].clear(),
        lambda data: data.pop("setting"),
        lambda data: data["setting"].update(colour="blue"),
        lambda data: data.update(costs=3),
    ],
)
def test_a_damaged_calibration_is_ignored_with_a_warning(gguf: Path, damage: Callable[[Any], object]) -> None:
    path = calibration.save(COSTS, gguf, TWO)
    data = json.loads(path.read_text())
    damage(data)
    path.write_text(json.dumps(data))
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert calibration.load_costs(gguf, TWO) is None


@pytest.mark.parametrize("text", ["", "[]", "null", '{"format": 2}', "{"])
def test_a_file_that_is_no_calibration_is_ignored_with_a_warning(gguf: Path, text: str) -> None:
    calibration.save(COSTS, gguf, TWO).write_text(text)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert calibration.load_costs(gguf, TWO) is None


def test_a_calibration_of_another_version_is_ignored_with_a_warning(gguf: Path) -> None:
    path = calibration.save(COSTS, gguf, TWO)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 0}))
    with pytest.warns(RuntimeWarning, match="another version"):
        assert calibration.load_costs(gguf, TWO) is None


def test_a_model_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        calibration.fingerprint(tmp_path / "none.gguf")


def test_medians_are_taken_behind_the_discarded_rounds() -> None:
    """The clock of the first rounds runs a thousand times slower, and no pass is run."""
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        per_round = 2 * (3 + 3 + 3)
        slow = (calls - 1) // per_round < calibration.DISCARDED
        return calls * (1.0 if slow else 0.001)

    class NoPasses:
        n_vocab = 640

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *args, **kwargs: None

    passes: Any = NoPasses()
    costs = calibration.measure_passes(passes, (6,), max_draft=2, rounds=5, clock=clock)
    assert costs.full.keys() == costs.exits[6].deep.keys() == {1, 2, 3}
    assert costs.plain_ms == pytest.approx(1.0)
    assert costs.exits[6].draft == pytest.approx(1.0)


@pytest.mark.slow
def test_the_embedded_model_is_measured_on_every_exit_of_the_ladder(model: Model) -> None:
    costs = calibration.measure(model, threads=ONE, rounds=1, max_draft=2)
    assert list(costs.exits) == [6, 10, 15, 20, 25]
    assert DepthCosts.from_json(json.loads(json.dumps(costs.as_json()))) == costs
