"""When a token may leave at the exit: the decisions on plain numbers, and the engine that obeys them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.engine.policies import POLICIES, ExitView
from pads_runtime.errors import ConfigError
from pads_runtime.frames import Message, ReplyStep

Talk = Callable[..., list[Message]]


def logits(*probabilities: float) -> np.ndarray:
    return np.log(np.array(probabilities, np.float64)).astype(np.float32) + 3.0


def test_the_view_holds_probability_and_lead_of_the_likeliest_token() -> None:
    view = ExitView.of(logits(0.1, 0.6, 0.05, 0.25), p_deep=0.3)
    assert view.top == pytest.approx(0.6, abs=1e-6)
    assert view.margin == pytest.approx(0.35, abs=1e-6)
    assert view.p_deep == 0.3


def test_two_equal_tokens_leave_no_lead() -> None:
    view = ExitView.of(logits(0.5, 0.5), p_deep=0.0)
    assert view.top == pytest.approx(0.5)
    assert view.margin == 0.0


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
def test_no_policy_lets_a_token_leave_an_exit_whose_scores_are_not_numbers(spoiled: float) -> None:
    scores = logits(0.5, 0.3, 0.2)
    scores[1] = spoiled
    view = ExitView.of(scores, p_deep=0.0)
    assert not any(make(0.01)(view) for make in POLICIES.values())


def test_each_policy_looks_at_its_own_number() -> None:
    view = ExitView(top=0.7, margin=0.5, p_deep=0.8)
    for name, value in {"top": 0.7, "margin": 0.5, "act": 1.0 - 0.8}.items():
        assert POLICIES[name](value)(view)
        assert not POLICIES[name](value + 1e-6)(view)


def test_a_higher_threshold_never_lets_more_tokens_leave() -> None:
    rng = np.random.default_rng(3)
    views = [ExitView(*rng.random(3)) for _ in range(200)]
    for make in POLICIES.values():
        left = [{i for i, view in enumerate(views) if make(t)(view)} for t in np.linspace(0, 1, 21)]
        assert all(after <= before for before, after in itertools.pairwise(left))
        assert len(left[0]) > len(left[10]) > len(left[-1])


def test_the_act_policy_without_a_classifier_is_refused() -> None:
    class OfSomeModel:
        n_ctx_train = 2048

    settings = EngineSettings(exit_layer=15, serve="confident", exit_policy="act")
    with pytest.raises(ConfigError, match=r"engine\.exit_policy: act needs a dialogue-act classifier"):
        LlamaEngine(OfSomeModel(), settings)  # type: ignore[arg-type]


def served(engine: LlamaEngine, messages: list[Message]) -> list[ReplyStep]:
    engine.open(messages, 1)
    steps = [engine.step()]
    while not steps[-1].done:
        steps.append(engine.step())
    return steps


@pytest.mark.slow
def test_the_act_policy_answers_questions_deep_and_remarks_at_the_exit(model: Model, talk: Talk) -> None:
    asked: list[str] = []

    def p_deep(text: str) -> float:
        asked.append(text)
        return 0.9 if "?" in text else 0.1

    settings = EngineSettings(
        exit_layer=29, serve="confident", exit_policy="act", confident_threshold=0.5, max_reply_tokens=16
    )
    plain = LlamaEngine(model, EngineSettings(max_reply_tokens=16))
    engine = LlamaEngine(model, settings, p_deep=p_deep)
    try:
        question, remark = talk("Can you tell me about bees?"), talk("I walked home in the rain.")
        deep = served(engine, question)
        assert [s.tokens for s in deep] == [s.tokens for s in served(plain, question)]
        assert not any(step.approximate for step in deep)
        mark = engine.mark()
        shallow = served(engine, remark)
        assert sum(s.counts.decode_steps for s in shallow) == (len(shallow) - 1) // 9
        assert asked == ["Can you tell me about bees?", "I walked home in the rain."]
        engine.rollback(mark)
        assert [s.tokens for s in served(engine, remark)] == [s.tokens for s in shallow]
    finally:
        engine.close()
        plain.close()
