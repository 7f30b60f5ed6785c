"""The page: what was run, the figures of each benchmark's latest record, talks, verdicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pads_runtime.timeline.look import STYLE
from pads_runtime.timeline.svg import esc, tag

from ..records.read import DEV_HOST, SUPERSEDED, TAGS, TARGET, Run
from .plots import bars, scatter
from .tables import Cell, figure, generic_rows, is_measurement, is_talk, table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
MORE_STYLE = """
table{min-width:520px}.tag{display:inline-block;font-size:.7rem;font-weight:650;padding:1px 7px;border-radius:9px;
white-space:nowrap;background:var(--idle)}.tag.fine{background:var(--ok-pale);color:var(--ok)}
.tag.gone{background:var(--no-pale);color:var(--no)}td.n{font-variant-numeric:tabular-nums}
figure{margin:0 0 14px;background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:8px 12px;
overflow-x:auto}figcaption{color:var(--dim);font-size:.82rem}section{margin-bottom:26px}td{font-size:.86rem}td.line{white-space:nowrap}
summary{cursor:pointer;padding:6px 0;color:var(--dim)}
.bar{fill:var(--user)}.bar.other{fill:none;stroke:var(--user);stroke-dasharray:3 2}.whisker{stroke:var(--ink)}
.dot{fill:var(--user);stroke:var(--card)}.dot.never{fill:var(--agent)}
"""
MEANING = {
    TARGET: "made on the target laptop",
    DEV_HOST: "made on the machine the software is developed on",
    "EXTRAPOLATED": "carried over from a measurement, by the rule in the note",
    "DESCRIPTIVE": "what happened; no claim about a machine (declared costs, a busy machine, an unfinished run)",
    SUPERSEDED: "replaced by a later run",
}


class Tags:
    """The one tag of each run, and how it and its run are shown."""

    def __init__(self, links: Mapping[str, str], superseded: Mapping[str, str]) -> None:
        self._links, self._superseded = links, superseded

    def of(self, run: Run, own: str = "") -> str:
        """A row's own tag goes before its run's; a run that was replaced is that and nothing else."""
        if run.name in self._superseded:
            return SUPERSEDED
        return own if own in TAGS else run.tag

    def shown(self, run: Run, own: str = "") -> Cell:
        """The tag as a pill."""
        kind = self.of(run, own)
        look = "fine" if kind in (TARGET, DEV_HOST) else "gone" if kind == SUPERSEDED else ""
        return Cell(tag("span", esc(kind), class_=f"tag {look}".strip()), markup=True)

    def link(self, run: Run, whole: bool = False) -> Cell:
        """The run's time, or its whole name, leading to its folder."""
        shown = run.name if whole else run.name.partition("-")[0]
        return Cell(tag("a", esc(shown), href=self._links[run.name], title=run.name), markup=True)

    def href(self, run: Run) -> str:
        """Where the run's folder is, as seen from the page."""
        return self._links[run.name]


