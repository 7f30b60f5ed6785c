"""Who chooses the depth: the settings where they say it, else what was measured on this machine, else nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.config import EngineSettings
from pads_runtime.engine import choose
from pads_runtime.engine.controller import AdaptiveDepth
from pads_runtime.engine.costs import DepthCosts, ExitCosts
from pads_runtime.engine.depth import DepthController, FixedDepth
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.frames import Message

ROWS = range(1, 10)
CHEAP = DepthCosts(
    full={n: 10.0 + n for n in ROWS},
    exits={k: ExitCosts(1.0, 2.0, 0.5, {n: 5.0 + 0.1 * n for n in ROWS}) for k in (10, 20, 29)},
)


def chosen(
    monkeypatch: pytest.MonkeyPatch, costs: DepthCosts | None, fitted: Translators | None = None, **settings: Any
) -> DepthController | None:
    monkeypatch.setattr(choose, "load_costs", lambda path, threads: costs)
    return choose.controller(EngineSettings(**settings), Path("model.gguf"), fitted)


def exits_of(controller: DepthController | None) -> set[int]:
    assert isinstance(controller, AdaptiveDepth)
    return set(controller.acceptance)


def test_one_depth_needs_no_controller_and_an_open_exit_has_none_without_a_calibration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen(monkeypatch, CHEAP) is None
    assert chosen(monkeypatch, None, exit_layer="auto") is None


def test_what_is_set_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in ({"draft_len": 4}, {"serve": "confident"}):
        controller = chosen(monkeypatch, CHEAP, exit_layer=10, **settings)
        assert isinstance(controller, FixedDepth)
        assert controller.plan().exit_layer == 10
    uncalibrated = chosen(monkeypatch, None, exit_layer=10)
    assert uncalibrated is not None and uncalibrated.plan().draft_len > 0
    assert isinstance(chosen(monkeypatch, CHEAP, exit_layer=11), FixedDepth)  # nothing was measured there


def test_what_is_open_is_chosen_among_what_was_measured_and_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exits_of(chosen(monkeypatch, CHEAP, exit_layer=20)) == {20}
    assert exits_of(chosen(monkeypatch, CHEAP, exit_layer="auto")) == {10, 20, 29}
    nothing = np.zeros((1, 1), np.float32)
    fitted = Translators(Path("t.npz"), "", 64, dict.fromkeys((20, 25), nothing), {})
    assert exits_of(chosen(monkeypatch, CHEAP, fitted, exit_layer="auto")) == {20}
    short = chosen(monkeypatch, CHEAP, exit_layer="auto", draft_len=1)
    assert short is not None and short.plan().draft_len <= 1


def test_a_reply_with_chosen_depths_is_plain_decoding_s(
    monkeypatch: pytest.MonkeyPatch,
    model: Model,
    make_engine: Callable[..., LlamaEngine],
    talk: Callable[..., list[Message]],
    answer: Callable[..., tuple[tuple[int, ...], str]],
) -> None:
    if not row_exact():
        pytest.skip("this llama.cpp has one depth only: build ours with ./scripts/setup")
    settings = EngineSettings(exit_layer="auto", max_reply_tokens=16)
    engine = LlamaEngine(model, settings, controller=chosen(monkeypatch, CHEAP, exit_layer="auto"))
    try:
        messages = talk("How do I boil an egg?")
        assert answer(engine, messages) == answer(make_engine(), messages)
        engine.open(messages, 1)
        engine.step()
        plan = engine.step().plan
        assert plan is not None and plan.reason
    finally:
        engine.close()
