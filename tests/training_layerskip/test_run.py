"""A run on a tiny model: it resumes to the same bytes, refuses what does not fit, and stops at a leak."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; ./scripts/setup --training")
pytest.importorskip("peft", reason="peft is not installed; ./scripts/setup --training")
pytest.importorskip("accelerate", reason="accelerate is not installed; ./scripts/setup --training")

from pads_runtime.errors import DataError, ModelCorrupt, ModelError, SetupError  # noqa: E402
from training.layerskip.data import Corpus  # noqa: E402
from training.layerskip.multi_exit import MultiExit  # noqa: E402
from training.layerskip.plan import Plan  # noqa: E402
from training.layerskip.run import Job, run  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
PLAN = Plan(steps=6, sequence=160, batch=2, accumulate=2, rank=4, warmup=1, learning_rate=5e-3, chunk=50)


@pytest.fixture
def job(tiny: Path, dailydialog: Path, ami: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A small run, its work folder and its run records below the test's own folder."""
    monkeypatch.chdir(tmp_path)
    corpus = Corpus(dailydialog, ami, ("EN2001a", "ES2002b"))
    return Job(str(tiny), corpus, tmp_path / "work", PLAN, validate_rows=2, save_every=2, threads=1)


def quiet(_: str) -> None:
    """Progress nobody reads."""


def adapter_bytes(work: Path) -> bytes:
    return (work / "adapter" / "adapter_model.safetensors").read_bytes()


def stopped_after(step: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Breaks training off in the forward pass of a later step; the result undoes it."""
    forward, calls = MultiExit.forward, []

    def until(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > step * PLAN.accumulate:
            raise KeyboardInterrupt
        return forward(self, *arguments)

    monkeypatch.setattr(MultiExit, "forward", until)
    return lambda: monkeypatch.setattr(MultiExit, "forward", forward)


def test_a_run_learns_and_leaves_an_adapter_its_metrics_and_a_report(job: Job, tmp_path: Path) -> None:
    report = run(job, quiet)
    rows = [json.loads(line) for line in (job.work / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert json.loads((job.work / "report.json").read_text()) == json.loads(json.dumps(report))
    assert report["exits"] == [1, 2, 3]
    card = (job.work / "adapter" / "README.md").read_text()
    loss = report["validation_after"]["ami"]["loss"]
    assert f"| {loss:.3f} |" in card
    assert "0 of 40 prompts and 0 of 40 responses before" in card
    for source in ("ami", "dailydialog"):
        before, after = report["validation_before"][source], report["validation_after"][source]
        assert after["loss"] < before["loss"]
        assert all(after["exits"][e]["loss"] < before["exits"][e]["loss"] for e in ("1", "2", "3"))
    assert report["leaks"]["before"] == {"items": 40, "prompts": (), "responses": ()}
    assert (tmp_path / "runs" / report["run"] / "metrics.jsonl").read_text().count("\n") == 9
    assert json.loads((job.work / "adapter" / "pads.json").read_text())["model_path"] == job.model


def test_an_interrupted_run_ends_with_the_same_bytes_as_an_uninterrupted_one(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = replace(job, work=job.work / "whole")
    run(whole, quiet)
    parts = replace(job, work=job.work / "parts")
    undo = stopped_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(parts, quiet)
    undo()
    said: list[str] = []
    run(parts, said.append)
    assert "going on after step 2" in said
    assert adapter_bytes(parts.work) == adapter_bytes(whole.work)
    rows = [json.loads(line) for line in (parts.work / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6, 6]


def test_a_checkpoint_of_another_run_or_shape_or_a_broken_one_is_refused(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = stopped_after(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(job, quiet)
    undo()
    with pytest.raises(ModelError, match="is of another run: its rank is 4, here it is 8; choose another --work"):
        run(replace(job, plan=replace(PLAN, rank=8)), quiet)
    path = job.work / "checkpoint.pt"
    kept = torch.load(path, weights_only=True)
    name = next(iter(kept["weights"]))
    kept["weights"][name] = kept["weights"][name][:1]
    torch.save(kept, path)
    with pytest.raises(ModelError, match=r"is of another shape: .*lora_A.* is \(1, 64\), this model needs \(4, 64\)"):
        run(job, quiet)
    path.write_bytes(b"nothing")
    with pytest.raises(ModelCorrupt, match=r"cannot be read .*; remove it to begin again"):
        run(job, quiet)


def test_a_leak_fails_the_run_before_a_step_is_made(job: Job) -> None:
    let_in = replace(job, corpus=replace(job.corpus, excluded=("ES2002b",)))
    with pytest.raises(DataError, match=r"leak, before training: .* holds 40 of 40 prompts and 40 of 40 responses"):
        run(let_in, quiet)
    assert not (job.work / "checkpoint.pt").exists()
    assert not (job.work / "metrics.jsonl").exists()


def test_a_leak_that_comes_in_later_fails_the_run_too(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.layerskip import run as module

    trained = module._trained

    def leaking(job_: Job, source: Any, streams: Any, tell: Any) -> dict[str, Any]:
        report = trained(job_, source, streams, tell)
        prompt = source.tokenizer().tokenize(streams.items[7].prompt)
        streams.train.tokens[100 : 100 + len(prompt)] = prompt
        return report

    monkeypatch.setattr(module, "_trained", leaking)
    with pytest.raises(DataError, match=r"leak, after training: .* 1 of 40 prompts and 0 of 40 responses"):
        run(job, quiet)


@pytest.mark.parametrize("where", ["corpus", "meeting"])
def test_missing_data_and_an_exclusion_without_a_meeting_are_refused_at_once(job: Job, where: str) -> None:
    if where == "corpus":
        wrong, told = replace(job.corpus, dailydialog=job.work), "dailydialog.tsv.gz' not found"
    else:
        wrong, told = (
            replace(job.corpus, excluded=("EN2001a", "ES202b")),
            "'ES202b' is no meeting .* did you mean ES2002",
        )
    with pytest.raises(DataError, match=told):
        run(replace(job, corpus=wrong), quiet)


@pytest.mark.parametrize(("batch", "told"), [(2, "lower --batch and raise --accumulate"), (1, "lower --sequence")])
def test_out_of_memory_names_the_setting_to_lower(
    job: Job, batch: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory: you tried to")

    monkeypatch.setattr(MultiExit, "forward", full)
    with pytest.raises(SetupError, match=f"out of memory in step 1 .*{told}"):
        run(replace(job, plan=replace(PLAN, batch=batch)), quiet)


def test_data_too_short_for_one_row_is_refused(job: Job) -> None:
    with pytest.raises(DataError, match="less than one row of 100000"):
        run(replace(job, plan=replace(PLAN, sequence=100_000)), quiet)
