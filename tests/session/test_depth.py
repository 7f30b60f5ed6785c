"""How deep a reply was decoded: in the trace when it changes, in the cost, and approximate replies by name."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from pads_runtime.frames import DepthPlan, ReplyStep, WorkCounts
from pads_runtime.history import settings_key
from pads_runtime.reply import engine_cost_s
from pads_runtime.summary import summarise
from pads_runtime.testing import COSTS, Script, WordEngine, converse, settings_with, swap

ONE_TURN = Script.of((0.5, "can you tell me"))
PLANS = [
    None,
    DepthPlan(15, 3, "1.20x at acceptance 0.50"),
    DepthPlan(15, 3, "1.21x at acceptance 0.51"),
    DepthPlan(None, 0, "plain: best draft 0.90x"),
    DepthPlan(15, 2, "trying"),
]


class DeepWords(WordEngine):
    """Says with each word how it was decoded; from the ``unsure``-th on the reply is approximate."""

    def __init__(self, unsure: int = 99) -> None:
        super().__init__()
        self._unsure, self._said = unsure, 0

    def step(self) -> ReplyStep:
        step = super().step()
        plan, self._said = PLANS[min(self._said, len(PLANS) - 1)], self._said + 1
        return replace(step, plan=plan, approximate=self._said >= self._unsure)


def test_the_trace_tells_each_change_of_depth_within_a_reply_and_why() -> None:
    talk = converse(ONE_TURN, settings_with(gate={"mode": "never"}), swap(engine=DeepWords()))
    told = [event.fields for event in talk.of("depth_chosen")]
    assert [(f["exit"], f["draft_len"]) for f in told] == [(15, 3), (None, 0), (15, 2)]
    assert [f["reason"] for f in told] == [PLANS[1].reason, PLANS[3].reason, PLANS[4].reason]  # type: ignore[union-attr]
    assert {f["turn"] for f in told} == {1}


def test_an_engine_of_one_depth_says_nothing_of_it() -> None:
    assert converse(ONE_TURN, settings_with(gate={"mode": "never"})).of("depth_chosen") == []


@pytest.mark.parametrize(("unsure", "approximate"), [(3, True), (99, False)])
def test_an_approximate_reply_is_marked_in_the_trace_and_in_the_summary(unsure: int, approximate: bool) -> None:
    talk = converse(ONE_TURN, settings_with(gate={"mode": "never"}), swap(engine=DeepWords(unsure)))
    for kind in ("reply_generated", "reply_served"):
        assert [event.fields["approximate"] for event in talk.of(kind)] == [approximate]
    summary = summarise(talk.events)
    assert summary["approximate_replies"] == approximate
    assert [row["approximate"] for row in summary["per_turn"]] == [approximate]


@pytest.mark.parametrize("follow", ["shallow", "full", "auto", "none"])
def test_the_transcript_is_followed_at_any_depth_but_none(follow: str) -> None:
    settings = settings_with(gate={"mode": "never"}, engine={"exit_layer": 15, "follow": follow})
    engine = Following()
    converse(ONE_TURN, settings, swap(engine=engine))
    assert (engine.followed > 0) is (follow != "none")


class Following(WordEngine):
    followed = 0

    def follow(self, messages: object) -> WorkCounts:
        self.followed += 1
        return super().follow(messages)  # type: ignore[arg-type]


def test_each_kind_of_work_costs_what_is_declared_for_it() -> None:
    c = COSTS
    share = c.shallow_step_s / c.decode_step_s
    round_ = WorkCounts(decode_steps=1, deep_steps=1, shallow_steps=4, verified_rows=4, drafted=3, accepted=1)
    assert engine_cost_s(round_, c) == pytest.approx(4 * c.shallow_step_s + 4 * c.deep_row_s)
    assert engine_cost_s(WorkCounts(decode_steps=1), c) == pytest.approx(c.decode_step_s)
    assert engine_cost_s(round_ + WorkCounts(decode_steps=1), c) == pytest.approx(
        engine_cost_s(round_, c) + c.decode_step_s
    )
    halves = [engine_cost_s(WorkCounts(**{half: 10}), c) - c.prefill_base_s for half in ("followed", "deepened")]
    assert halves[0] == pytest.approx(10 * c.prefill_token_s * share)
    assert sum(halves) == pytest.approx(10 * c.prefill_token_s)
    assert engine_cost_s(WorkCounts(reused=100), c) == 0


def test_counts_add_field_by_field() -> None:
    ones = WorkCounts(*[1] * len(fields(WorkCounts)))
    assert ones + ones + WorkCounts() == WorkCounts(*[2] * len(fields(WorkCounts)))


def test_only_settings_that_can_change_a_reply_are_part_of_its_premise() -> None:
    def key(**engine: object) -> str:
        return settings_key(settings_with(engine=engine))

    assert key() == key(exit_layer=15) == key(exit_layer=15, draft_len=3, follow="shallow")
    confident = key(exit_layer=15, serve="confident")
    assert len({key(), confident, key(exit_layer=10, serve="confident")}) == 3
    assert confident != key(exit_layer=15, serve="confident", exit_policy="act")
    assert key() == key(exit_layer=15, exit_policy="act")
    drawn = {"temperature": 0.8, "exit_layer": 15, "sampling_rule": "leviathan"}
    assert key(**drawn) != key(**{**drawn, "draft_len": 2})
