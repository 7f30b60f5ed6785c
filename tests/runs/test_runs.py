"""Run records: kept whatever happens, true about the machine, and runnable again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pads_runtime.config import PadsSettings, load
from pads_runtime.errors import InputError, PadsError
from pads_runtime.runs import RunRecord, command_line, git_state, is_target, machine, product_name


def begin(base: Path, name: str = "test", command: tuple[str, ...] = ("true",), dmi: Path | None = None) -> RunRecord:
    settings = load(None, [f"run.dir={base}"])
    more = {} if dmi is None else {"dmi": dmi}
    return RunRecord.begin(name, "a test", settings, {"m/file": "0" * 64}, command, **more)


def manifest(record: RunRecord) -> dict[str, object]:
    found: dict[str, object] = json.loads((record.path / "manifest.json").read_text(encoding="utf-8"))
    return found


def firmware(folder: Path, product: str) -> Path:
    folder.mkdir()
    (folder / "product_name").write_text(product + "\n")
    return folder


def test_a_finished_run_leaves_a_full_record(tmp_path: Path) -> None:
    with begin(tmp_path) as record:
        record.metrics(a=1)
        record.metrics(b="zwölf")
        record.log("loading models")
    told = manifest(record)
    assert told["status"] == "finished"
    assert "error" not in told
    assert set(told) >= {"name", "purpose", "began_utc", "ended_utc", "command", "git", "machine", "models", "settings"}
    assert told["models"] == {"m/file": "0" * 64}
    assert PadsSettings.model_validate(told["settings"]) == load(None, [f"run.dir={tmp_path}"])
    lines = (record.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1}, {"b": "zwölf"}]
    assert [line[9:] for line in (record.path / "log.txt").read_text().splitlines()] == ["loading models", "finished"]


def test_a_failed_run_keeps_its_record_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError), begin(tmp_path) as record:
        record.metrics(a=1)
        raise InputError("no such file")
    told = manifest(record)
    assert (told["status"], told["error"]) == ("failed", "InputError: no such file")
    assert (record.path / "metrics.jsonl").exists()
    assert (record.path / "log.txt").read_text().rstrip().endswith("failed: InputError: no such file")


def test_a_run_stopped_by_ctrl_c_is_stopped_and_not_failed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), begin(tmp_path) as record:
        raise KeyboardInterrupt
    told = manifest(record)
    assert told["status"] == "stopped"
    assert "error" not in told


def test_the_manifest_is_whole_from_the_first_moment_and_never_half_written(tmp_path: Path) -> None:
    with begin(tmp_path) as record:
        assert manifest(record)["status"] == "running"
        # The name that others read is only ever renamed onto, so it stays whole while the next one is written.
        before = (record.path / "manifest.json").stat().st_ino
    assert manifest(record)["status"] == "finished"
    assert (record.path / "manifest.json").stat().st_ino != before
    assert sorted(p.name for p in record.path.iterdir()) == ["cmd.sh", "log.txt", "manifest.json"]


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    folders = [begin(tmp_path).path for _ in range(4)]
    assert len(set(folders)) == 4
    assert all((folder / "manifest.json").exists() for folder in folders)


@pytest.mark.parametrize(
    "name", ["replay-so many words " * 20, "replay-a/b", "replay-line\nbreak", "replay-\udcff", "replay-Gespräch (1)"]
)
def test_any_name_makes_a_folder(tmp_path: Path, name: str) -> None:
    with begin(tmp_path, name) as record:
        record.metrics(name=name)
        record.log(name)
    assert record.path.parent == tmp_path
    assert record.path.name.isascii()
    assert manifest(record)["name"] == name
    assert json.loads((record.path / "metrics.jsonl").read_text(encoding="utf-8")) == {"name": name}


@pytest.mark.parametrize(
    "words", [("say", "it's", 'a "b" $HOME `x` \\ *'), ("", " "), ("line\nbreak", "ü"), ("-n", "--", ";", "&&")]
)
def test_cmd_sh_runs_the_same_words_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    here = tmp_path / "it's here"
    here.mkdir()
    monkeypatch.chdir(here)
    program = "import json, os, sys; print(json.dumps([os.getcwd(), *sys.argv[1:]]))"
    record = begin(tmp_path / "runs", command=(sys.executable, "-c", program, *words))
    done = subprocess.run([record.path / "cmd.sh"], cwd="/", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [str(here), *words]


def test_a_file_name_that_is_not_utf_8_runs_again(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    program = "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"
    record = begin(tmp_path, command=(sys.executable, "-c", program, name))
    assert subprocess.run([record.path / "cmd.sh"], capture_output=True, check=True).stdout == b"caf\xe9.wav"
    assert manifest(record)["command"] == [sys.executable, "-c", program, name]


def test_the_command_of_a_script_and_of_a_module_can_both_be_run_again(tmp_path: Path) -> None:
    text = "import json; from pads_runtime.runs import command_line; print(json.dumps(command_line()))"
    script, package = tmp_path / "tool", tmp_path / "tools"
    script.write_text(text)
    package.mkdir()
    (package / "__main__.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def told(*command: str) -> list[str]:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        words: list[str] = json.loads(done.stdout)
        return words

    assert told(sys.executable, "tool", "a b") == [str(script), "a b"]
    assert told(sys.executable, "-m", "tools", "a b") == [sys.executable, "-m", "tools", "a b"]
    assert command_line()[1:3] == ["-m", "pytest"] or Path(command_line()[0]).name.startswith("pytest")


# ---------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("product", "target"),
    [
        ("Latitude 5490", True),
        ("Latitude 5490 ", True),
        ("Latitude 5491", False),
        ("Latitude 5490 AIO", False),
        ("latitude 5490", False),
        ("", False),
        ("Standard PC (Q35 + ICH9, 2009)", False),
    ],
)
def test_figures_are_the_targets_only_on_the_target(tmp_path: Path, product: str, target: bool) -> None:
    dmi = firmware(tmp_path / "dmi", product)
    told = manifest(begin(tmp_path / "runs", dmi=dmi))
    assert told["reportable_as_target_hardware"] is target
    assert told["machine"]["product"] == (product.strip() or None)  # type: ignore[index]
    assert is_target(dmi) is target


def test_a_machine_without_a_product_name_is_not_the_target(tmp_path: Path) -> None:
    assert product_name(tmp_path) is None
    assert is_target(tmp_path) is False
    (tmp_path / "product_name").write_bytes(b"\xff\xfe")
    assert is_target(tmp_path) is False


def test_the_record_of_this_machine_says_what_its_firmware_says(tmp_path: Path) -> None:
    told = manifest(begin(tmp_path))
    assert told["reportable_as_target_hardware"] is (product_name() == "Latitude 5490")
    assert told["machine"] == machine()
    assert set(machine()) == {"product", "cpu", "cores", "memory_gb", "system", "python"}


def test_the_commit_is_told_inside_a_checkout() -> None:
    state = git_state()
    assert state is None or (len(state["commit"]) == 40 and isinstance(state["changed"], bool))


# ---------------------------------------------------------------- where nothing can be written


def test_a_run_folder_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PadsError, match=r"run folder '.*file' cannot be written.*--set run\.dir=PATH") as caught:
        begin(tmp_path / "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("base", ["/proc", "/proc/sys/deeper/still"])
def test_a_run_folder_that_cannot_be_made_is_refused_in_one_line(base: str) -> None:
    with pytest.raises(PadsError, match=f"run folder '{base}' cannot be written"):
        begin(Path(base))


def test_a_record_whose_folder_goes_away_fails_in_one_line(tmp_path: Path) -> None:
    record = begin(tmp_path / "runs")
    for file in record.path.iterdir():
        file.unlink()
    record.path.rmdir()
    with pytest.raises(PadsError, match=r"run record '.*' cannot be written"):
        record.metrics(a=1)
    with pytest.raises(InputError, match="the first fault"), record:
        raise InputError("the first fault")
