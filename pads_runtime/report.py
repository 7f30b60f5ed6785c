"""Tables for people: what a talk did, in words a newcomer understands."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .talks import Talk

ROWS = 40
"""Of a longer talk the last turns are shown."""


def talk(console: Console, done: Talk) -> None:
    """One talk: a row a turn, and what it means."""
    summary = done.summary
    table = Table(title=f"what happened ({summary['clock']} clock, gate: {summary['gate']})")
    for name, justify in (("turn", "right"), ("you said", "left"), ("PADS answered", "left"), ("reply was", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("wait for the model\nafter the turn's end, ms", justify="right")
    table.add_column("silence before\nthe answer, ms", justify="right")
    if len(summary["per_turn"]) > ROWS:
        table.caption = (
            f"the last {ROWS} of {len(summary['per_turn'])} turns; all are in {done.folder / 'metrics.jsonl'}"
        )
    for row in summary["per_turn"][-ROWS:]:
        table.add_row(
            str(row["turn"]),
            Text(row["user"]),  # words, whatever marks are in them
            Text(row["agent"]),
            _became(row),
            _ms(row["post_confirm_ttft_ms"]),
            _ms(row["dead_air_ms"]),
        )
    console.print(table)
    _say(
        console,
        f"{summary['turns']} turns answered; {summary['prepared']} replies prepared in pauses: "
        f"{summary['committed']} used, {summary['discarded']} thrown away unheard "
        f"({summary['spec_wasted_tokens']} tokens of work).",
    )
    for key, words in (("post_confirm_ttft_ms", "wait for the model"), ("dead_air_ms", "silence before the answer")):
        spread = summary[key]
        if spread is not None:
            _say(console, f"{words}: median {spread['p50']:.0f} ms, 95 % under {spread['p95']:.0f} ms")
    if (done.folder / "conversation.wav").exists():  # a live talk's sound is kept only if asked for
        _say(console, f"listen: {done.folder / 'conversation.wav'}  (left: user, right: PADS)")
    _say(console, f"look:   {done.folder / 'timeline.html'}")


def compared(with_: dict[str, Any], without: dict[str, Any]) -> dict[str, Any]:
    """Both summaries and whether every reply was the same, turn by turn."""
    return {"speculation": with_, "plain": without, "identical_replies": _served(with_) == _served(without)}


def comparison(console: Console, with_: Talk, without: Talk) -> None:
    """The same talk with and without speculation."""
    both = compared(with_.summary, without.summary)
    table = Table(title="the same talk, with and without preparing replies in pauses")
    for name in ("", "prepared in pauses", "plain"):
        table.add_column(name, justify="right" if name else "left")
    rows: list[tuple[str, str]] = [
        ("post_confirm_ttft_ms", "wait for the model after the turn's end, ms"),
        ("dead_air_ms", "silence before the answer, ms"),
    ]
    for key, words in rows:
        for q in ("p50", "p95"):
            cells = [_ms((talk.summary[key] or {}).get(q)) for talk in (with_, without)]
            table.add_row(f"{words}, {q}", *cells)
    for key in ("turns", "prepared", "committed", "discarded", "spec_wasted_tokens", "false_cutoffs"):
        table.add_row(key.replace("_", " "), *(str(talk.summary[key]) for talk in (with_, without)))
    console.print(table)
    same = "word for word the same" if both["identical_replies"] else "NOT the same: please report this"
    _say(console, f"The replies are {same}.")
    for done in (with_, without):
        _say(console, f"look: {done.folder / 'timeline.html'}")


def _say(console: Console, line: str) -> None:
    """A line as it is: no markup in it, and a path stays in one piece, so that it can be clicked or copied."""
    console.print(Text(line), soft_wrap=True)


def _served(summary: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(row["turn"], row["user"], row["agent"]) for row in summary["per_turn"] if row["agent"]]


def _became(row: dict[str, Any]) -> str:
    words = []
    if row["discarded"]:
        words.append(f"prepared and thrown away {row['discarded']}x")
    words.append("prepared in the pause" if row["committed"] else "made after the turn" if row["agent"] else "none")
    if row["interrupted"]:
        words.append("interrupted")
    if row.get("approximate"):
        words.append("approximate (served at an exit)")
    return ", then ".join(words)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
