"""Which numbers are claims, and what is found of planted faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.records.check import main
from bench.records.claims import claims, faults
from pads_runtime.config import ROOT

RUN, OLD, TALK, LAPTOP = (
    f"20261130T10120{i}Z-{name}" for i, name in enumerate(("bench-x", "bench-y", "demo", "bench-z"))
)
EVIDENCE: dict[str, dict[str, Any]] = {
    RUN: {"tag": "MEASURED dev-host", "reportable_as_target_hardware": False},
    OLD: {"tag": "SUPERSEDED", "reportable_as_target_hardware": False, "superseded_by": RUN},
    TALK: {"tag": "DESCRIPTIVE", "reportable_as_target_hardware": False, "why_no_measurement": "virtual clock"},
    LAPTOP: {"tag": "MEASURED target", "reportable_as_target_hardware": True},
}
DEV = f"[MEASURED dev-host: run `{RUN}`]"


def told(text: str, published: bool = True) -> list[str]:
    return [fault.told for fault in faults(text, EVIDENCE, published)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a step takes 8.4 ms and 69 / 144 / 245 ms", ["8.4 ms", "69 / 144 / 245 ms"]),
        ("31 tokens/s, 12 GB/s, 625 MB, 1.8x, 40 %, 3 J", ["31 tokens/s", "12 GB/s", "625 MB", "1.8x", "40 %", "3 J"]),
        ("an AUC of 0.93 [0.87, 0.98]", ["0.93", "0.87", "0.98"]),
        ("Python 3.11, llama.cpp 0.3.36, arXiv 2404.16710, in 2026, issue 7, 171 meetings, 2 cores", []),
        ("`20 ms` frames in code, [a page](https://x.org/1.5 ms)", []),
        ("135 million parameters, GPL-3.0, 30 layers, 8 replies", []),
    ],
)
def test_a_claim_is_a_quantity_with_a_unit_or_a_decimal_share(text: str, found: list[str]) -> None:
    assert claims(text) == found


def test_a_planted_untagged_number_is_found_with_its_line() -> None:
    (fault,) = faults("# Title\n\nfine\n\nNow it takes 12 ms.\n", EVIDENCE)
    assert (fault.line, fault.told) == (5, "'12 ms' carries no tag")


@pytest.mark.parametrize(
    "text",
    [
        f"It takes 12 ms and 40 MB. {DEV}",
        f"{DEV} It takes 12 ms.",
        f"## Figures {DEV}\n\nIt takes 12 ms.\n\n- and 3 ms\n",
        f"Measured. {DEV}\n\n| what | ms |\n|---|---|\n| x | 1.5 |\n",
        f"| what | ms |\n|---|---|\n| x | 1.5 {DEV} |\n",
        "```\n12 ms\n```\n",
        "Fetches 200 MB. <!-- given: 200 MB -->",
    ],
)
def test_a_tag_covers_its_block_its_table_or_its_section(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"One takes 1 ms. {DEV}\n\nAnother takes 2 ms.", ["'2 ms' carries no tag"]),
        (f"## A {DEV}\n\n1 ms\n\n## B\n\n2 ms", ["'2 ms' carries no tag"]),
        (f"- 1 ms {DEV}\n- 2 ms", ["'2 ms' carries no tag"]),
        ("Fetches much. <!-- given: 200 MB -->", ["given '200 MB' stands nowhere"]),
        ("It takes 1 ms. [MEASURED dev-host]", ["[MEASURED dev-host] names no run"]),
        ("## Figures [MEASURED dev-host]\n\n1 ms", ["[MEASURED dev-host] names no run"]),
        (f"It takes 1 ms. [MEASURED dev-host, EXTRAPOLATED: `{RUN}`]", ["second tag"]),
        ("1 ms [DESCRIPTIVE: run `20990101T000000Z-bench-none`]", ["no evidence of run 20990101T000000Z-bench-none"]),
        (f"1 ms [MEASURED target: run `{RUN}`]", ["was not made on the target"]),
        (f"1 ms [MEASURED dev-host: run `{TALK}`]", ["is DESCRIPTIVE (virtual clock)"]),
        (f"1 ms [MEASURED dev-host: run `{OLD}`]", [f"superseded by {RUN}"]),
    ],
)
def test_what_does_not_hold_is_found(text: str, found: list[str]) -> None:
    got = told(text)
    assert len(got) == len(found)
    assert [want for want, line in zip(found, got, strict=True) if want not in line] == []


def test_tags_that_hold_are_not_found() -> None:
    text = f"1 ms [MEASURED target: `{LAPTOP}`]\n\n2 ms [SUPERSEDED: `{OLD}`]\n\n3 ms [DESCRIPTIVE: `{TALK}`]"
    assert told(text) == []
    assert told("1 ms [EXTRAPOLATED]", published=False) == []


def test_the_check_fails_on_a_planted_number_and_passes_without(tmp_path: Path) -> None:
    (tmp_path / "bench" / "evidence").mkdir(parents=True)
    for name in ("README.md", "bench/RESULTS.md", "bench/README.md"):
        (tmp_path / name).write_text("nothing is claimed\n", encoding="utf-8")
    assert main(tmp_path) == 0
    (tmp_path / "bench/RESULTS.md").write_text("It takes 12 ms.\n", encoding="utf-8")
    assert main(tmp_path) == 1
    (tmp_path / "bench/RESULTS.md").unlink()
    assert main(tmp_path) == 1


def test_the_script_of_the_check_runs_and_names_what_it_finds() -> None:
    script = ROOT / "scripts" / "check.d" / "numbers"
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run([str(script)], cwd=ROOT, env=path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == (done.stderr == "")


def test_a_description_of_a_method_may_state_its_settings_outside_tables() -> None:
    text = f"Asked every 0.1 s.\n\n| x | ms |\n|---|---|\n| a | 1.5 |\n\n2 ms [MEASURED target: `{RUN}`]\n"
    assert len(told(text, published=False)) == 2
