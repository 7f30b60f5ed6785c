"""The drawing: one lane above the other on a common axis of seconds, as inline SVG without script or reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..frames import TurnState
from .axis import MOMENTS, SMALL, Scale, axis, moment_lines, moments, turn_ground, turn_heads
from .facts import Band, Point, Reply, Speech, Story
from .marks import DEFS, loudness_path, reply_bar, reply_label, reply_title, seconds
from .svg import box, fit, label, line, num, stack, tag, titled, width_of, wrap

TEXT = 12.0
"""Size in px of the words under the voices."""
ROW = 15.0
LABEL_ROWS = 3
DENSE_POINTS = 4000
"""Above this, points are drawn as one path without a tooltip each, so that an hour's page still opens."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A strip of the drawing; ``ticks`` are (y within the lane, text) for the column of labels."""

    name: str
    hint: str
    height: float
    draw: Callable[[float], str]
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """The finished drawing and what stands beside it: (y of the lane's top, lane)."""

    svg: str
    width: float
    height: float
    lanes: tuple[tuple[float, Lane], ...]
    turn_x: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Look:
    """What the drawing needs besides the story. Loudness is one value per 50 ms, of any scale."""

    theta_end: float | None = None
    theta_deep: float | None = None
    loudness: dict[str, tuple[float, ...]] = field(default_factory=dict)


def draw(story: Story, look: Look) -> Figure:
    """The whole session."""
    scale = Scale.of(story.end_s)
    lanes = _lanes(story, look, scale)
    top, placed = 0.0, []
    for lane in lanes:
        placed.append((top, lane))
        top += lane.height
    parts = [DEFS, turn_ground(story.turns, scale, top)]
    parts += [line(0, y, scale.width, y, "rule") for y, _ in placed[1:]]
    parts.append(moment_lines(story.turns, scale, placed[1][0], top))
    parts += [lane.draw(y) for y, lane in placed]
    summary = (
        f"Timeline of {seconds(story.end_s)} with {len(story.turns)} turns; the table below says the same in words."
    )
    svg = tag(
        "svg",
        "".join(parts),
        width=scale.width,
        height=top,
        viewBox=f"0 0 {num(scale.width)} {num(top)}",
        role="img",
        aria_label=summary,
    )
    anchors = tuple((turn.number, scale.x(turn.start_s)) for turn in story.turns)
    return Figure(svg, scale.width, top, tuple(placed), anchors)


def _lanes(story: Story, look: Look, scale: Scale) -> list[Lane]:
    user, agent = look.loudness.get("user", ()), look.loudness.get("agent", ())
    peak = max((*user, *agent), default=0.0)
    heard = [reply for reply in story.replies if reply.playing_s is not None]
    words, spoken = _user_rows(story.speech, scale), _agent_rows(heard, scale)
    label_rows = _label_rows(story.replies, scale)
    moment_rows = tuple((16 + 18.0 * i, name) for i, name in enumerate(MOMENTS))
    deepest = max((row for row in label_rows if row is not None), default=0)
    return [
        Lane("", "", 48, lambda y: axis(scale, y) + turn_heads(story.turns, scale, y + 24)),
        Lane("", "", 88, lambda y: moments(story.turns, scale, y), moment_rows),
        Lane("You", "your voice and words", _height(words), lambda y: _user(story.speech, words, scale, y, user, peak)),
        _probability("p_end", "chance you are done", story.p_end, look.theta_end, scale),
        _probability("p_deep", "chance you ask for something", story.p_deep, look.theta_deep, scale),
        Lane("State", "of the conversation", 44, lambda y: _states(story.bands, scale, y)),
        Lane(
            "Replies",
            "in the making, not heard yet",
            60 + ROW * deepest,
            lambda y: _replies(story.replies, label_rows, scale, y),
        ),
        Lane("PADS", "its voice and words", _height(spoken), lambda y: _agent(heard, spoken, scale, y, agent, peak)),
        Lane("", "", 26, lambda y: axis(scale, y)),
    ]


