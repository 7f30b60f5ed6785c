"""The latency benchmark: turns, strategies and arithmetic on plain numbers, and one short run on the real models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from bench.latency import figures, strategies, talk, turns
from bench.latency.figures import StrategyFigures, TurnFigures
from bench.latency.run import Asked, measure
from pads_runtime.config import load
from pads_runtime.errors import UsageError
from pads_runtime.models import Registry


def turn(number: int = 0, **changes: Any) -> TurnFigures:
    plain: dict[str, Any] = {
        "block": 0,
        "turn": number,
        "place": turns.NONE,
        "pause_s": 0.0,
        "post_confirm_ttft_ms": 0.0,
        "dead_air_ms": 700.0,
        "prepared": 0,
        "committed": 0,
        "false_cutoffs": 0,
        "wasted_tokens": 0,
        "wasted_cpu_ms": 0.0,
        "user": "hello",
        "agent": "hi",
    }
    return TurnFigures(**(plain | changes))


def strategy(name: str, waits: Sequence[float | None], wasted: int = 0) -> StrategyFigures:
    made = [turn(i, dead_air_ms=ms, wasted_tokens=wasted if i == 0 else 0) for i, ms in enumerate(waits)]
    return StrategyFigures(name, "", tuple(made), 1.0, None)


def test_turns_are_the_same_every_time_and_meet_every_swept_length_in_both_places() -> None:
    made = turns.turns(120, 7)
    assert made == turns.turns(120, 7)
    assert made[:12] == turns.turns(12, 7)
    for place in (turns.WHOLE, turns.PART):
        assert {t.pause_s for t in made if t.place == place and not t.drawn} == set(turns.SWEPT_S)
    assert {t.pause_s for t in made if t.drawn} <= set(turns.SWITCHBOARD_S)
    assert sum(t.place == turns.NONE for t in made) == 40


def test_every_strategy_changes_what_it_says_and_keeps_the_rest() -> None:
    base = load(None, ["engine.max_reply_tokens=12"])
    seen = [s.applied(base) for s in strategies.STRATEGIES]
    assert len({s.model_dump_json() for s in seen}) == len(seen)
    assert all(s.engine.max_reply_tokens == 12 and s.turn == base.turn for s in seen)


def test_an_unknown_strategy_is_named() -> None:
    assert [s.name for s in strategies.chosen(["pads", "sequential"])] == ["pads", "sequential"]
    assert strategies.chosen([]) == list(strategies.STRATEGIES)
    with pytest.raises(UsageError, match="--strategies psychic"):
        strategies.chosen(["psychic"])


def row(at_s: float, agent: str = "yes", **changes: Any) -> dict[str, Any]:
    plain = {"speech_end_s": at_s, "agent": agent, "user": "u", "prepared": 1, "committed": 1, "false_cutoffs": 0}
    return (
        plain | {"wasted_tokens": 0, "wasted_cpu_ms": 0.0, "post_confirm_ttft_ms": 5.0, "dead_air_ms": 700.0} | changes
    )


def test_a_turn_that_was_cut_off_is_one_turn_of_the_users() -> None:
    found = talk.assigned([row(2.0), row(4.1), row(9.0)], ends_s=[4.0, 9.0], lengths_s=[3.0, 2.0])
    assert [len(rows) for rows in found] == [2, 1]
    cut = talk._figures(0, 0, turns.turns(1, 1)[0], found[0])
    assert (cut.false_cutoffs, cut.prepared, cut.agent) == (1, 2, "yes | yes")


def test_a_difference_is_taken_turn_by_turn_and_its_interval_holds_it() -> None:
    slow, fast = strategy("sequential", [900.0, 950.0, 1000.0, None]), strategy("pads", [700.0, 700.0, 700.0, 700.0])
    found = figures.difference(fast, slow, "dead_air_ms")
    assert found is not None
    assert (found["n"], found["value"]) == (3, -250.0)
    assert found["low"] <= -250.0 <= found["high"] < 0.0
    assert figures.difference(fast, slow, "post_confirm_ttft_ms")["value"] == 0.0  # type: ignore[index]


def test_nothing_to_compare_is_no_difference() -> None:
    assert figures.difference(strategy("a", [None]), strategy("b", [1.0]), "dead_air_ms") is None
    assert strategy("a", [None]).as_json()["dead_air_ms"] is None


def test_the_front_holds_who_is_not_beaten_in_both() -> None:
    field = [strategy("slow", [900.0]), strategy("fast", [600.0], 40), strategy("worse", [700.0], 50)]
    assert figures.pareto(field) == ["slow", "fast"]


def test_replies_that_differ_are_named() -> None:
    one, other = strategy("pads", [1.0, 1.0]), strategy("sequential", [1.0, 1.0])
    assert figures.same_replies([one, other]) == figures.Replies(2, 0, ())
    odd = StrategyFigures("odd", "", (one.turns[0], turn(1, agent="ho")), 1.0, None)
    (line,) = figures.same_replies([one, odd]).odd
    assert "odd" in line
    assert "'ho'" in line


def test_replies_after_a_cut_off_are_not_compared() -> None:
    plain = StrategyFigures("pads", "", tuple(turn(i) for i in range(3)), 1.0, None)
    cut = (turn(0), turn(1, false_cutoffs=1, agent="h | hi"), turn(2, agent="ho"))
    assert figures.same_replies([plain, StrategyFigures("odd", "", cut, 1.0, None)]) == figures.Replies(1, 2, ())


def test_long_pauses_come_last_in_a_talk() -> None:
    made = turns.turns(24, 7)
    parts = turns.blocks(made, 6)
    assert sorted(map(str, made)) == sorted(str(t) for part in parts for t in part)
    assert all([t.pause_s for t in part] == sorted(t.pause_s for t in part) for part in parts)


def test_the_clocks_are_compared_by_their_medians() -> None:
    real, virtual = strategy("pads", [1000.0] * 3).as_json(), strategy("pads", [900.0] * 3).as_json()
    found = figures.agreement(real, virtual)
    assert found["dead_air_ms"]["off"] == pytest.approx(-0.1)
    assert found["post_confirm_ttft_ms"]["off"] == 0.0
    grown = StrategyFigures("pads", "", (turn(post_confirm_ttft_ms=5.0),), 1.0, None).as_json()
    assert figures.agreement(real, grown)["post_confirm_ttft_ms"]["off"] == math.inf


@pytest.mark.slow
def test_the_main_strategies_say_the_same_and_only_the_waiting_differs() -> None:
    asked = Asked(tuple(strategies.chosen(list(strategies.MAIN))), turns=2, real=False)
    settings = load("demo", ["engine.max_reply_tokens=12"])
    rows, detail = measure(asked, settings, Registry.load(), lambda line: None)
    named = {m.name: m for m in rows}
    assert detail["replies"]["odd"] == ()
    assert named["replies_identical"].within
    assert named["pads_dead_air_ms"].p50 <= named["sequential_dead_air_ms"].p50
