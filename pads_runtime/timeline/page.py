"""The page around the drawing: what it is about, the figures, the legend, the turns in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from .axis import Scale
from .facts import Reply, Story, Turn, number, whole
from .lanes import Figure, Look, draw
from .look import STYLE
from .marks import BAR, reply_bar, reply_label, reply_title, seconds
from .svg import box, esc, line, num, tag, titled

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content Security Policy: nothing is fetched, nothing runs."""
STRIP_FROM_PX = 1500.0
"""Drawings wider than this get a strip with the whole session above them."""

NONE = "\u2013"
"""Stands where there is no value."""

Row = Mapping[str, Any]


def page(story: Story, summary: Mapping[str, Any], title: str, look: Look) -> str:
    """The document. Figures come from ``summary`` where it has them, else from the trace."""
    rows = _rows(summary)
    if story.speech or story.replies or rows:
        figure = draw(story, look)
        body = _tiles(story, summary, rows) + _timeline(story, figure) + _legend() + _table(story, rows)
    else:
        length = f" in {seconds(story.end_s)}" if story.end_s else ""
        body = tag("p", f"Nothing happened{length}: nobody spoke and nothing was answered.", class_="nothing")
    head = (
        '<meta charset="utf-8"/>'
        + tag("meta", http_equiv="Content-Security-Policy", content_=POLICY)
        + '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        + f"<title>{esc(title)}</title><style>{STYLE}</style>"
    )
    main = tag("h1", esc(title)) + _intro(story) + body
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>{main}</main></body></html>\n'


def _rows(summary: Mapping[str, Any]) -> dict[int, Row]:
    turns = summary.get("turns")
    listed = turns if isinstance(turns, list | tuple) else []
    return {whole(row, "turn", i): row for i, row in enumerate(listed, 1) if isinstance(row, Mapping)}


def _intro(story: Story) -> str:
    text = (
        "PADS prepares its answer while you pause. If you go on speaking, what it prepared is thrown away unheard. "
        "If you were done, the answer is there already."
    )
    parts = [tag("p", text, class_="dim")]
    if story.failure:
        parts.append(tag("p", f"The session ended with an error: {esc(story.failure)}", class_="alarm"))
    if story.frames_dropped:
        parts.append(tag("p", f"{story.frames_dropped} frames of 20 ms were lost on the way in.", class_="alarm"))
    return "".join(parts)


# ---------------------------------------------------------------- figures


def _tiles(story: Story, summary: Mapping[str, Any], rows: Mapping[int, Row]) -> str:
    prepared = [reply for reply in story.replies if reply.prepared]
    kept = sum(reply.outcome == "committed" for reply in prepared)
    wasted = sum(reply.tokens for reply in story.replies if reply.thrown_away)
    counts = (
        ("Turns", whole(summary, "turns", len({*rows, *(turn.number for turn in story.turns)})), "of yours"),
        ("Prepared", whole(summary, "prepared", len(prepared)), "replies, in a pause"),
        ("Committed", whole(summary, "committed", kept), "prepared and heard"),
        ("Discarded", whole(summary, "discarded", len(prepared) - kept), "prepared in vain"),
        ("Wasted", whole(summary, "wasted_tokens", wasted), "tokens of thrown-away replies"),
    )
    tiles = [_tile(name, str(value), note) for name, value, note in counts]
    for name, key, note in (
        ("First token", "post_confirm_ttft_ms", "median wait after the turn was confirmed"),
        ("Dead air", "dead_air_ms", "median silence before PADS is heard"),
    ):
        tiles.append(_tile(name, _ms(_median(story, summary, rows, key)), note))
    return tag("dl", "".join(tiles), class_="tiles")


def _tile(name: str, value: str, note: str) -> str:
    return tag("div", tag("dt", esc(name)) + tag("dd", f"{esc(value)}{tag('small', esc(note))}"))


