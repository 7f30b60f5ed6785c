"""The whole chain on a tiny model: fits, resumes, refuses."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime.config import ROOT
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import DataError
from pads_runtime.models import Registry
from training.exits import collect, gather
from training.exits.corpus import Conversations, read_conversations
from training.exits.fit import Plan
from training.exits.gather import Amounts
from training.exits.run import Job, run
from training.exits.store import load

PLAN = Plan(epochs=1, batch=64)
AMOUNTS = Amounts(replies=8, positions=700)
HELD_OUT = 6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gather, "HELD_OUT", HELD_OUT)
    return tmp_path / "cache"


def job(model: Path, data: Path, out: Path, **other: Any) -> Job:
    return Job(
        **({"model": str(model), "data": data, "exits": (1, 3), "amounts": AMOUNTS, "out": out, "plan": PLAN} | other)
    )


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "training", "exits", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_chain_runs_and_says_what_it_made(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    report = run(job(tiny, corpus, tmp_path), lambda _: None)
    found, meta = load(tmp_path / "exits-tiny.npz")
    assert sorted(found) == meta["exits"] == [1, 3]
    assert meta["model_sha256"] == report["model_sha256"]
    assert meta["draft_vocab"] == 320
    assert meta["figures"] == report["figures"]
    assert report["held_out_prompts"] == HELD_OUT
    assert report["train_replies"] == 8
    assert report["train_positions"] - report["train_reply_positions"] >= 700
    assert report["leaks_looked_for"] == HELD_OUT
    card = (tmp_path / "exits-tiny.card.md").read_text()
    assert report["sha256"] in card and "CC BY-NC-SA 4.0" in card
    runtime = Translators.load(tmp_path / "exits-tiny.npz", report["model_sha256"])
    runtime.check_fits(n_embd=64, n_layer=4)
    assert all(np.array_equal(runtime.matrices[k], found[k].matrix) for k in (1, 3))
    with np.load(tmp_path / "exits-tiny.npz", allow_pickle=False) as file:
        assert (file["A_1"].dtype, file["A_1"].shape) == (np.float16, (64, 64))
        assert (file["b_3"].dtype, file["b_3"].shape) == (np.float32, (64,))


def test_an_interrupted_run_goes_on_and_ends_in_the_same_bytes(
    tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "CHUNK", 5)
    whole = run(job(tiny, corpus, tmp_path / "whole", exits=(2,)), lambda _: None)
    monkeypatch.setenv("PADS_CACHE", str(tmp_path / "other"))
    lines: list[str] = []

    def stop_in_the_replies(line: str) -> None:
        lines.append(line)
        if line.startswith("replies: 5"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job(tiny, corpus, tmp_path / "part", exits=(2,)), stop_in_the_replies)
    chunk = next((tmp_path / "other").rglob("held-out-0000.npz"))
    chunk.write_bytes(chunk.read_bytes()[:1000])  # a file cut short counts as missing
    asked: list[int] = []
    positions = collect.Collector.positions

    def counted(self: Any, messages: Any, item: int, replies: bool) -> Any:
        asked.append(item)
        return positions(self, messages, item, replies)

    monkeypatch.setattr(collect.Collector, "positions", counted)
    resumed = run(job(tiny, corpus, tmp_path / "part", exits=(2,)), lambda _: None)
    assert asked[:8] == [*range(5), 5, 6, 7]
    assert resumed == whole
    asked.clear()
    assert run(job(tiny, corpus, tmp_path / "again", exits=(2,)), lambda _: None) == whole
    assert asked == []


def test_a_leak_ends_the_run_before_anything_is_fitted(
    tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*arguments: Any) -> Conversations:
        found = read_conversations(*arguments)
        return Conversations((found.held_out[4], *found.train), found.held_out, found.dropped)

    monkeypatch.setattr(gather, "read_conversations", planted)
    with pytest.raises(DataError, match="held-out prompt 5 is in the training data"):
        run(job(tiny, corpus, tmp_path), lambda _: None)
    assert not list(tmp_path.rglob("exits-*")) and not list(tmp_path.rglob("fit-*"))


def test_training_prompts_that_share_a_held_out_turn_are_dropped_in_any_spelling(corpus: Path, tmp_path: Path) -> None:
    last = read_conversations(corpus, "Be brief.", 80).held_out[0][-1].text
    rows = gzip.decompress((corpus / "dailydialog.tsv.gz").read_bytes()).decode()
    rows += f"train\t900\t0\t1\t0\t{last.upper()} !!\n"
    (tmp_path / "dailydialog.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    found = read_conversations(tmp_path, "Be brief.", 80)
    assert last in {prompt[-1].text for prompt in found.held_out}
    assert found.dropped == 1
    assert all(last not in {message.text for message in prompt} for prompt in found.train)


def test_missing_data_is_fatal_and_nothing_stands_in_for_it(tiny: Path, tmp_path: Path) -> None:
    done = command("--model", str(tiny), "--data", str(tmp_path / "nowhere"), "--exits", "1", "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("FATAL: DailyDialog: ") and done.stderr.count("\n") == 1


def test_an_unsupported_architecture_is_fatal(other_architecture: Path, corpus: Path, tmp_path: Path) -> None:
    done = command("--model", str(other_architecture), "--data", str(corpus), "--exits", "1", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "FATAL: " in done.stderr and "early exits work for llama, qwen2, qwen3" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("exits", "code"), [("0,2", 1), ("4", 1), ("one", 2)])
def test_wrong_exits_are_refused_in_one_line(tiny: Path, corpus: Path, exits: str, code: int) -> None:
    done = command("--model", str(tiny), "--data", str(corpus), "--exits", exits)
    assert done.returncode == code
    assert done.stderr.startswith("FATAL: ") and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_command_prints_one_json_object(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    options = ["--own-replies", "30", "--positions", "0", "--exits", "2", "--out", str(tmp_path), "--json"]
    done = command("--model", str(tiny), "--data", str(corpus), *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report["figures"]) == ["2"]
    assert set(report["figures"]["2"]) == {"untrained", "ridge", "translator", "alike"}


def test_a_prompt_is_collected_as_the_engine_runs_it(tiny: Path, corpus: Path) -> None:
    model = Model(tiny)
    prompts = read_conversations(corpus, "Be brief.", 80).train
    collector = collect.Collector(model, (1, 2), 6, 512, 1)
    try:
        first = collector.positions(prompts[0], 7, replies=True)
        text = collector.positions(prompts[0], 7, replies=False)
        tokens = collector.prompt(prompts[0])
    finally:
        collector.close()
        model.close()
    assert first.tokens[: len(tokens)].tolist() == list(tokens)
    # Each token of the reply is the choice before it; the first is chosen at the prompt's last token.
    assert np.array_equal(first.tokens[len(tokens) :], first.choices[len(tokens) - 1 : -1])
    assert np.array_equal(np.flatnonzero(first.reply), np.arange(len(tokens) - 1, len(first)))
    assert 1 <= first.reply.sum() <= 6
    assert not text.reply.any()
    assert np.array_equal(text.states, first.states[: len(tokens)])


def test_the_shipped_card_describes_the_shipped_file_and_the_runtime_reads_it() -> None:
    entry = Registry.load().entry("exits-smollm2-135m-instruct")
    path = Registry.load().path(entry.name)
    model = Registry.load().entry("smollm2-135m-instruct").files[0]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.files[0].sha256
    card = (ROOT / "models" / "exits-smollm2-135m-instruct.card.md").read_text(encoding="utf-8")
    assert str(entry.files[0].sha256) in card and "CC BY-NC-SA 4.0" in card
    assert model.sha256 is not None
    loaded = Translators.load(path, model.sha256)
    loaded.check_fits(n_embd=576, n_layer=30)
    figures = load(path)[1]["figures"]
    assert {str(k) for k in loaded.exits} == set(figures)
    assert path.stat().st_size < 5_000_000
    for scores in figures.values():
        assert scores["untrained"]["high"] < scores["translator"]["low"]