def _height(rows: Sequence[Sequence[str]]) -> float:
    return 56 + ROW * max((len(lines) for lines in rows), default=0)


# ---------------------------------------------------------------- the two voices


def _user_rows(speech: Sequence[Speech], scale: Scale) -> list[list[str]]:
    rows = []
    for here, until in zip(speech, _until([s.start_s for s in speech], scale), strict=True):
        words = here.words or (f"({here.ignored})" if here.ignored else "")
        rows.append(wrap(words, until - scale.x(here.start_s) - 8, TEXT, LABEL_ROWS))
    return rows


def _until(starts_s: Sequence[float], scale: Scale) -> list[float]:
    """Where the next one begins, in px."""
    return [*(scale.x(start_s) for start_s in starts_s[1:]), scale.width][: len(starts_s)]


def _user(
    speech: Sequence[Speech],
    words: Sequence[Sequence[str]],
    scale: Scale,
    y: float,
    loudness: Sequence[float],
    peak: float,
) -> str:
    parts = []
    for here, following, rows in zip(speech, [*speech[1:], None], words, strict=False):
        x1, x2 = scale.x(here.start_s), scale.x(here.end_s)
        counted = f" (ignored: {here.ignored})" if here.ignored else ""
        title = (
            f"You spoke from {here.start_s:.2f} to {here.end_s:.2f} s{counted}: {here.words or 'no words recognised'}"
        )
        kind = "speech off" if here.ignored else "speech quiet" if loudness else "speech"
        parts.append(titled(title, box(x1, y + 10, x2 - x1, 32, kind), *_texts(rows, x1, y)))
        if following and following.utterance == here.utterance:
            parts.append(_pause(x2, scale.x(following.start_s), following.start_s - here.end_s, y + 26))
    return "".join([*parts, _voice(loudness, peak, scale, y + 26, "wave user")])


def _texts(rows: Sequence[str], x: float, y: float) -> list[str]:
    return [label(x + 1, y + 58 + ROW * i, row, "words") for i, row in enumerate(rows)]


def _pause(x1: float, x2: float, pause_s: float, y: float) -> str:
    text = fit(f"{pause_s:.2f} s", x2 - x1, SMALL)
    shown = label((x1 + x2) / 2, y - 5, text, "small dim", "middle") if text and "…" not in text else ""
    return titled(f"a pause of {pause_s:.2f} s within the turn", line(x1, y, x2, y, "pause"), shown)


def _agent_rows(heard: Sequence[Reply], scale: Scale) -> list[list[str]]:
    rows = []
    for reply, until in zip(heard, _until([r.playing_s or 0.0 for r in heard], scale), strict=True):
        x1, x2 = scale.x(reply.playing_s or 0.0), scale.x(_played_s(reply, scale))
        lines = wrap(reply.said, min(until - x1 - 8, max(x2 - x1, 260)), TEXT, LABEL_ROWS)
        cut = [fit(f"interrupted: {reply.reason}", until - x1, SMALL)] if reply.reason else []
        rows.append(lines + cut)
    return rows


def _played_s(reply: Reply, scale: Scale) -> float:
    return scale.end_s if reply.played_s is None else reply.played_s


def _agent(
    heard: Sequence[Reply],
    spoken: Sequence[Sequence[str]],
    scale: Scale,
    y: float,
    loudness: Sequence[float],
    peak: float,
) -> str:
    parts = []
    for reply, rows in zip(heard, spoken, strict=True):
        start_s, end_s = reply.playing_s or 0.0, _played_s(reply, scale)
        x1, x2 = scale.x(start_s), scale.x(end_s)
        texts = _texts(rows, x1, y)
        title = f"PADS spoke from {start_s:.2f} to {end_s:.2f} s: {reply.said}"
        if reply.reason:
            title = f"{title} (interrupted: {reply.reason})"
            texts.append(line(x2, y + 4, x2, y + 48, "cut"))
        parts.append(titled(title, box(x1, y + 10, x2 - x1, 32, "said quiet" if loudness else "said"), *texts))
    return "".join([*parts, _voice(loudness, peak, scale, y + 26, "wave agent")])