def _median(story: Story, summary: Mapping[str, Any], rows: Mapping[int, Row], key: str) -> float | None:
    total = summary.get(key)
    if isinstance(total, Mapping):
        given = number(total, "p50", float("nan"))
    else:
        given = number(summary, f"{key}_p50", number(summary, key, float("nan")))
    if given == given:
        return given
    values = [value for turn in story.turns if (value := _figure(turn, rows.get(turn.number, {}), key)) is not None]
    return median(values) if values else None


def _figure(turn: Turn | None, row: Row, key: str) -> float | None:
    value = number(row, key, float("nan"))
    if value == value:
        return value
    own: float | None = getattr(turn, key) if turn else None
    return own


def _ms(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f} ms"


# ---------------------------------------------------------------- drawing


def _timeline(story: Story, figure: Figure) -> str:
    names = []
    for top, lane in figure.lanes:
        ticks = "".join(tag("i", esc(text), style=f"top:{num(y - 6)}px") for y, text in lane.ticks)
        kind = "narrow" if lane.ticks and lane.hint else ""
        content = tag("b", esc(lane.name)) + (f"<span>{esc(lane.hint)}</span>" if lane.hint else "") + ticks
        names.append(tag("div", content, class_=kind, style=f"top:{num(top)}px;height:{num(lane.height)}px"))
    anchors = "".join(
        f'<span class="anchor" id="turn-{turn}" style="left:{num(x)}px"></span>' for turn, x in figure.turn_x
    )
    inner = tag("div", "".join(names), class_="names") + tag("div", anchors + figure.svg, class_="canvas")
    scroll = tag(
        "div",
        tag("div", inner, class_="figure"),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Timeline, scrolls sideways",
    )
    strip = _strip(story, figure) if figure.width > STRIP_FROM_PX else ""
    return tag("h2", "Timeline") + strip + scroll


def _strip(story: Story, figure: Figure) -> str:
    """The whole session at the width of the page; a turn in it leads to its place in the drawing."""
    scale = Scale(1000.0 / max(story.end_s, 1e-9), story.end_s, 0.0)

    def bar(start_s: float, end_s: float, y: float, class_: str) -> str:
        return box(scale.x(start_s), y, scale.x(end_s) - scale.x(start_s), 9, class_, 0)

    links = [
        tag(
            "a",
            titled(f"Turn {turn.number}: {turn.user}", bar(turn.start_s, turn.end_s, 0, "ground whole")),
            href=f"#turn-{turn.number}",
            aria_label=f"go to turn {turn.number}",
        )
        for turn in story.turns
    ]
    shapes = [bar(s.start_s, s.end_s, 2, "speech") for s in story.speech if not s.ignored]
    for reply in story.replies:
        if reply.thrown_away and reply.ended_s is not None:
            shapes.append(bar(reply.opened_s, reply.ended_s, 12, "cut-bar"))
        if reply.playing_s is not None:
            shapes.append(bar(reply.playing_s, story.end_s if reply.played_s is None else reply.played_s, 22, "said"))
    content = "".join(links) + tag("g", "".join(shapes), class_="through")
    note = (
        "The whole session: your voice above, replies thrown away in the middle, PADS below. Choose a turn to go to it."
    )
    drawing = tag("svg", content, class_="strip", viewBox="0 0 1000 33", preserveAspectRatio="none")
    return tag("p", note, class_="dim wide") + drawing


