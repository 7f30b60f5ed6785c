"""The doctor: each finding on made-up machines, and a whole examination of this one."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import yaml

from pads_runtime import doctor
from pads_runtime.models import Registry

CPUINFO = "processor: 0\nmodel name: Some CPU\nflags: fpu {}\n\nprocessor: 1\nmodel name: Some CPU\n"


def machine(root: Path, flags: str = "avx2 fma f16c", governor: str | None = None) -> Path:
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text(CPUINFO.format(flags), encoding="utf-8")
    if governor:
        for cpu in ("cpu0", "cpu1"):
            folder = root / "sys/devices/system/cpu" / cpu / "cpufreq"
            folder.mkdir(parents=True)
            (folder / "scaling_governor").write_text(governor + "\n", encoding="utf-8")
    return root


def no_models(tmp_path: Path) -> Registry:
    path = tmp_path / "registry.yaml"
    entry = {
        "kind": "llm",
        "licence": "MIT",
        "embedded": True,
        "source": {"wheel": {"package": "some-model", "version": "1.0", "sha256": "0" * 64}},
        "files": [{"name": "m", "bytes": 1, "sha256": "0" * 64}],
    }
    path.write_text(yaml.safe_dump({"absent": entry}), encoding="utf-8")
    return Registry.load(path, tmp_path / "models")


def find(findings: list[doctor.Finding], name: str) -> doctor.Finding:
    return next(f for f in findings if f.name == name)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="AVX2 is a matter of x86-64")
def test_a_cpu_without_avx2_is_a_warning(tmp_path: Path) -> None:
    with_it = doctor.examine(machine(tmp_path / "a"), no_models(tmp_path))
    without = doctor.examine(machine(tmp_path / "b", flags="sse4_2"), no_models(tmp_path))
    assert find(with_it, "instruction sets").state == "ok"
    assert find(without, "instruction sets").state == "warn"


@pytest.mark.parametrize(("governor", "state"), [("performance", "ok"), ("powersave", "warn"), (None, "ok")])
def test_the_governor_is_judged_where_it_can_be_seen(tmp_path: Path, governor: str | None, state: str) -> None:
    finding = find(doctor.examine(machine(tmp_path, governor=governor), no_models(tmp_path)), "CPU governor")
    assert finding.state == state
    assert (finding.advice != "") == (state == "warn")


def test_little_free_memory_is_a_warning() -> None:
    assert doctor._memory(0.5e9).state == "warn"
    assert doctor._memory(8e9).state == "ok"


def test_a_missing_embedded_model_fails_and_says_the_command(tmp_path: Path) -> None:
    finding = find(doctor.examine(machine(tmp_path), no_models(tmp_path)), "model absent")
    assert finding.state == "fail"
    assert finding.advice == "run: pads models pull absent"


def test_a_symbol_counts_only_as_a_whole_name(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\0llama_set_layer_range_v2\0other\0")
    assert not doctor._exports(library, b"llama_set_layer_range")
    assert doctor._exports(library, b"other")
    assert not doctor._exports(tmp_path / "none.so", b"other")


def test_every_finding_that_is_not_ok_says_what_to_do(tmp_path: Path) -> None:
    for finding in doctor.examine(machine(tmp_path, flags="", governor="powersave"), no_models(tmp_path)):
        assert finding.state == "ok" or finding.advice, finding


@pytest.mark.parametrize("state", ["ok", "warn", "fail"])
def test_the_exit_code_is_1_only_for_a_failure(
    state: doctor.State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        doctor, "examine", lambda: [doctor.Finding("a", "ok", "x"), doctor.Finding("b", state, "y", "z")]
    )
    assert doctor.doctor(as_json=True) == (1 if state == "fail" else 0)
    printed = json.loads(capsys.readouterr().out)
    assert printed["state"] == state
    assert printed["findings"][1] == {"name": "b", "state": state, "found": "y", "advice": "z"}
    doctor.doctor()
    assert "what to do" in capsys.readouterr().out
