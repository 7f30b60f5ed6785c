"""The scripts: they parse, keep stdout clean, and set-up knows when there is nothing to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    *(p for p in sorted((ROOT / "scripts").iterdir()) if p.is_file() and p.suffix != ".md"),
    ROOT / ".ci" / "run",
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_script_parses_and_stops_at_the_first_fault(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("name", ["runtime", "dev", "build", "training"])
def test_every_requirement_is_pinned_and_hashed_and_names_no_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    entries = [entry for entry in re.split(r"\n(?=[a-z])", text) if entry.strip()]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_llama_cpp_is_built_and_never_taken_from_the_index() -> None:
    for name in ("runtime", "dev", "training"):
        assert "\nllama-cpp-python==" not in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def fake_tree(folder: Path) -> Path:
    """A tree with this set-up script, whose .venv holds a python that writes down how it is called."""
    for name in ("scripts/setup", "pyproject.toml", "models/registry.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "requirements").mkdir()
    (folder / "requirements" / "runtime.txt").write_text("a==1\n", encoding="utf-8")
    (folder / "requirements" / "dev.txt").write_text("b==1\n", encoding="utf-8")
    (folder / "requirements" / "training.txt").write_text("c==1\n", encoding="utf-8")
    (folder / "requirements" / "torch.txt").write_text("d==1\n", encoding="utf-8")
    (folder / "pads_runtime/engine/native").mkdir(parents=True)
    model = folder / "model.gguf"
    model.touch()
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho "$@" >> "{folder}/calls"\n[ "$1" = - ] && echo "{model}"\nexit 0\n', encoding="utf-8"
    )
    python.chmod(0o755)
    (folder / ".venv/bin/pads").touch()
    return folder


def run_setup(tree: Path, *options: str, cache: str = "cache") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The run, and how it called Python."""
    calls = tree / "calls"
    calls.unlink(missing_ok=True)
    environment = {**os.environ, "PADS_CACHE": str(tree / cache), "HOME": str(tree)}
    done = subprocess.run(
        [str(tree / "scripts/setup"), *options], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    return done, calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []


def test_a_second_set_up_of_an_unchanged_tree_calls_nothing(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    first, calls = run_setup(tree)
    assert first.returncode == 0, first.stderr
    assert any("--require-hashes -r requirements/runtime.txt" in call for call in calls)
    assert any("pads_runtime.engine.native.build" in call for call in calls)
    second, calls = run_setup(tree)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "set-up is current\n")
    assert calls == []


def test_set_up_writes_to_stderr_only_and_counts_its_steps(tmp_path: Path) -> None:
    done, _ = run_setup(fake_tree(tmp_path))
    assert done.stdout == ""
    assert re.findall(r"^\[(\d)/6\]", done.stderr, re.MULTILINE) == list("123456")


@pytest.mark.parametrize("changed", ["requirements/runtime.txt", "models/registry.yaml", "pyproject.toml"])
def test_a_changed_input_sets_up_again(tmp_path: Path, changed: str) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree)
    with (tree / changed).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert run_setup(tree)[1] != []


def test_a_new_patch_sets_up_again(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree)
    (tree / "pads_runtime/engine/native/0001.patch").touch()
    assert run_setup(tree)[1] != []


def test_a_deleted_model_or_another_cache_sets_up_again(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree)
    (tree / "model.gguf").rename(tree / "moved")
    assert run_setup(tree)[1] != []
    (tree / "moved").rename(tree / "model.gguf")
    assert run_setup(tree)[1] == []
    assert run_setup(tree, cache="other")[1] != []


def test_a_dev_set_up_serves_the_plain_one_and_not_the_other_way_round(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree)
    assert any("requirements/dev.txt" in call for call in run_setup(tree, "--dev")[1])
    assert run_setup(tree)[1] == []


def test_a_set_up_for_training_takes_hashed_packages_then_torch_and_serves_the_others(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree, "--dev")
    calls = "\n".join(run_setup(tree, "--dev", "--training")[1])
    hashed, torch = (
        r"--require-hashes --no-deps -r requirements/training\.txt",
        r"install -q -r requirements/torch\.txt",
    )
    assert re.search(rf"{hashed}\n.*{torch}", calls)
    assert run_setup(tree, "--dev", "--training")[1] == []
    assert run_setup(tree, "--training")[1] == []
    assert run_setup(tree, "--dev")[1] == []
    assert run_setup(tree)[1] == []


def test_a_set_up_for_training_alone_does_not_serve_a_dev_one(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree, "--training")
    assert any("requirements/dev.txt" in call for call in run_setup(tree, "--dev")[1])
    assert any("requirements/torch.txt" in call for call in run_setup(tree, "--training")[1])


def test_torch_is_pinned_to_one_version_and_left_out_of_the_hashed_files() -> None:
    pins = [
        line for line in (ROOT / "requirements/torch.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"
    ]
    assert pins == ["torch==2.13.0"]
    for name in ("runtime", "dev", "training"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        assert not re.search(r"^(torch|triton|nvidia-.*|cuda-.*)==", text, re.MULTILINE), name


def test_an_interrupted_set_up_leaves_no_stamp(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path)
    run_setup(tree)
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    python = tree / ".venv/bin/python"
    text = python.read_text(encoding="utf-8")
    python.write_text(text.replace("exit 0", 'case "$*" in *native.build*) exit 1;; esac\nexit 0'), encoding="utf-8")
    assert run_setup(tree)[0].returncode == 1
    python.write_text(text, encoding="utf-8")
    assert run_setup(tree)[1] != []


def test_an_unknown_option_is_usage(tmp_path: Path) -> None:
    done, calls = run_setup(fake_tree(tmp_path), "--wat")
    assert done.returncode == 2
    assert "unknown option '--wat'" in done.stderr
    assert calls == []


def test_pads_without_a_set_up_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/pads", tmp_path / "scripts/pads")
    done = subprocess.run([str(tmp_path / "scripts/pads"), "demo"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: PADS is not set up; run {tmp_path}/scripts/setup\n"
