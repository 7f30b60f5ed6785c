"""The talk as one screen of a terminal: ``render`` makes it of what was seen; it decides nothing and keeps nothing.

Every meaning has a word or a mark beside its colour, so that it also reads without colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.layout import Layout
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..frames import TurnState
from .state import Line, Reply, Seen
from .words import gate, speaker

BAR_CELLS = 28
PANEL_LINES = 8
"""Height of the signals and of the figures, borders included."""
NARROW_CELLS = 84
"""Below this width signals and figures stand one above the other."""
LOW_LINES = 26
"""Below this height a narrow screen shows the signals and the foremost figures in one panel."""

USER, AGENT, UNSAID, DIM, WARN = "bold cyan", "bold magenta", "bright_black italic", "bright_black", "bold yellow"


@dataclass(frozen=True, slots=True)
class Vitals:
    """How the machine and the devices do; None where it is not known."""

    cpu_percent: float | None = None
    """Of the whole machine, 100 is all cores."""
    rss_mb: float | None = None
    overruns: int = 0
    """Times the microphone's sound came faster than it was taken."""
    underruns: int = 0
    """Times the speaker ran dry in mid-reply."""
    frames_dropped: int = 0
    lag_ms: float | None = None
    """How late the event loop ran lately, 99th percentile."""
    devices: str = ""
    trouble: str = ""
    """What is wrong with a device now, in one line."""


@dataclass(frozen=True, slots=True)
class Look:
    """What stays the same for a talk: the gate's thresholds, and whether keys are read."""

    theta_end: float = 0.5
    theta_deep: float = 0.5
    keys: bool = True


def render(seen: Seen, vitals: Vitals, look: Look, now_s: float, size: tuple[int, int]) -> Layout:
    """The screen at ``now_s`` on the session's clock for a terminal of ``size`` (columns, lines)."""
    width, height = size
    layout, below = Layout(), Layout()
    signals, figures = Layout(_signals(seen, look, width)), Layout(_figures(seen, vitals))
    if width >= NARROW_CELLS:
        below.size = PANEL_LINES
        below.split_row(signals, figures)
    elif height >= LOW_LINES:
        below.size = 2 * PANEL_LINES
        below.split_column(signals, figures)
    else:
        below.size = PANEL_LINES
        below.update(_compact(seen, vitals, look, width))
    talk = Panel(_Tail(_talk(seen, now_s)), border_style=DIM, padding=(0, 1))
    layout.split_column(
        Layout(_head(seen, now_s), size=1), Layout(talk, minimum_size=3), below, Layout(_foot(seen, look), size=1)
    )
    return layout


# ---------------------------------------------------------------- who speaks


def _style(seen: Seen) -> str:
    if seen.ended:
        return DIM
    if seen.speaking or seen.state is TurnState.PAUSED:
        return USER
    return AGENT if seen.state is TurnState.RESPONDING else DIM


def _head(seen: Seen, now_s: float) -> Table:
    words, style = speaker(seen), _style(seen)
    mark = "●" if seen.speaking or (seen.reply is not None and seen.reply.playing) else "○"
    left = Text.assemble((f" {mark} ", style), (words, style))
    if seen.muted:
        left.append("   MICROPHONE MUTED", WARN)
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    head.add_row(left, Text(f"turn {seen.turn}   {clock(now_s)} ", DIM))
    return head


