"""The tables that people see."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from pads_runtime import report
from pads_runtime.config import PadsSettings, load
from pads_runtime.summary import summarise
from pads_runtime.talks import Talk
from pads_runtime.testing import Script, converse


def held(settings: PadsSettings | None = None) -> Talk:
    """A talk of fakes: a branch thrown away, one used, a plain reply."""
    script = Script.of((0.5, "what is the time"), (2.0, "right now"), (9.0, "thank you"))
    figures = summarise(converse(script, settings).events)
    mode = settings.gate.mode.value if settings else "and"
    return Talk({"clock": "virtual", "gate": mode, **figures}, Path("runs/x"))


def shown(show: Any, *talks: Talk) -> str:
    out = io.StringIO()
    show(Console(file=out, width=240), *talks)
    return out.getvalue()


def test_a_talk_is_told_turn_by_turn_and_in_sum() -> None:
    talk = held()
    text = shown(report.talk, talk)
    for row in talk.summary["per_turn"]:
        assert row["user"].split()[0] in text
    assert "prepared and thrown away 1x, then prepared in the pause" in text
    assert "made after the turn" in text
    assert "2 turns answered; 2 replies prepared in pauses: 1 used, 1 thrown away unheard" in text
    assert "look:   runs/x/timeline.html" in text


def test_its_sound_is_told_of_where_it_was_kept(tmp_path: Path) -> None:
    talk = Talk(held().summary, tmp_path)
    assert "listen:" not in shown(report.talk, talk)
    (tmp_path / "conversation.wav").touch()
    assert f"listen: {tmp_path / 'conversation.wav'}" in shown(report.talk, talk)


def test_of_a_long_talk_the_last_turns_are_shown_and_the_rest_is_named() -> None:
    talk = held()
    row = talk.summary["per_turn"][0]
    rows = [{**row, "turn": turn, "user": f"question {turn} "} for turn in range(1, 101)]
    text = shown(report.talk, Talk({**talk.summary, "per_turn": rows}, Path("runs/x")))
    assert "question 100 " in text
    assert "question 60 " not in text
    assert "the last 40 of 100 turns; all are in runs/x/metrics.jsonl" in text


def test_a_talk_in_which_nothing_happened_can_be_told() -> None:
    nothing = Talk({"clock": "virtual", "gate": "and", **summarise([])}, Path("runs/x"))
    text = shown(report.talk, nothing)
    assert "0 turns answered" in text
    assert "median" not in text


def test_text_that_looks_like_markup_is_shown_as_it_is() -> None:
    talk = held()
    talk.summary["per_turn"][0]["agent"] = "see [/bold] and [red]this[/red]"
    assert "see [/bold] and [red]this[/red]" in shown(report.talk, talk)


def test_two_talks_are_the_same_if_every_reply_is() -> None:
    one, other = held(), held(load(None, ["gate.mode=never"]))
    both = report.compared(one.summary, other.summary)
    assert both["identical_replies"] is True
    assert (both["speculation"], both["plain"]) == (one.summary, other.summary)
    text = shown(report.comparison, one, other)
    assert "The replies are word for word the same." in text
    assert "silence before the answer, ms, p50" in text


def test_one_other_word_is_not_the_same() -> None:
    one, other = held(), held(load(None, ["gate.mode=never"]))
    other.summary["per_turn"][0]["agent"] += " indeed"
    assert report.compared(one.summary, other.summary)["identical_replies"] is False
    assert "NOT the same" in shown(report.comparison, one, other)
