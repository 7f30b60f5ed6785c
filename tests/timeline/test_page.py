import math
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pads_runtime import timeline
from pads_runtime.errors import InputError
from pads_runtime.frames import TraceEvent
from pads_runtime.testing import Conversation, Script, WordEngine, converse, swap

VOID = {"meta", "link", "br", "img", "input", "hr"}
NASTY = "<script>alert(1)</script> & \"co\" 'x'"


class Checker(HTMLParser):
    """Fails where a tag is closed that is not open; collects text, tags and attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tooltips: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "an event handler"
            assert name not in ("src", "xlink:href")
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
            if name == "title":
                self.tooltips.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def talk() -> Conversation:
    script = Script.of(
        (0.3, "what city is"),
        (1.55, "warm in march"),
        (8.0, "okay thank you"),
        (14.0, "can you tell me"),
        (15.4, "which hotel is near"),
        (19.0, "please stop i have heard enough of it now"),
        (34.0, f"why {NASTY}"),
    )
    return converse(script, change=swap(engine=WordEngine(24)))


def test_the_page_has_each_reply_and_each_reason_for_throwing_one_away(talk: Conversation) -> None:
    text = check(timeline.render(talk.events, {}, "A talk")).text
    assert len(talk.agent_rows) >= 4 and len(talk.of("branch_discarded")) >= 2
    for reply in talk.agent_rows:
        assert reply in text
    for row in talk.user_rows:
        assert row in text
    for event in talk.of("branch_discarded"):
        assert f"discarded: {event.fields['reason']}, {event.fields['tokens']} tokens wasted" in text
    assert text.count("interrupted: the user spoke") >= 3  # in the drawing, its tooltip and the table


def test_the_page_is_well_formed_and_its_drawings_are_xml(talk: Conversation) -> None:
    page = timeline.render(talk.events, {}, "A talk", {"user": [0.1, 0.5] * 300, "agent": [0.2] * 600})
    check(page)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) > 3
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def test_the_page_names_nothing_outside_itself_and_runs_nothing(talk: Conversation) -> None:
    page = timeline.render(talk.events, {}, "A talk")
    checker = check(page)
    assert "http://" not in page and "https://" not in page and "@import" not in page
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#dots", "#hatch"}
    assert "script" not in checker.tags and "link" not in checker.tags and "img" not in checker.tags
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in page
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert len(checker.links) >= 5 and len(checker.ids) == len(set(checker.ids))


def test_every_text_is_escaped() -> None:
    talk = converse(Script.of((0.3, f"why {NASTY}")))
    turns = [{"turn": 1, "user": NASTY, "agent": NASTY}, {"turn": 7, "user": NASTY}]
    failed = TraceEvent(9.0, "session_failed", {"error": NASTY})
    reason = TraceEvent(8.0, "branch_discarded", {"turn": 1, "reason": NASTY, "tokens": 3})
    state = TraceEvent(8.5, "state_changed", {"turn": 2, "before": "idle", "state": NASTY})
    page = timeline.render([*talk.events, reason, state, failed], {"turns": turns}, NASTY)
    assert "<script" not in page.lower()
    checker = check(page)
    assert "script" not in checker.tags
    assert checker.text.count(NASTY) >= 6


def test_characters_that_xml_forbids_are_replaced(tmp_path: Path) -> None:
    talk = converse(Script.of((0.3, "why \x00\x1b\udc80 is that")))
    path = tmp_path / "page.html"
    timeline.write(path, talk.events, {}, "bell \x07")
    text = path.read_text(encoding="utf-8")
    assert "bell \ufffd" in text and not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", text)
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize(
    "events", [[], [TraceEvent(0.0, "session_started", {"settings": ""}), TraceEvent(3.0, "session_ended", {})]]
)
def test_an_empty_trace_gives_a_page_that_says_that_nothing_happened(events: list[TraceEvent]) -> None:
    page = timeline.render(events, {}, "Silence")
    checker = check(page)
    assert "Nothing happened" in checker.text
    assert "svg" not in checker.tags and "table" not in checker.tags


def test_a_session_that_failed_or_lost_sound_says_so() -> None:
    ended = TraceEvent(2.0, "session_ended", {"frames_dropped": 7})
    failed = TraceEvent(2.0, "session_failed", {"error": "EngineDead: gone"})
    text = check(timeline.render([failed, ended], {}, "A")).text
    assert "ended with an error: EngineDead: gone" in text and "7 frames of 20 ms were lost" in text


def test_rendering_the_same_trace_twice_gives_the_same_bytes(talk: Conversation) -> None:
    loudness = {"user": [0.3] * 100, "agent": [0.2] * 100}
    again = list(talk.events)
    assert timeline.render(talk.events, {}, "A", loudness) == timeline.render(again, {}, "A", dict(loudness))


def test_figures_of_the_summary_come_before_those_of_the_trace(talk: Conversation) -> None:
    summary = {
        "turns": [{"turn": 1, "post_confirm_ttft_ms": 4321.0, "dead_air_ms": 8765.0}],
        "prepared": 91,
        "committed": 92,
        "discarded": 93,
        "post_confirm_ttft_ms": {"p50": 1234.0, "p95": 5.0},
        "dead_air_ms": 5678.0,
    }
    text = check(timeline.render(talk.events, summary, "A")).text
    for shown in ("4321 ms", "8765 ms", "1234 ms", "5678 ms", "Prepared91", "Committed92", "Discarded93"):
        assert shown in text


def test_figures_that_the_summary_lacks_come_from_the_trace(talk: Conversation) -> None:
    text = check(timeline.render(talk.events, {"turns": None, "dead_air_ms": math.nan}, "A")).text
    assert "first sound at" in text and "nan" not in text.lower()
    assert f"Prepared{len(talk.of('branch_opened'))}replies" in text
    assert f"Committed{len(talk.of('reply_committed'))}prepared" in text


def test_thresholds_are_drawn_where_the_summary_has_them(talk: Conversation) -> None:
    flat = {"theta_end": 0.8, "theta_deep": 0.3}
    nested = {"settings": {"gate": flat}}
    page = timeline.render(talk.events, flat, "A")
    assert page == timeline.render(talk.events, nested, "A")
    assert "threshold 0.80" in page and "threshold 0.30" in page
    assert "threshold 0" not in timeline.render(talk.events, {"theta_end": 7, "theta_deep": "x"}, "A")


def test_loudness_is_drawn_only_where_it_is_given_and_silence_is_not(talk: Conversation) -> None:
    def waves(loudness: dict[str, list[float]] | None) -> list[str]:
        return re.findall(r'<path d="[^"]*" class="(wave \w+)"/>', timeline.render(talk.events, {}, "A", loudness))

    assert waves(None) == [] == waves({}) == waves({"user": [0.0, math.nan, -1.0], "agent": []})
    assert waves({"user": [0.0, 0.4, math.inf, 0.3], "agent": [0.1, 0.2]}) == ["wave user", "wave agent"]


def test_a_long_session_is_wider_than_a_short_one_and_drawn_in_fewer_px_per_second(talk: Conversation) -> None:
    def width(end_s: float) -> float:
        events = [*talk.events, TraceEvent(end_s, "session_ended", {})]
        found = re.search(r'<svg width="([0-9.]+)"', timeline.render(events, {}, "A"))
        assert found
        return float(found[1])

    assert width(80) < width(1000) < width(7000)
    assert width(80) / 80 > width(1000) / 1000 > width(7000) / 7000


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, talk: Conversation) -> None:
    path = tmp_path / "timeline.html"
    timeline.write(path, talk.events, {}, "A")
    assert path.read_text(encoding="utf-8") == timeline.render(talk.events, {}, "A")
    assert [p.name for p in tmp_path.iterdir()] == ["timeline.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, talk: Conversation) -> None:
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "none" / "timeline.html", tmp_path / "taken"):
        with pytest.raises(InputError, match=re.escape(str(path))):
            timeline.write(path, talk.events, {}, "A")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_tables_have_a_caption_and_headers_and_the_page_a_language_and_a_title(talk: Conversation) -> None:
    page = timeline.render(talk.events, {}, "A talk")
    assert '<html lang="en">' in page and "<title>A talk</title>" in page
    assert page.count('scope="col"') == 6 and page.count('scope="row"') == len(talk.user_rows)
    assert "<caption>" in page and "prefers-color-scheme:dark" in page