def document(runs: Sequence[Run], links: Mapping[str, str], superseded: Mapping[str, str]) -> str:
    """The whole page."""
    tags = Tags(links, superseded)
    latest = _latest(runs, superseded)
    body = [_intro(runs)]
    body += [_benchmark(run, tags) for run in latest if str(run.manifest.get("name")).startswith("bench-")]
    body += [_talks(runs, tags), _all(runs, tags)]
    head = (
        '<meta charset="utf-8"/>'
        + tag("meta", http_equiv="Content-Security-Policy", content_=POLICY)
        + '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        + f"<title>PADS: what was measured</title><style>{STYLE}{MORE_STYLE}</style>"
    )
    text = "".join(body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>{text}</main></body></html>\n'


def _latest(runs: Sequence[Run], superseded: Mapping[str, str]) -> list[Run]:
    """The latest record with figures of each benchmark, a finished one if there is any."""
    found: dict[str, Run] = {}
    for run in runs:
        name = str(run.manifest.get("name"))
        finished = run.manifest.get("status") == "finished" and run.name not in superseded
        if run.figures and (finished or name not in found or found[name].manifest.get("status") != "finished"):
            found[name] = run
    return sorted(found.values(), key=lambda run: (not any(map(is_measurement, run.figures)), run.manifest.get("name")))


def _intro(runs: Sequence[Run]) -> str:
    rows = [[Cell(tag("span", esc(kind), class_="tag"), markup=True), Cell(MEANING[kind])] for kind in TAGS]
    count = f"{len(runs)} run records. Every figure has one tag, and its run leads to the record it stands in."
    legend = table(("tag", "means"), rows, "")
    return tag("h1", "PADS: what was measured") + tag("p", esc(count), class_="dim") + legend


def _benchmark(run: Run, tags: Tags) -> str:
    name = str(run.manifest.get("name", run.name)).removeprefix("bench-")
    parts = [tag("h2", esc(name)), _how(run, tags)]
    measured = [row for row in run.figures if is_measurement(row)]
    if measured:
        drawn = [(row["name"], row["p50"], row["p95"], tags.of(run, row.get("tag", ""))) for row in measured]
        for unit in dict.fromkeys(row["unit"] for row in measured):
            some = [d for d, row in zip(drawn, measured, strict=True) if row["unit"] == unit and row["p50"]]
            if unit in ("ms", "tokens/s", "x") and len(some) > 1:
                parts.append(bars(some, unit, tags.href(run)))
        parts.append(_measurements(run, measured, tags))
    for row in run.figures:
        detail = row.get("detail")
        if isinstance(detail, Mapping) and isinstance(detail.get("verdicts"), list):
            parts.append(_verdicts(run, detail["verdicts"], tags))
    others = [row for row in run.figures if not is_measurement(row) and "detail" not in row]
    headings, cells = generic_rows(others)
    if cells:
        rows = [[*line, tags.shown(run), tags.link(run)] for line in cells]
        shown = table((*headings, "tag", "run"), rows, "value [low, high] where an interval was kept")
        parts.append(tag("details", tag("summary", f"{len(rows)} rows of {esc(name)}") + shown))
    return tag("section", "".join(parts))


def _how(run: Run, tags: Tags) -> str:
    machine = run.manifest.get("machine") or {}
    told = [f"{machine.get('cpu', 'unknown processor')}, {machine.get('cores', '?')} cores"]
    told += [f"{run.tag}: {run.why}"] if run.why else []
    essentials = run.protocol.get("essentials")
    if isinstance(essentials, Mapping):
        notes = essentials.get("notes") or {}
        for key in ("ttft_ms", "tokens_per_s", "peak_rss_mb", "acceptance", "energy_j"):
            value = essentials.get(key)
            told.append(f"{key} {figure(value)}" if value is not None else f"{key}: none ({notes.get(key, '?')})")
    text = tag("span", esc("; ".join(told) + " "), class_="dim")
    return tag("p", text + tags.shown(run).text + " " + tags.link(run, whole=True).text, class_="wide")


def _measurements(run: Run, rows: Sequence[Mapping[str, Any]], tags: Tags) -> str:
    cells = []
    for row in rows:
        interval = row.get("interval") or {}
        bounds = f"{figure(interval.get('low'))} to {figure(interval.get('high'))}" if interval else ""
        cells.append(
            [
                Cell(str(row["name"]).replace("_", " ")),
                Cell(figure(row["p50"]), number=True),
                Cell(figure(row["p95"]), number=True),
                Cell(str(row["unit"])),
                Cell(str(row["n"]), number=True),
                Cell(bounds, title=str(interval.get("method", "")), number=True),
                Cell(str(row.get("note", ""))),
                tags.shown(run, row.get("tag", "")),
                tags.link(run),
            ]
        )
    headings = ("what", "median", "95 % under", "unit", "n", "interval", "note", "tag", "run")
    return table(headings, cells, "intervals: point at one for its method")


def _verdicts(run: Run, verdicts: Sequence[Mapping[str, Any]], tags: Tags) -> str:
    rows = [
        [
            Cell(str(v.get("test"))),
            Cell(str(v.get("answer"))),
            Cell("; ".join(map(str, v.get("reasons") or []))),
            Cell(str(v.get("kill_signal"))),
            tags.shown(run),
            tags.link(run),
        ]
        for v in verdicts
    ]
    return table(("test", "verdict", "why", "would be NO-GO if", "tag", "run"), rows, "go or no-go")


def _talks(runs: Sequence[Run], tags: Tags) -> str:
    rows, dots = [], []
    for run in runs:
        for row in run.figures:
            if not is_talk(row):
                continue
            air, wait = _p50(row.get("dead_air_ms")), _p50(row.get("post_confirm_ttft_ms"))
            wasted = row.get("spec_wasted_tokens")
            gate, clock = str(row.get("gate")), str(row.get("clock"))
            texts = [Cell(run.name.partition("-")[2]), Cell(clock), Cell(gate)]
            numbers = (row.get("turns"), wait, air, row.get("spec_hit_rate"), wasted, row.get("peak_rss_mb"))
            cells = [Cell(figure(value), number=True) for value in numbers]
            rows.append([*texts, *cells, tags.shown(run), tags.link(run)])
            if air is not None and isinstance(wasted, int | float):
                told = f"{run.name}: {clock} clock, gate {gate}, {tags.of(run)}"
                dots.append((float(wasted), air, told, gate == "never", tags.href(run)))
    if not rows:
        return ""
    headings: tuple[str, ...] = ("talk", "clock", "gate", "turns", "wait for the model, ms", "dead air, ms")
    headings += ("hit rate", "wasted tokens", "peak MB", "tag", "run")
    plot = scatter(dots, "wasted tokens", "dead air, ms") if len(dots) > 1 else ""
    return tag("section", tag("h2", "talks") + plot + table(headings, rows, "medians over the turns of a talk"))


def _all(runs: Sequence[Run], tags: Tags) -> str:
    rows = []
    for run in runs:
        texts = [str(run.manifest.get(key, "")) for key in ("began_utc", "status")]
        rows.append([*map(Cell, texts), Cell(run.why), tags.shown(run), tags.link(run, whole=True)])
    headings = ("began", "status", "why no measurement", "tag", "run")
    return tag(
        "section", tag("h2", "all records") + table(headings, rows, "cut-off records are read as far as they go")
    )


def _p50(value: Any) -> float | None:
    found = value.get("p50") if isinstance(value, Mapping) else None
    return float(found) if isinstance(found, int | float) else None
