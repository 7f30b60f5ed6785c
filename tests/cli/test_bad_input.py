"""A person's mistake ends in one line that says what, where and what to do, with the right exit code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from pads_runtime.models import Registry

Pads = Callable[..., Any]
GGUF = "smollm2-135m-instruct"
SPEECH = np.sin(np.arange(16_000) / 20) * 0.3


def cut_flac(path: Path) -> None:
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 48_000), 16_000, format="FLAC")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_wav(path: Path) -> None:
    soundfile.write(path, SPEECH, 16_000)
    path.write_bytes(path.read_bytes()[:20_000])


RECORDINGS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing.wav": (lambda path: None, "not found"),
    "folder.wav": (lambda path: path.mkdir(), "is not a file; give the path of a recording"),
    "notes.wav": (lambda path: path.write_text("Dear diary,\n" * 100), "is not audio that can be read"),
    "nothing.wav": (lambda path: path.write_bytes(b""), "is empty (0 bytes)"),
    "no-samples.wav": (lambda path: soundfile.write(path, np.zeros(0), 16_000), "has no samples"),
    "zeros.wav": (lambda path: soundfile.write(path, np.zeros(16_000), 16_000), "is digital silence"),
    "blink.wav": (lambda path: soundfile.write(path, SPEECH[:100], 16_000), "shorter than one frame of 20 ms"),
    "cut.flac": (cut_flac, "is cut short"),
    "cut.wav": (cut_wav, "is cut short"),
    "nan.wav": (lambda path: soundfile.write(path, np.full(16_000, np.nan), 16_000, "FLOAT"), "not numbers"),
    "two\nlines.wav": (lambda path: None, "two lines.wav' not found"),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_that_cannot_be_used(pads: Pads, tmp_path: Path, name: str) -> None:
    make, message = RECORDINGS[name]
    make(tmp_path / name)
    done = pads("replay", tmp_path / name, "--json")
    done.refused(1, message)
    told = done.manifest()
    assert told["status"] == "failed"
    assert " ".join(told["error"].splitlines()) == done.err.strip().replace("error: ", "InputError: ")


def test_a_recording_that_may_not_be_read(pads: Pads, tmp_path: Path) -> None:
    path = tmp_path / "secret.wav"
    soundfile.write(path, SPEECH, 16_000)
    path.chmod(0)
    done = pads("replay", path, privileged=False)
    done.refused(1, "secret.wav' cannot be read: permission denied")
    assert done.manifest()["status"] == "failed"


def test_a_recording_whose_name_is_not_utf_8(pads: Pads, tmp_path: Path) -> None:
    done = pads("replay", os.fsdecode(b"caf\xe9.wav"))
    done.refused(1, "caf\\udce9.wav' not found")
    assert done.manifest()["purpose"] == "replay of " + os.fsdecode(b"caf\xe9.wav")


def test_the_right_channel_of_a_recording_that_has_one(pads: Pads, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "mono.wav", SPEECH, 16_000)
    pads("replay", tmp_path / "mono.wav", "--set", "audio.channel=right").refused(1, "one channel only")


# ---------------------------------------------------------------- the command line and the settings


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frob"], "No such command 'frob'; see: pads --help"),
        (["demo", "--loud"], "No such option: --loud"),
        (["demo", "extra"], "unexpected extra argument"),
        (["replay"], "give a recording, or --ami with the annotated corpus; see: pads replay --help"),
        (["demo", "--set", "gate.thetaend=0.5"], "unknown setting 'gate.thetaend'; did you mean 'gate.theta_end'?"),
        (["demo", "--set", "gate.theta_end=1.5"], "setting 'gate.theta_end' = 1.5"),
        (["demo", "--set", "gate.theta_end=high"], "setting 'gate.theta_end' = 'high'"),
        (["demo", "--set", "gate.theta_end"], "override 'gate.theta_end' is not of the form section.key=value"),
        (["demo", "--set", "gate=0.5"], "setting 'gate' = 0.5"),
        (["demo", "--set", "turn.sure=0.1"], "turn.unsure must be below turn.sure"),
        (["demo", "--clock", "lunar"], "setting 'clock.kind' = 'lunar': Input should be 'real' or 'virtual'"),
        (["replay", "x.wav", "--config", "nope"], "settings file 'nope' not found; give a path or one of: "),
        (["chat", "--clock", "real"], "No such option: --clock"),
        (["models", "verify", "smolm2"], "no model is named 'smolm2'"),
        (["models", "frob"], "No such command 'frob'; see: pads models --help"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_makes_no_record(
    pads_here: Pads, words: list[str], message: str
) -> None:
    done = pads_here(*words)
    done.refused(2, message)
    assert done.records == []


@pytest.mark.parametrize("words", [["frob"], ["demo", "--set", "gate.thetaend=0.5"], ["demo", "--clock", "lunar"]])
def test_a_wrong_command_line_ends_the_process_with_code_2(pads: Pads, words: list[str]) -> None:
    pads(*words).refused(2, words[-1].split("=")[0])


@pytest.mark.parametrize("words", [[], ["models"]])
def test_a_missing_command_shows_the_help_and_says_so(pads_here: Pads, words: list[str]) -> None:
    done = pads_here(*words)
    assert done.code == 2
    assert done.err == f"error: no command given; see: {' '.join(['pads', *words])} --help\n"
    assert "Usage" in done.out
    assert "--help" in done.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gate: {theta_ent: 1}", "unknown setting 'gate.theta_ent'; did you mean 'gate.theta_end'?"),
        ("gate: [", "is not valid YAML"),
        ("just words", "must hold 'section: {key: value}'"),
    ],
)
def test_a_settings_file_with_a_fault(pads_here: Pads, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    pads_here("demo", "--config", tmp_path / "own.yaml").refused(2, message)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("demo.script=nowhere.yaml", "settings file 'nowhere.yaml' not found"),
        ("engine.model=smolm2-135m-instruct", "did you mean 'smollm2-135m-instruct'?"),
        ("engine.model=no/such.gguf", "model file 'no/such.gguf' does not exist"),
        ("turn.model=smart-turn-v9", "no model is named 'smart-turn-v9'"),
        ("asr.kind=reference", "asr.reference names no file"),
        ("clock.costs=cray-1", "settings file 'cray-1' not found; give a path or one of: dev-host"),
    ],
)
def test_a_setting_that_names_nothing_is_refused_before_any_model_is_loaded(
    pads_here: Pads, models: Registry, setting: str, message: str
) -> None:
    done = pads_here("demo", "--set", setting)
    done.refused(1 if "does not exist" in message else 2, message)
    assert "loading" not in done.err


def test_a_run_folder_that_is_a_file(pads: Pads, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    pads("chat").refused(1, "cannot be written: Not a directory; use --set run.dir=PATH")


# ---------------------------------------------------------------- models


def damaged_cache(tmp_path: Path, models: Registry, name: str, damage: Callable[[Path], Any]) -> dict[str, str]:
    """A cache in which one file of one model is damaged: {PADS_CACHE: ...}. The others are links to the good ones."""
    cache = tmp_path / "cache"
    for folder in models.folder.iterdir():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        here = cache / "models" / folder.name
        here.mkdir(parents=True)
        for file in folder.iterdir():
            (here / file.name).symlink_to(file)
    victim = cache / "models" / name / max(models.entry(name).files, key=lambda file: file.bytes or 0).name
    victim.unlink()
    damage(victim)
    return {"PADS_CACHE": str(cache)}


def as_long_as(models: Registry, name: str, head: bytes = b"") -> Callable[[Path], None]:
    """Damage: the right size, only the first bytes right, zeros after them (a sparse file)."""

    def damage(path: Path) -> None:
        size = max(file.bytes or 0 for file in models.entry(name).files)
        with path.open("wb") as file:
            file.write(head)
            file.truncate(size)

    return damage


def test_a_model_of_the_wrong_size_is_not_loaded(pads: Pads, tmp_path: Path, models: Registry) -> None:
    cache = damaged_cache(tmp_path, models, GGUF, lambda path: path.write_bytes(b"GGUF" + bytes(1000)))
    done = pads("chat", extra=cache)
    done.refused(1, f"has 1004 bytes, expected 98362432; run: pads models pull {GGUF}")
    assert done.manifest()["status"] == "failed"


def test_a_wrong_hash_is_found_by_verify(pads: Pads, tmp_path: Path, models: Registry) -> None:
    name = "smart-turn-v3.2"
    good = models.path(name).read_bytes()
    cache = damaged_cache(tmp_path, models, name, lambda path: path.write_bytes(good[:-1] + b"\x00"))
    done = pads("models", "verify", name, extra=cache)
    assert done.code == 1
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert "has sha256" in line
    assert f"run: pads models pull {name}" in line
    told = pads("models", "verify", name, "--json", extra=cache)
    assert (told.code, '"ok": false' in told.out) == (1, True)


@pytest.mark.parametrize("kind", ["text", "magic only", "half", "zeros"])
def test_a_gguf_file_that_is_damaged(pads: Pads, tmp_path: Path, models: Registry, kind: str) -> None:
    path, good = tmp_path / "own.gguf", models.path(GGUF)
    if kind == "text":
        path.write_text("not a model")
    elif kind == "magic only":
        path.write_bytes(b"GGUF")
    elif kind == "half":
        shutil.copyfile(good, path)
        os.truncate(path, good.stat().st_size // 2)
    else:
        as_long_as(models, GGUF, b"GGUF\x03\x00\x00\x00")(path)
    done = pads("chat", "--set", f"engine.model={path}", typed=b"hello\n")
    done.refused(1, str(path))
    assert done.manifest()["status"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("name", [GGUF, "smart-turn-v3.2", "whisper-tiny.en"])
def test_a_damaged_model_of_the_right_size(
    pads: Pads, tmp_path: Path, models: Registry, recording: Callable[..., Path], name: str
) -> None:
    """Sizes are checked before loading and hashes by ``verify`` only, so it is the loader that must refuse it."""
    cache = damaged_cache(tmp_path, models, name, as_long_as(models, name))
    done = pads("replay", recording(16_000, 1, "q.wav"), extra=cache)
    done.refused(1, str(tmp_path / "cache" / "models" / name))
    assert done.manifest()["status"] == "failed"
    assert done.manifest()["error"].startswith("ModelCorrupt")


def test_a_missing_model_says_how_to_get_it(pads: Pads, tmp_path: Path) -> None:
    done = pads("demo", extra={"PADS_CACHE": str(tmp_path / "empty")})
    done.refused(1, f"model '{GGUF}' is not on this machine")
    assert f"run: pads models pull {GGUF}" in done.err
    assert done.manifest()["status"] == "failed"
