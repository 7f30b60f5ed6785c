"""Drafting at an exit changes nothing that is served: replies, caches and endings are those of plain decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pads_runtime.engine.depth import DepthPlan
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import row_exact
from pads_runtime.engine.model import Model
from pads_runtime.errors import ConfigError, ModelError
from pads_runtime.frames import Message, ReplyStep, WorkCounts

Make = Callable[..., LlamaEngine]
Talk = Callable[..., list[Message]]

PROMPTS = (
    "What is the capital of France?",
    "Tell me about ☃ and 日本, please.",
    "Write a two line poem about the sea.",
    "How do I boil an egg?",
)
SENTENCE = "The train to the coast leaves at seven in the morning, and I have not packed anything yet, so hurry. "
LADDER = (6, 10, 15, 20, 25)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _patched_build() -> None:
    if not row_exact():
        pytest.skip("this llama.cpp has one depth only: build ours with ./scripts/setup")


def serve(engine: LlamaEngine, messages: list[Message], seed: int = 1) -> list[ReplyStep]:
    engine.open(messages, seed)
    steps = [engine.step()]
    while not steps[-1].done:
        steps.append(engine.step())
    return steps


def said(engine: LlamaEngine, messages: list[Message], seed: int = 1) -> Any:
    """Everything of a reply that must not depend on the depth: its tokens, its text, and what is cached after it."""
    steps = serve(engine, messages, seed)
    return tuple(t for s in steps for t in s.tokens), "".join(s.text for s in steps), engine.cached_tokens


def total(steps: list[ReplyStep]) -> WorkCounts:
    return sum((step.counts for step in steps), WorkCounts())


class Script:
    """A controller that goes through ``plans`` in turn, and what it was told."""

    def __init__(self, *plans: tuple[int | None, int]) -> None:
        self.plans, self.learned, self._next = plans, [], 0  # type: ignore[var-annotated]

    def plan(self) -> DepthPlan:
        return DepthPlan(*self.plans[self._next % len(self.plans)], "as scripted")

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        self._next += 1
        self.learned.append((plan.exit_layer, drafted, accepted))


@pytest.mark.parametrize(("exit_layer", "draft_len"), [(1, 2), (29, 6)])
def test_self_speculative_greedy_equals_plain_greedy(
    exit_layer: int, draft_len: int, make_engine: Make, talk: Talk
) -> None:
    plain = make_engine()
    drafting = make_engine(exit_layer=exit_layer, draft_len=draft_len)
    for prompt in PROMPTS[:2]:
        assert said(drafting, talk(prompt)) == said(plain, talk(prompt)), prompt


@pytest.mark.slow
@pytest.mark.parametrize("exit_layer", LADDER)
def test_self_speculative_greedy_equals_plain_greedy_at_every_exit(
    exit_layer: int, make_engine: Make, talk: Talk
) -> None:
    prompts = PROMPTS[2:]
    plain = make_engine(max_reply_tokens=24)
    expected = {prompt: said(plain, talk(prompt)) for prompt in prompts}
    for draft_len in (1, 5):
        drafting = make_engine(max_reply_tokens=24, exit_layer=exit_layer, draft_len=draft_len, draft_vocab=1024)
        for prompt in prompts:
            assert said(drafting, talk(prompt)) == expected[prompt], (prompt, draft_len)


@pytest.mark.parametrize(
    "cells",
    [pytest.param(256, marks=pytest.mark.slow), pytest.param(512, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("follow", ["full", "shallow"])
def test_the_reply_is_plain_decoding_s_where_it_crosses_a_block_of_cells(
    cells: int, follow: str, make_engine: Make, talk: Talk
) -> None:
    plain = make_engine(max_reply_tokens=24)
    words = (SENTENCE * (cells // 16)).split()
    while len(plain._prompts.full(talk(" ".join(words)))) > cells - 8:
        words.pop()
    messages = talk(" ".join(words))
    drafting = make_engine(max_reply_tokens=24, exit_layer=20, draft_len=3, follow=follow)
    drafting.follow(talk(" ".join(words[: len(words) // 2]) + " banana split"))
    drafting.follow(talk(" ".join(words[:-5])))
    expected = said(plain, messages)
    assert len(expected[2]) > cells
    assert said(drafting, messages) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.8, "max_reply_tokens": 12},
        pytest.param({"temperature": 1.5, "top_k": 0, "top_p": 1.0}, marks=pytest.mark.slow),
    ],
)
def test_coupled_sampling_serves_what_plain_sampling_serves(
    settings: dict[str, Any], make_engine: Make, talk: Talk
) -> None:
    plain = make_engine(**settings)
    drafting = make_engine(exit_layer=29, draft_len=3, **settings)
    replies = [said(plain, talk(PROMPTS[0]), seed) for seed in range(2)]
    assert len({reply[0] for reply in replies}) > 1
    assert [said(drafting, talk(PROMPTS[0]), seed) for seed in range(2)] == replies


def test_common_random_numbers_let_sampled_drafts_be_accepted(make_engine: Make, talk: Talk) -> None:
    drafting = make_engine(exit_layer=29, draft_len=2, temperature=1.0, max_reply_tokens=32)
    counts = total(serve(drafting, talk(PROMPTS[2]), 3))
    assert 0 < counts.accepted < counts.drafted


def test_changing_exit_and_draft_length_in_each_round_changes_nothing(
    model: Model, make_engine: Make, talk: Talk
) -> None:
    plain = make_engine()
    script = Script((15, 2), (None, 0), (29, 4), (3, 1))
    engine = LlamaEngine(model, plain._settings.model_copy(update={"exit_layer": "auto"}), controller=script)
    try:
        steps = serve(engine, talk(PROMPTS[1]))
        assert tuple(t for s in steps for t in s.tokens) == said(plain, talk(PROMPTS[1]))[0]
        assert {exit_layer for exit_layer, _, _ in script.learned} >= {15, None, 29, 3}
        assert [(s.plan.exit_layer, s.counts.drafted, s.counts.accepted) for s in steps[1:] if s.plan] == script.learned
    finally:
        engine.close()


def test_a_step_serves_all_that_was_verified_and_counts_it(make_engine: Make, talk: Talk) -> None:
    steps = serve(make_engine(exit_layer=29, draft_len=4, max_reply_tokens=24), talk(PROMPTS[0]))
    assert steps[0].counts == WorkCounts() and steps[0].plan is None
    assert max(len(step.tokens) for step in steps) > 1
    for step in steps[1:-1]:
        c = step.counts
        assert len(step.tokens) == c.accepted + 1
        assert (c.decode_steps, c.deep_steps, c.shallow_steps) == (1, 1, c.verified_rows)
        assert c.drafted <= c.verified_rows <= c.drafted + 1
        assert not step.approximate


def test_a_reply_ends_at_its_cap_inside_a_verified_run(make_engine: Make, talk: Talk) -> None:
    tokens, text, cached = said(make_engine(max_reply_tokens=8), talk(PROMPTS[2]))
    for cap in (1, 3, 5):
        capped = said(make_engine(exit_layer=29, draft_len=8, max_reply_tokens=cap), talk(PROMPTS[2]))
        assert (capped[0], capped[2]) == (tokens[:cap], cached[: len(cached) - 8 + cap]), cap
        assert text.startswith(capped[1])


def test_a_reply_ends_by_itself_inside_a_verified_run(make_engine: Make, talk: Talk) -> None:
    expected = said(make_engine(max_reply_tokens=60), talk(PROMPTS[0]))
    assert len(expected[0]) < 60
    for draft_len in (2, 8):
        drafting = make_engine(max_reply_tokens=60, exit_layer=29, draft_len=draft_len)
        assert said(drafting, talk(PROMPTS[0])) == expected, draft_len


def test_how_deep_the_transcript_was_followed_changes_no_reply(make_engine: Make, talk: Talk) -> None:
    final = talk("Please tell me how long I should boil an egg for my breakfast today")
    expected = said(make_engine(), final)
    for follow in ("none", "shallow", "full"):
        engine = make_engine(exit_layer=15, draft_len=2, follow=follow)
        if follow != "none":
            engine.follow(talk("Please tell me how long I should"))
            engine.follow(talk("Please tell me who wrote Hamlet and why it"))
            engine.follow(talk("Please tell me how long I should boil an egg for my"))
        assert said(engine, final) == expected, follow


def test_following_shallow_runs_the_lower_layers_and_opening_runs_the_rest(make_engine: Make, talk: Talk) -> None:
    engine = make_engine(exit_layer=15, draft_len=2, follow="shallow")
    first = engine.follow(talk("Please tell me how long I should boil"))
    assert (first.followed, first.prefilled, first.deepened) == (len(engine.cached_tokens), 0, 0)
    assert engine._cache.pending == first.followed
    second = engine.follow(talk("Please tell me how long I should cook an egg for"))
    assert second.reused + second.followed == len(engine.cached_tokens) == engine._cache.pending
    opened = engine.open(talk("Please tell me how long I should cook an egg for"), 1)
    assert (opened.deepened, opened.followed) == (opened.reused, 0)
    assert engine._cache.pending == 0


def test_a_sure_token_leaves_at_the_exit_and_the_reply_is_marked_approximate(make_engine: Make, talk: Talk) -> None:
    engine = make_engine(exit_layer=29, serve="confident", confident_threshold=0.4)
    steps = serve(engine, talk(PROMPTS[0]))
    c = total(steps)
    assert c.decode_steps < c.shallow_steps == len(steps) - 1
    first = next(i for i, step in enumerate(steps) if step.approximate)
    assert all(step.approximate for step in steps[first:])


def test_an_exit_that_is_never_sure_serves_the_deep_model_s_reply(make_engine: Make, talk: Talk) -> None:
    engine = make_engine(exit_layer=15, serve="confident", confident_threshold=1.0)
    steps = serve(engine, talk(PROMPTS[0]))
    assert not any(step.approximate for step in steps)
    assert tuple(t for s in steps for t in s.tokens) == said(make_engine(), talk(PROMPTS[0]))[0]


def test_an_approximate_reply_does_not_depend_on_rollbacks(make_engine: Make, talk: Talk) -> None:
    settings = {"exit_layer": 29, "serve": "confident", "confident_threshold": 0.3, "max_reply_tokens": 14}
    expected = [(s.tokens, s.approximate) for s in serve(make_engine(**settings), talk(PROMPTS[2]))]
    engine = make_engine(**settings)
    engine.open(talk(PROMPTS[2]), 1)
    got = []
    for tokens, _ in expected:
        mark = engine.mark()
        for _ in range(3):
            if engine._reply is not None:
                engine.step()
        engine.rollback(mark)
        step = engine.step()
        got.append((step.tokens, step.approximate))
        assert step.tokens == tokens
    assert got == expected


def test_the_deep_pass_after_an_approximate_reply_makes_the_next_reply_exact(make_engine: Make, talk: Talk) -> None:
    engine = make_engine(exit_layer=29, serve="confident", confident_threshold=0.2)
    steps = serve(engine, talk(PROMPTS[2]))
    again = talk(PROMPTS[2], "".join(step.text for step in steps), "Why?")
    opened = engine.open(again, 1)
    assert opened.reused > 40
    plain = make_engine()
    plain.open(again, 1)
    assert engine._cache.pending == 0
    assert engine._cache.logits().tobytes() == plain._cache.logits().tobytes()


@pytest.mark.parametrize("exit_layer", [30, 31, 999])
def test_an_exit_the_model_does_not_have_is_refused(exit_layer: int, make_engine: Make) -> None:
    with pytest.raises(ConfigError, match=rf"engine.exit_layer = {exit_layer}: this model has 30 layers; use 1 to 29"):
        make_engine(exit_layer=exit_layer)


def test_an_architecture_without_exits_is_refused_with_those_that_have_them(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "metadata", lambda self, key: "gemma3" if key == "general.architecture" else "{{ 1 }}")
    with pytest.raises(ModelError, match=r"'gemma3', which has no early exits; they work for llama, qwen2, qwen3"):
        make_engine(exit_layer=15)


def test_an_open_exit_without_a_calibration_is_plain_decoding(make_engine: Make, talk: Talk) -> None:
    steps = serve(make_engine(exit_layer="auto"), talk(PROMPTS[0]))
    assert total(steps).shallow_steps == 0
    assert all(step.plan is None for step in steps)


@pytest.mark.slow
def test_a_talk_that_overflows_its_context_is_answered_as_plainly(make_engine: Make, talk: Talk) -> None:
    settings = {"n_ctx": 256, "max_reply_tokens": 24}
    plain, drafting = make_engine(**settings), make_engine(exit_layer=20, draft_len=3, follow="shallow", **settings)
    texts = [f"Number {i}: {SENTENCE}" for i in range(9)]
    lengths = []
    for n in (1, 5, 7, 9):
        drafting.follow(talk(*texts[: n - 1], texts[n - 1][:60]))
        assert said(drafting, talk(*texts[:n])) == said(plain, talk(*texts[:n])), n
        lengths.append(len(drafting.cached_tokens))
    assert lengths != sorted(lengths), "turns were dropped"
