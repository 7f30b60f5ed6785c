"""Accepted drafts counted from an exit's guesses, on plain numbers, and the whole benchmark on the embedded model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.acceptance import pytorch
from bench.acceptance.cli import parse_exits, parse_models
from bench.acceptance.counts import Drafted, Line, drafted
from bench.acceptance.looks import Looked, case_seed, nats
from bench.acceptance.tables import Kind, agreement, cell, gain, losses_of, torch_summary
from pads_runtime.config import ROOT
from pads_runtime.errors import InputError, UsageError

AMI = ROOT.parent / "shared" / "data" / "ami_nxt" / "ami_manual_nxt.tar.xz"


def line(hits: str, ends: str = "", may_serve: int = 100) -> Line:
    """``hits``: x where the guess is right, . where not; ``ends``: e where the guess would end the reply."""
    ends = ends.ljust(len(hits), ".")
    return Line(np.array([c == "x" for c in hits], bool), np.array([c == "e" for c in ends], bool), may_serve)


@pytest.mark.parametrize(
    ("hits", "draft_len", "expected"),
    [
        ("....", 2, Drafted(8, 0, 4)),  # nothing is accepted: each round serves the model's own token
        ("xxxx", 2, Drafted(4, 3, 2)),  # 2 accepted and the model's; then 1 known position, 2 drafts
        ("x.x.x.", 1, Drafted(3, 3, 3)),
        ("x.x.x.", 4, Drafted(12, 3, 3)),
        ("xxx.xx.", 3, Drafted(6, 5, 2)),
        ("", 3, Drafted(0, 0, 0)),
    ],
)
def test_a_round_serves_its_hits_up_to_the_first_miss_and_one_token_more(
    hits: str, draft_len: int, expected: Drafted
) -> None:
    assert drafted(line(hits), draft_len) == expected


def test_nothing_is_drafted_after_a_guess_that_ends_the_reply() -> None:
    assert drafted(line("xx", ".e"), 6) == Drafted(2, 2, 1)  # the right end
    assert drafted(line("x.xx", ".e.e"), 6) == Drafted(2 + 2, 3, 2)  # a wrong end, then a round to the right one
    assert drafted(line("..", "e."), 1) == Drafted(2, 0, 2)


def test_near_the_cap_less_is_drafted_and_the_last_token_is_not() -> None:
    assert drafted(line("xxxx", may_serve=5), 6) == Drafted(4, 4, 1)
    assert drafted(line("....", may_serve=4), 6) == Drafted(3 + 2 + 1, 0, 3)


def test_rounds_of_a_simulated_engine_come_to_the_same() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        hits, draft_len = rng.random(rng.integers(1, 40)) < 0.6, int(rng.integers(1, 9))
        one = Line(hits, np.zeros(len(hits), bool), 10_000)
        served = accepted = rounds = 0
        while served < len(hits):
            run = 0
            while run < draft_len and served + run < len(hits) and hits[served + run]:
                run += 1
            accepted, rounds, served = accepted + run, rounds + 1, served + run + 1
        assert drafted(one, draft_len) == Drafted(rounds * draft_len, accepted, rounds)


def kind(name: str, hits: list[str], torch: list[str] | None = None) -> Kind:
    def looked(text: str) -> Looked:
        right = np.array([c == "x" for c in text])
        return Looked(
            np.ones(len(text), np.int64), np.where(right, 1, 2)[None], *np.zeros((2, 1, len(text)), np.float32)
        )

    return Kind(name, "greedy", (15,), [looked(h) for h in hits], None if torch is None else [looked(h) for h in torch])


class NeverEnds:
    def ends_reply(self, token: int) -> bool:
        return False


def rows_of(one: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    return cell(one, 0, 2, NeverEnds(), 128), agreement(one, 0)  # type: ignore[arg-type]


def test_a_cell_holds_counts_share_and_what_pytorch_found() -> None:
    row, agreed = rows_of(kind("m, translators", ["xx.", "..."], ["x..", "..."]))
    assert (row["drafted"], row["accepted"], row["pytorch"]) == (8, 2, round(1 / 10, 4))
    assert row["acceptance"][0] == 0.25
    assert row["acceptance"][1] <= 0.25 <= row["acceptance"][2]
    assert agreed["agreement"][0] == round(2 / 6, 4)
    assert agreed["same_choice"] == 1.0


def test_the_gain_of_translators_is_paired_and_held_against_three_times() -> None:
    bare, bare_agreed = rows_of(kind("m, bare exits", ["x...", "x..."]))
    much, much_agreed = rows_of(kind("m, translators", ["xxxx", "xxxx"]))
    little, little_agreed = rows_of(kind("m, translators", ["xx..", "xx.."]))
    for rows, agreed, within in (
        ([bare, much], [bare_agreed, much_agreed], True),
        ([bare, little], [bare_agreed, little_agreed], False),
    ):
        found = next(g for g in gain(rows, agreed) if g["what"] == "agreement")
        assert found["within"] is within
        assert found["times"][1] == found["times"][2] == found["times"][0]  # every item gains alike
    assert gain([bare], [bare_agreed]) == []


def test_the_change_of_the_loss_has_its_sign_and_is_paired_by_item() -> None:
    before = [(30.0, 10), (60.0, 20), (10.0, 5)]
    after = [(31.0, 10), (62.0, 20), (10.5, 5)]
    first, second = losses_of({"before": before, "after": after})
    assert "change" not in first
    assert first["nats_per_token"][0] == round(100 / 35, 4)
    value, low, high = second["change"]
    assert value == pytest.approx(3.5 / 35, abs=1e-4)
    assert low == pytest.approx(high, abs=1e-3) == pytest.approx(0.1, abs=1e-3)  # far narrower than the loss's own


def test_the_largest_difference_to_pytorch_decides() -> None:
    pairs = [rows_of(kind("m", ["xxxx...."] * 4, [torch] * 4)) for torch in ("xxxx....", "xx......")]
    same = torch_summary([pairs[0][0]], [pairs[0][1]], None)
    apart = torch_summary([pair[0] for pair in pairs], [pair[1] for pair in pairs], None)
    assert (same["largest_difference"], same["within"]) == (0.0, True)
    assert apart["largest_difference"] > 0.03
    assert not apart["within"]
    assert torch_summary([], [], pytorch.MISSING) == {"not_measured": f"NOT MEASURED: {pytorch.MISSING}"}


def test_without_pytorch_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert pytorch.missing() == "PyTorch is not installed: ./scripts/setup --training"


def test_the_loss_of_a_token_is_minus_the_logarithm_of_its_probability() -> None:
    logits = (np.log([0.5, 0.25, 0.25]) + 7.0).astype(np.float32)
    assert nats(logits, 1) == pytest.approx(np.log(4.0), rel=1e-5)


def test_no_two_replies_draw_the_same_numbers() -> None:
    assert len({case_seed(seed, number) for seed in (1, 2, 42) for number in range(1, 41)}) == 120


def test_models_are_named_and_must_exist(tmp_path: Path) -> None:
    file = tmp_path / "other.gguf"
    file.write_bytes(b"GGUF")
    assert parse_models([f"lora={file}", str(file)]) == {"lora": file, "other": file}
    with pytest.raises(UsageError, match="a name of its own"):
        parse_models([f"lora={file}", f"lora={file}"])
    with pytest.raises(InputError, match="there is no file"):
        parse_models(["lora=missing.gguf"])


def test_exits_are_numbers_with_commas_between() -> None:
    assert parse_exits("20,6,6") == (6, 20)
    assert parse_exits("") == ()
    with pytest.raises(UsageError, match="--exits six"):
        parse_exits("six")


@pytest.mark.parametrize("name", ["acceptance", "policies"])
def test_a_missing_corpus_ends_with_one_line(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", name, "--ami", str(tmp_path / "none"), "--set", f"run.dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("FATAL: AMI corpus ")
    assert done.stdout == ""


@pytest.mark.slow
def test_the_benchmark_counts_what_the_engine_s_own_loop_accepts(tmp_path: Path) -> None:
    if not AMI.is_file():
        pytest.skip(f"the AMI annotations are not here: {AMI}")
    asked = ["acceptance", "--json", "--items", "2", "--tokens", "16", "--drafts", "3", "--without-torch"]
    done = CliRunner().invoke(app, [*asked, "--set", f"run.dir={tmp_path}", "--set", "engine.threads=1"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 2 * 2 * 5 * 3
    for check in found["same_as_the_engine_s_own_loop"].values():
        assert check["within"]
        assert check["same_replies"] == check["replies"] == 2
    assert found["full_depth_loss"][0]["tokens"] > 10
    assert found["pytorch"] == {"not_measured": "NOT MEASURED: not asked for"}