def clock(t_s: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, seconds = divmod(max(0, int(t_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


# ---------------------------------------------------------------- the talk


def _talk(seen: Seen, now_s: float) -> Group:
    rows: list[Padding | Table | Text] = []
    for i, line in enumerate(seen.said):
        if i and line.turn != seen.said[i - 1].turn:
            rows.append(Text())
        rows.append(_row(line.who, _line(line)))
    if rows and (seen.stable or seen.unstable or seen.reply):
        rows.append(Text())
    if seen.stable or seen.unstable:
        words = Text.assemble((seen.stable, "bold"), " " if seen.stable else "", (seen.unstable, UNSAID))
        rows.append(_row("user", words.append(" …" if seen.speaking else "", DIM)))
    if seen.reply is not None:
        rows += _reply(seen.reply, now_s)
    return Group(*(rows or [Text("Say something.", DIM)]))


def _line(line: Line) -> Text:
    return Text.assemble(line.text, (f"  ({line.note})" if line.note else "", DIM))


def _reply(reply: Reply, now_s: float) -> Iterator[Padding | Table]:
    """A reply on its way: what has begun to sound, and apart from it what has not."""
    begun = [p for p in reply.phrases if p.starts_s is not None and p.starts_s <= now_s]
    if begun:
        said = Text()
        for phrase in begun:
            said.append(f"{phrase.text} ", "" if phrase.ends_s <= now_s else "bold")
        yield _row("agent", said)
    waiting = reply.waiting_text(now_s)
    if waiting or not begun:
        label = "to come: " if reply.committed else "prepared, not said: "
        yield _row("" if begun else "agent", Text.assemble((label, DIM), (waiting or "…", UNSAID)))


def _row(who: str, text: Text) -> Table:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=5, no_wrap=True)
    row.add_column(overflow="fold")
    name, style = {"user": ("you", USER), "agent": ("PADS", AGENT)}.get(who, ("", ""))
    row.add_row(Text(name, style), text)
    return row


class _Tail:
    """Shows the end of what does not fit."""

    def __init__(self, content: Group) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or options.max_height
        lines = console.render_lines(self._content, options.update(height=None), pad=True)
        for line in lines[-height:]:
            yield from line
            yield Segment.line()


# ---------------------------------------------------------------- signals and figures


def _signals(seen: Seen, look: Look, width: int) -> Panel:
    bars = _bars(seen, look, width if width < NARROW_CELLS else width // 2)
    rows: list[Table | Text] = [bars, Text(), _gate(seen), *_notices(seen)]
    return _panel("signals", Group(*rows))


def _panel(title: str, content: Group | Table) -> Panel:
    return Panel(content, title=title, title_align="left", border_style=DIM, padding=(0, 1))


def _bars(seen: Seen, look: Look, width: int) -> Table:
    cells = min(BAR_CELLS, max(8, width - 29))
    grid = Table.grid(padding=(0, 1, 0, 0))
    for style in ("", DIM, ""):
        grid.add_column(no_wrap=True, style=style)
    grid.add_row("turn ends", "p_end", bar(seen.p_end, look.theta_end, cells))
    grid.add_row("a question", "p_deep", bar(seen.p_deep, look.theta_deep, cells))
    return grid


def _gate(seen: Seen) -> Text:
    return Text.assemble(("gate  ", DIM), (gate(seen), "bold"))


def _compact(seen: Seen, vitals: Vitals, look: Look, width: int) -> Panel:
    last, trouble = seen.last, vitals.trouble or (seen.notices[-1].text if seen.notices else "")
    waits = Text("last answer  -", DIM)
    if last is not None:
        waits = Text(f"model {_ms(last.post_confirm_ttft_ms)}, silence {_ms(last.dead_air_ms)}")
        waits = Text.assemble(("last answer  ", DIM), waits, " (prepared)" if last.prepared else "")
    sound = Text.assemble((f"{_or(vitals.cpu_percent, '.0f', ' %')} CPU, ", DIM), _sound(vitals))
    warning = Text(trouble, WARN, overflow="ellipsis", no_wrap=True)
    return _panel("signals and figures", Group(_bars(seen, look, width), _gate(seen), waits, sound, warning))


def bar(p: float | None, theta: float, cells: int) -> Text:
    """A probability as a bar with its threshold in it; open where there is none."""
    tick = min(cells - 1, int(theta * cells))
    full = 0 if p is None else round(min(1.0, max(0.0, p)) * cells)
    style = DIM if p is None else "bold green" if p >= theta else "green"
    text = Text()
    for i in range(cells):
        if i == tick:
            text.append("┃", "bold")
        else:
            text.append("━" if i < full else "─", style if i < full else DIM)
    return text.append(f" {'   -' if p is None else f'{p:.2f}'}", "bold" if p is not None and p >= theta else DIM)


def _notices(seen: Seen) -> Iterator[Text]:
    for notice in seen.notices[-2:]:
        yield Text(f"{clock(notice.t_s)} {notice.text}", WARN, overflow="ellipsis", no_wrap=True)


def _figures(seen: Seen, vitals: Vitals) -> Panel:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style=DIM, min_width=11)
    grid.add_column(overflow="ellipsis", no_wrap=True)
    last, counts = seen.last, seen.counts
    if last is None:
        grid.add_row("last answer", Text("none yet", DIM))
        grid.add_row("  waited for", Text("-", DIM))
    else:
        how = "prepared in the pause" if last.prepared else "made after the turn"
        grid.add_row("last answer", f"turn {last.turn}, {how}")
        waits = f"model {_ms(last.post_confirm_ttft_ms)}, silence {_ms(last.dead_air_ms)}"
        grid.add_row("  waited for", Text(waits, "bold"))
    grid.add_row("prepared", f"{counts.committed} of {counts.prepared} used, {counts.wasted_tokens} tokens in vain")
    lag = "" if vitals.lag_ms is None else f", loop {vitals.lag_ms:.0f} ms late"
    grid.add_row("machine", f"{_or(vitals.cpu_percent, '.0f', ' %')} CPU, {_or(vitals.rss_mb, '.0f', ' MB')}{lag}")
    grid.add_row("sound", _sound(vitals))
    grid.add_row("devices", Text(vitals.trouble, WARN) if vitals.trouble else Text(vitals.devices or "-"))
    return _panel("figures", grid)


def _sound(vitals: Vitals) -> Text:
    lost = vitals.overruns + vitals.underruns + vitals.frames_dropped
    words = f"{vitals.overruns} overruns, {vitals.underruns} gaps, {vitals.frames_dropped} lost"
    return Text(words, WARN if lost else "")


def _ms(value: float | None) -> str:
    return _or(value, ".0f", " ms")


def _or(value: float | None, form: str, unit: str) -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


def _foot(seen: Seen, look: Look) -> Text:
    if not look.keys:
        return Text(" Ctrl-C ends the talk", DIM)
    keys = (("m", "unmute" if seen.muted else "mute"), ("space", "stop"), ("r", "repeat"), ("q", "quit"))
    return Text.assemble(*(part for key, what in keys for part in ((f" {key} ", "reverse"), (f" {what}  ", DIM))))