def _legend() -> str:
    def example(**changes: Any) -> str:
        reply = Reply(0, True, 2.0, first_token_s=12.0, first_phrase_s=26.0, generated_s=32.0, **changes)
        return reply_bar(reply, lambda t_s: t_s, 44.0, 4)

    entries = (
        (box(2, 5, 42, 20, "speech"), "your voice, with the words that were recognised below it"),
        (line(2, 15, 44, 15, "pause"), "a pause inside your turn, with its length"),
        (box(2, 5, 42, 20, "state paused"), "you are silent and PADS does not know yet whether you are done"),
        (
            example(outcome="committed", committed_s=44.0),
            "prepared and committed: full height while computed, low while ready",
        ),
        (example(outcome="discarded", ended_s=42.0), "prepared and thrown away, with the reason: nobody heard it"),
        (box(2, 4, 42, BAR, "reply plain"), "computed only after your turn was over"),
        (
            tag("path", d="M6 19h9l-4.5 -8z", class_="mark") + tag("path", d="M32 9l6 6l-6 6l-6 -6z", class_="mark"),
            "first token of a reply, first phrase of it as sound",
        ),
        (box(2, 5, 42, 20, "said"), "PADS is heard, with what it says below it"),
        (
            line(2, 15, 44, 15, "theta")
            + tag("circle", cx=12, cy=8, r=3.5, class_="over")
            + tag("circle", cx=34, cy=22, r=3.5, class_="under"),
            "threshold, with a value that reaches it (full) and one that does not (hollow)",
        ),
        (line(2, 15, 44, 15, "dead"), "dead air: from your last sound to the first one of PADS"),
    )
    items = [
        tag("li", tag("svg", shapes, width=46, height=30, aria_hidden="true") + f"<span>{esc(text)}</span>")
        for shapes, text in entries
    ]
    return tag("h2", "How to read it") + tag("ul", "".join(items), class_="legend")


# ---------------------------------------------------------------- turns in words

_COLUMNS = (
    ("Turn", ""),
    ("You said", ""),
    ("PADS answered", ""),
    ("Replies", ""),
    ("First token after confirmation", "n"),
    ("Dead air", "n"),
)


def _table(story: Story, rows: Mapping[int, Row]) -> str:
    turns = {turn.number: turn for turn in story.turns}
    head = tag("tr", "".join(tag("th", esc(name), scope="col", class_=kind) for name, kind in _COLUMNS))
    body = [_turn_row(at, turns.get(at), rows.get(at, {}), story.replies_of(at)) for at in sorted({*turns, *rows})]
    note = (
        "First token: how long the reply was still missing when PADS knew that you were done; 0 ms means it was there. "
        "Dead air: the silence you heard."
    )
    table = tag("table", tag("caption", note) + tag("thead", head) + tag("tbody", "".join(body)))
    return tag("h2", "Turn by turn", id="turns") + tag(
        "div", table, class_="table", tabindex=0, role="region", aria_label="Turn by turn"
    )


def _turn_row(at: int, turn: Turn | None, row: Row, replies: Sequence[Reply]) -> str:
    user = str(row.get("user") or (turn.user if turn else ""))
    agent = str(row.get("agent") or (turn.agent if turn else ""))
    if not agent and turn and turn.closed:
        agent = f"(no reply: {turn.closed})"
    link = f'<a href="#turn-{at}">Turn {at}</a>' if turn else f"Turn {at}"
    cells = [
        tag("th", link, scope="row"),
        tag("td", esc(user) or NONE, class_="text", dir="auto"),
        tag("td", esc(agent) or NONE, class_="text", dir="auto"),
        tag("td", _replies(row, replies)),
        tag("td", _ms(_figure(turn, row, "post_confirm_ttft_ms")), class_="n"),
        tag("td", _ms(_figure(turn, row, "dead_air_ms")), class_="n"),
    ]
    return tag("tr", "".join(cells))


def _replies(row: Row, replies: Sequence[Reply]) -> str:
    if not replies:
        counts = [f"{whole(row, key)} {key}" for key in ("prepared", "committed", "discarded") if key in row]
        return esc(", ".join(counts)) or NONE
    items = []
    for reply in replies:
        kind = "no" if reply.thrown_away else "ok" if reply.outcome == "committed" else ""
        cut = f", interrupted: {reply.reason}" if reply.reason and not reply.thrown_away else ""
        items.append(tag("li", esc(reply_label(reply) + cut), class_=kind, title=reply_title(reply)))
    return tag("ul", "".join(items))