def _voice(loudness: Sequence[float], peak: float, scale: Scale, y: float, class_: str) -> str:
    return loudness_path(loudness, peak, scale.x, scale.end_s, y, class_) if loudness and peak > 0 else ""


# ---------------------------------------------------------------- probabilities

_TOP, _SPAN = 12.0, 44.0


def _probability(name: str, hint: str, points: Sequence[Point], theta: float | None, scale: Scale) -> Lane:
    ticks = [] if theta is None else [(_TOP + _SPAN * (1 - theta), f"≥ {theta:.2f}")]
    for p in (0, 1):
        if theta is None or abs(p - theta) > 0.25:
            ticks.append((_TOP + _SPAN * (1 - p), str(p)))
    return Lane(
        name, hint, _TOP * 2 + _SPAN, lambda y: _curve(name, points, theta, scale, y + _TOP), tuple(sorted(ticks))
    )


def _curve(name: str, points: Sequence[Point], theta: float | None, scale: Scale, y: float) -> str:
    base = y + _SPAN
    parts = [line(0, base, scale.width, base, "base")]
    if theta is not None:
        at = base - _SPAN * theta
        parts.append(titled(f"threshold {theta:.2f}", line(0, at, scale.width, at, "theta")))
    if len(points) > DENSE_POINTS:
        path = "".join(f"M{num(scale.x(p.t_s))} {num(base)}V{num(base - _SPAN * p.p)}" for p in points)
        return "".join([*parts, tag("path", d=path, class_="stem")])
    for here, following in zip(points, [*points[1:], None], strict=False):
        x, at = scale.x(here.t_s), base - _SPAN * here.p
        reached = theta is not None and here.p >= theta
        shapes = [
            line(x, base, x, at, "stem"),
            tag("circle", cx=x, cy=at, r=3.5, class_="over" if reached else "under"),
        ]
        text = f"{here.p:.2f}"
        if following is None or scale.x(following.t_s) - x > width_of(text, SMALL) + 10:
            shapes.append(label(x + 6, at + 4, text, "small"))
        parts.append(titled(f"{name} {here.p:.3f} at {here.t_s:.2f} s, {here.note}", *shapes))
    return "".join(parts)


# ---------------------------------------------------------------- states and replies


def _states(bands: Sequence[Band], scale: Scale, y: float) -> str:
    known = {state.value for state in TurnState}
    parts = []
    for band in bands:
        x1, x2 = scale.x(band.start_s), scale.x(band.end_s)
        name = fit(band.state.upper(), x2 - x1 - 4, 12.5)  # capitals are wide
        if "…" in name:
            name = band.state[:1].upper() if x2 - x1 > 10 else ""
        kind = f"state {band.state}" if band.state in known else "state"
        title = f"{band.state} from {band.start_s:.2f} to {band.end_s:.2f} s"
        shown = label((x1 + x2) / 2, y + 25, name, "tiny", "middle") if name else ""
        parts.append(titled(title, box(x1, y + 9, x2 - x1 - 1, 24, kind), shown))
    return "".join(parts)


def _label_rows(replies: Sequence[Reply], scale: Scale) -> list[int | None]:
    spans = [(scale.x(reply.opened_s), reply_label(reply)) for reply in replies]
    return stack([(x, x + width_of(text, SMALL)) for x, text in spans], LABEL_ROWS, 10.0)


def _replies(replies: Sequence[Reply], rows: Sequence[int | None], scale: Scale, y: float) -> str:
    parts = []
    for reply, row in zip(replies, rows, strict=True):
        kind = "small no" if reply.thrown_away else "small"
        x = scale.x(reply.opened_s)
        shown = "" if row is None else label(x, y + 50 + ROW * row, reply_label(reply), kind)
        parts.append(titled(reply_title(reply), reply_bar(reply, scale.x, scale.end_s, y + 12), shown))
    return "".join(parts)
