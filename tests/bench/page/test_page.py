"""The report page: every figure with one tag and its run, nothing fetched, cut-off records shown as such."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.page import write
from bench.page.plots import bars, scatter
from bench.page.tables import figure
from bench.records.read import TAGS, read_runs
from pads_runtime.errors import InputError

OLD, NEW, TALK, CUT = (
    f"20261130T10120{i}Z-{name}" for i, name in enumerate(("bench-x", "bench-x", "demo", "bench-cut"))
)
STEP = {"name": "step", "unit": "ms", "n": 3, "p50": 8.4, "p95": 9.1, "note": "<b>bold</b>"}
MORE = [
    STEP | {"interval": {"low": 8.0, "high": 8.8, "method": "normal approximation"}},
    STEP | {"name": "far", "p50": 900.0, "p95": 950.0, "tag": "EXTRAPOLATED"},
    STEP | {"name": "none", "n": 0, "p50": None, "p95": None, "note": "no wheel"},
    {"detail": {"verdicts": [{"test": "memory", "answer": "NO-GO", "reasons": ["too much"], "kill_signal": "k"}]}},
    {"exits": "a", "mode": "greedy", "exit": 6, "acceptance": [0.5, 0.4, None]},
    {"protocol": {"breaches": [], "essentials": {"ttft_ms": 30.0, "energy_j": None, "notes": {"energy_j": "no RAPL"}}}},
]
TOTALS = {"turns": 8, "clock": "virtual", "gate": "and", "spec_wasted_tokens": 37, "dead_air_ms": {"p50": 670.0}}


def records(base: Path) -> Path:
    lines: dict[str, list[Any]] = {OLD: [STEP], NEW: MORE, TALK: [TOTALS, TOTALS | {"gate": "never"}], CUT: [STEP]}
    for name, rows in lines.items():
        folder = base / "runs" / name
        folder.mkdir(parents=True)
        settings = {"clock": {"kind": "virtual"}}
        manifest = {"name": name.partition("-")[2], "status": "finished", "settings": settings, "machine": {"cpu": "c"}}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (base / "runs" / CUT / "metrics.jsonl").write_text(json.dumps(STEP) + '\n{"name": "hal', encoding="utf-8")
    return base / "runs"


def page(base: Path, superseded: dict[str, str] | None = None) -> str:
    runs = records(base)
    out = base / "out" / "report.html"
    out.parent.mkdir()
    write(out, read_runs(runs), runs, superseded or {})
    return out.read_text(encoding="utf-8")


def rows_of(text: str) -> list[str]:
    return [row for row in re.findall(r"<tr>(.*?)</tr>", text) if "<td" in row]


def test_every_row_with_a_figure_has_one_tag_and_leads_to_its_run(tmp_path: Path) -> None:
    text = page(tmp_path)
    rows = [row for row in rows_of(text) if "<a href" in row]
    assert len(rows) >= 10
    for row in rows:
        assert len(re.findall(r'class="tag[^"]*">([^<]+)<', row)) == 1, row
        (link,) = re.findall(r'href="([^"]+)"', row)
        assert (tmp_path / "out" / link).is_dir()


def test_a_row_keeps_its_own_tag_and_a_replaced_run_is_superseded(tmp_path: Path) -> None:
    text = page(tmp_path, {OLD: NEW})
    assert "EXTRAPOLATED" in next(row for row in rows_of(text) if "far" in row)
    assert "SUPERSEDED" in next(row for row in rows_of(text) if OLD in row)
    assert "MEASURED dev-host" in next(row for row in rows_of(text) if "normal approximation" in row)
    assert "DESCRIPTIVE" in next(row for row in rows_of(text) if TALK in row)


def test_a_record_that_was_cut_off_is_shown_with_what_is_wrong(tmp_path: Path) -> None:
    assert "cut off" in next(row for row in rows_of(page(tmp_path)) if CUT in row and "finished" in row)


def test_nothing_is_fetched_nothing_runs_and_texts_are_escaped(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert "<b>bold</b>" not in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text


def test_the_page_is_well_formed(tmp_path: Path) -> None:
    open_: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, name: str, attrs: object) -> None:
            if name != "meta":
                open_.append(name)

        def handle_startendtag(self, name: str, attrs: object) -> None:
            pass

        def handle_endtag(self, name: str) -> None:
            assert open_.pop() == name

    Parser().feed(page(tmp_path))
    assert open_ == []


def test_same_records_same_page(tmp_path: Path) -> None:
    assert page(tmp_path / "a") == page(tmp_path / "b")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "none" / "x.html", read_runs(records(tmp_path)), tmp_path / "runs", {})


def test_figures_are_short_and_nothing_is_a_dash() -> None:
    assert [figure(v) for v in (8.4321, 1234.5, 12)] == ["8.43", "1234", "12"]
    assert {figure(v) for v in (None, float("nan"), True)} == {"\u2013"}


def test_plots_hold_every_row_and_say_which_is_no_measurement() -> None:
    drawing = bars([("a", 1.0, 2.0, TAGS[1]), ("b", 100.0, 200.0, "DESCRIPTIVE")], "ms", "x/")
    assert drawing.count('class="bar"') == 1
    assert drawing.count('class="bar other"') == 1
    assert bars([("a", 0.0, 0.0, "DESCRIPTIVE")], "ms", "x/") == ""
    assert scatter([(0.0, 0.0, "a", False, "x/"), (5.0, 9.0, "b", True, "y/")], "x", "y").count("<circle") == 2
