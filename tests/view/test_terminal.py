"""The screen: rendered as text, at sizes that terminals have."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pads_runtime.frames import TraceEvent, TurnState
from pads_runtime.view.state import Latency, Line, Notice, Phrase, Reply, Seen, reduce
from pads_runtime.view.terminal import Look, Vitals, bar, clock, render

WAITING = Reply(2, prepared=True, committed=False, phrases=(Phrase("It is noon.", 1.0, 3.0),))


def screen(seen: Seen, size: tuple[int, int] = (100, 30), now_s: float = 5.0, **vitals: object) -> str:
    console = Console(file=io.StringIO(), width=size[0], height=size[1], force_terminal=True, color_system="standard")
    with console.capture() as text:
        console.print(render(seen, Vitals(**vitals), Look(), now_s, size), height=size[1])  # type: ignore[arg-type]
    return text.get()


def plain(seen: Seen, size: tuple[int, int] = (100, 30), now_s: float = 5.0, **vitals: object) -> str:
    console = Console(file=io.StringIO(), width=size[0], height=size[1], color_system=None)
    with console.capture() as text:
        console.print(render(seen, Vitals(**vitals), Look(), now_s, size), height=size[1])  # type: ignore[arg-type]
    return text.get()


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (60, 40), (200, 60), (40, 15)])
def test_the_screen_fits_the_terminal(size: tuple[int, int]) -> None:
    seen = Seen(said=tuple(Line(i, "agent", f"line {i} " + "word " * 40) for i in range(30)), reply=WAITING)
    lines = plain(seen, size).splitlines()
    assert len(lines) <= size[1]
    assert max(map(len, lines)) <= size[0]


def test_of_a_long_talk_the_end_is_shown() -> None:
    seen = Seen(said=tuple(Line(i, "user", f"line number {i}.") for i in range(1, 50)))
    text = plain(seen)
    assert "line number 49." in text
    assert "line number 1." not in text


def test_prepared_text_is_grey_and_called_not_said_until_it_is_committed() -> None:
    seen = Seen(state=TurnState.PAUSED, reply=WAITING)
    assert "prepared, not said: It is noon." in plain(seen)
    assert "\x1b[3;90mIt is noon." in screen(seen), "italic and bright black"
    assert "a reply is being prepared" in plain(seen)


def test_committed_text_is_plain_only_once_it_sounds() -> None:
    playing = Reply(2, True, True, (Phrase("One.", 1.0, 3.0, 4.0), Phrase("Two.", 1.0, 3.0, 6.0)), playing=True)
    text = plain(Seen(state=TurnState.RESPONDING, reply=playing), now_s=5.5)
    assert "to come: Two." in text
    assert "not said" not in text
    assert "\x1b[3;90mTwo." in screen(Seen(state=TurnState.RESPONDING, reply=playing), now_s=5.5)
    assert "\x1b[3;90mOne." not in screen(Seen(state=TurnState.RESPONDING, reply=playing), now_s=5.5)


def test_unstable_words_look_different_from_stable_ones() -> None:
    text = screen(Seen(state=TurnState.LISTENING, speaking=True, stable="what is", unstable="the thyme"))
    assert "\x1b[1mwhat is" in text
    assert "\x1b[3;90mthe thyme" in text


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Seen(), "PADS listens"),
        (Seen(state=TurnState.LISTENING, speaking=True), "you speak"),
        (Seen(state=TurnState.PAUSED), "you pause"),
        (Seen(state=TurnState.RESPONDING), "PADS is about to answer"),
        (Seen(state=TurnState.RESPONDING, reply=Reply(1, False, True, playing=True)), "PADS speaks"),
        (Seen(state=TurnState.RESPONDING, speaking=True, reply=Reply(1, False, True, playing=True)), "over PADS"),
        (Seen(ended=True), "the talk is over"),
        (Seen(muted=True), "MICROPHONE MUTED"),
    ],
)
def test_it_says_who_speaks(seen: Seen, words: str) -> None:
    assert words in plain(seen)


def test_figures_of_the_last_turn_and_of_the_machine_are_there() -> None:
    seen = Seen(last=Latency(3, True, 0.0, 652.4), notices=(Notice(61.0, "the microphone is gone"),))
    for size in ((100, 30), (80, 24), (60, 40)):
        text = plain(seen, size, cpu_percent=43.0, rss_mb=622.0, overruns=7, frames_dropped=2)
        assert "model 0 ms, silence 652 ms" in text
        assert "43 %" in text
        assert "7 overruns" in text
        assert "microphone" in text


def test_a_missing_figure_is_a_dash_and_not_a_zero() -> None:
    text = plain(Seen(last=Latency(1, False, None, 900.0)))
    assert "model -, silence 900 ms" in text
    assert "- CPU" in text


def test_a_bar_shows_value_and_threshold() -> None:
    assert bar(0.5, 0.8, 10).plain == "━━━━━───┃─ 0.50"
    assert bar(None, 0.5, 10).plain == "─────┃────    -"
    assert bar(1.0, 1.0, 10).plain == "━━━━━━━━━┃ 1.00"


def test_markup_in_what_is_said_stays_text() -> None:
    said = reduce(Seen(), TraceEvent(1.0, "reply_served", {"turn": 1, "user": "[red]x[/red]", "agent": "[link=a]b"}))
    text = plain(said)
    assert "[red]x[/red]" in text
    assert "[link=a]b" in text


def test_escape_sequences_in_what_is_said_do_not_reach_the_terminal() -> None:
    row = {"turn": 1, "user": "a\x1b]0;title\x07b\x1b[2Jc\x9bd\u202ee", "agent": "x\ry"}
    said = reduce(Seen(), TraceEvent(1.0, "reply_served", row))
    assert [line.text for line in said.said] == ["a\ufffd]0;title\ufffdb\ufffd[2Jc\ufffdde", "x y"]
    text = screen(said)
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert "\x9b" not in text


@pytest.mark.parametrize(("t_s", "shown"), [(-1.0, "0:00"), (59.9, "0:59"), (61.0, "1:01"), (3661.0, "1:01:01")])
def test_times_are_minutes_and_seconds(t_s: float, shown: str) -> None:
    assert clock(t_s) == shown
