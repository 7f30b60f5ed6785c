"""The guard: who is let in, and that a job that eats memory is ended alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.guard.__main__ import REFUSED, main
from bench.guard.admission import admit
from bench.guard.job import exit_code
from bench.guard.kernel import CgroupV2, SystemdScope, killed_by_memory
from pads_runtime.config import ROOT, load
from pads_runtime.runs import GUARD_VARIABLE, RunRecord, mark_killed

GUARD = ROOT / "scripts" / "guard"
EATER = "held = []\nwhile len(held) < 60:\n    held.append(bytearray(b'x' * 10_000_000))"
"""At most 600 MB, whatever becomes of the guard."""


def guarded(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(GUARD), "--how", "watch", "--memory-floor", "1", *options, "--", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_too_little_free_memory_refuses_and_heat_only_warns() -> None:
    assert admit(4000, 1000, 2000, 60.0).refused == ""
    assert "900 MB" in admit(900, 1000, 500, 60.0).refused
    warned = admit(4000, 1000, 5000, 91.0)
    assert warned.refused == ""
    assert ["cap" in warned.warnings[0], "91 C" in warned.warnings[1]] == [True, True]
    assert "no temperature sensor" in admit(4000, 1000, 2000, None).warnings[0]


def test_a_job_that_eats_memory_dies_with_137_and_nothing_else_does() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        done = guarded(EATER, "--memory-cap", "150")
        assert done.returncode == 137
        assert "memory cap breached" in done.stderr
        assert bystander.poll() is None
        bystander.kill()


def test_children_and_orphans_of_the_job_are_counted_and_ended(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    orphan = f"import os; open({str(told)!r}, 'w').write(str(os.getpid()))\n{EATER}\nimport time; time.sleep(60)"
    code = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)"
    keep = f"{code}\ntime.sleep(60)"
    assert guarded(keep, "--memory-cap", "150").returncode == 137
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_a_job_that_behaves_keeps_its_own_exit_code_and_output() -> None:
    done = guarded("print('done'); raise SystemExit(3)", "--memory-cap", "300")
    assert (done.returncode, done.stdout) == (3, "done\n")


def test_below_the_floor_the_job_is_not_started() -> None:
    assert main(["--memory-floor", "99999999", "--", "touch", "/nonexistent/x"]) == REFUSED


@pytest.mark.parametrize("argv", [[], ["--"], ["--memory-cap", "0", "--", "true"], ["--memory-floor", "x", "true"]])
def test_a_wrong_command_line_is_a_usage_error(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2


def test_a_program_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--how", "watch", "--memory-floor", "1", "--", "no-such-program"]) == 2
    assert "no-such-program" in capsys.readouterr().err


def test_a_breach_stands_in_the_jobs_run_record(tmp_path: Path) -> None:
    code = f"""
from pads_runtime.config import load
from pads_runtime.runs import RunRecord
with RunRecord.begin("eater", "eats", load(None, ["run.dir={tmp_path}"]), {{}}, ["eater"]):
    {EATER.replace(chr(10), chr(10) + "    ")}
"""
    assert guarded(code, "--memory-cap", "200").returncode == 137
    (manifest,) = [json.loads(path.read_text()) for path in tmp_path.glob("*/manifest.json")]
    assert manifest["status"] == "killed"
    assert "memory cap breached" in manifest["error"]


def test_a_record_that_had_ended_or_is_cut_off_is_left_alone(tmp_path: Path) -> None:
    with RunRecord.begin("x", "", load(None, [f"run.dir={tmp_path}"]), {}, ["x"]) as record:
        pass
    mark_killed(record.path, "late")
    assert json.loads((record.path / "manifest.json").read_text())["status"] == "finished"
    (record.path / "manifest.json").write_text('{"status": "run')
    mark_killed(record.path, "late")
    mark_killed(tmp_path / "gone", "late")
    assert (record.path / "manifest.json").read_text() == '{"status": "run'


def test_a_record_tells_the_guard_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GUARD_VARIABLE, str(tmp_path / "records"))
    with RunRecord.begin("x", "", load(None, [f"run.dir={tmp_path / 'runs'}"]), {}, ["x"]) as record:
        pass
    assert (tmp_path / "records").read_text().splitlines() == [str(record.path.resolve())]


def test_a_cgroup_is_used_only_where_memory_is_delegated(tmp_path: Path) -> None:
    assert CgroupV2.find(tmp_path) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/x\n0::/user/shell\n")
    parent = tmp_path / "sys/fs/cgroup/user"
    (parent / "shell").mkdir(parents=True)
    (parent / "cgroup.subtree_control").write_text("cpu pids\n")
    assert CgroupV2.find(tmp_path) is None
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert CgroupV2.find(tmp_path) == CgroupV2(parent)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    assert CgroupV2.find(tmp_path) is None


def test_a_cgroup_counts_its_kills() -> None:
    assert killed_by_memory("low 0\nmax 9\noom 1\noom_kill 2\n")
    assert not killed_by_memory("max 9\noom 0\noom_kill 0\noom_group_kill 0\n")


def test_a_scope_has_the_cap_and_no_swap(tmp_path: Path) -> None:
    command = SystemdScope(user=True).command(["x", "-v"], 250.0, "u")
    assert command[:3] == ["systemd-run", "--user", "--scope"]
    assert "MemoryMax=250000000" in command
    assert "MemorySwapMax=0" in command
    assert command[-3:] == ["--", "x", "-v"]
    assert SystemdScope.find(tmp_path) is None


def test_a_signal_becomes_a_shells_code() -> None:
    assert [exit_code(0), exit_code(3), exit_code(-9)] == [0, 3, 137]
