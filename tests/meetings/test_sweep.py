"""Sweeps over an annotated corpus: the same on one and two workers, resumed after a kill, clear about bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from pads_runtime.config import PadsSettings, load
from pads_runtime.corpora.ami import Person
from pads_runtime.errors import ConfigError, DataError, InputError
from pads_runtime.meetings import sweep
from pads_runtime.meetings.recordings import find

SETTINGS = load("replay", ["turn.predictor=silence"])


def write_words(folder: Path, name: str, *spoken: tuple[float, str]) -> None:
    rows = []
    for start_s, text in spoken:
        for i, word in enumerate(text.split()):
            a, b = start_s + 0.3 * i, start_s + 0.3 * (i + 1)
            rows.append(f'<w starttime="{a:.2f}" endtime="{b:.2f}">{word}</w>')
    body = "".join(rows)
    path = folder / "words" / f"{name}.words.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<nite:root xmlns:nite="http://nite.sourceforge.net/">{body}</nite:root>')


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two meetings of two people."""
    folder = tmp_path / "ami"
    write_words(folder, "ES2002a.A", (1.0, "can you tell me what you think of it"), (9.0, "and why is that"))
    write_words(folder, "ES2002a.B", (5.0, "well i like the colour of it"))
    write_words(folder, "ES2002b.A", (2.0, "what shall we do next"))
    write_words(folder, "ES2002b.B", (4.0, "we go home now i think"))
    return folder


def rows_of(
    corpus: Path, folder: Path, settings: PadsSettings = SETTINGS, **asked: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    folder.mkdir(exist_ok=True)
    told: list[str] = []
    wanted = sweep.Sweep(corpus, **asked)
    sweep.check(wanted, settings)
    return sweep.run(wanted, settings, folder, sweep.question(wanted, settings, {}), told.append), told


def test_every_participant_has_a_row(corpus: Path, tmp_path: Path) -> None:
    rows, _ = rows_of(corpus, tmp_path / "run")
    assert [(row["meeting"], row["speaker"]) for row in rows] == [
        ("ES2002a", "A"),
        ("ES2002a", "B"),
        ("ES2002b", "A"),
        ("ES2002b", "B"),
    ]
    assert rows[0]["prepared"] >= 1


@pytest.mark.slow
def test_two_workers_find_what_one_finds(corpus: Path, tmp_path: Path) -> None:
    rows_of(corpus, tmp_path / "one")
    rows_of(corpus, tmp_path / "two", workers=2)
    assert (tmp_path / "one" / sweep.ROWS).read_bytes() == (tmp_path / "two" / sweep.ROWS).read_bytes()


def test_a_killed_sweep_goes_on_where_it_was_cut(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(corpus, tmp_path / "whole")
    whole = (tmp_path / "whole" / sweep.ROWS).read_bytes()
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / sweep.ROWS).write_bytes(whole[: whole.index(b"\n") + 40])
    computed: list[str] = []
    replay = sweep.replay
    monkeypatch.setattr(sweep, "replay", lambda job, s: computed.append(job.party.meeting) or replay(job, s))
    rows_of(corpus, cut)
    assert computed == ["ES2002a", "ES2002b", "ES2002b"]
    assert (cut / sweep.ROWS).read_bytes() == whole


def test_rows_of_other_settings_are_not_mixed_in(corpus: Path, tmp_path: Path) -> None:
    rows_of(corpus, tmp_path / "run")
    other = load("replay", ["turn.predictor=silence", "gate.theta_end=0.9"])
    with pytest.raises(InputError, match="other settings"):
        rows_of(corpus, tmp_path / "run", other)


def test_a_row_that_is_none_is_named(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / sweep.ROWS).write_text(json.dumps({"meeting": "x"}) + "\n")
    with pytest.raises(InputError, match="line 1 is no row"):
        rows_of(corpus, tmp_path / "run")


def test_a_predictor_that_listens_needs_sound(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"turn\.predictor=silence"):
        rows_of(corpus, tmp_path / "run", load("replay", ["turn.predictor=smart_turn"]))


@pytest.mark.parametrize(
    ("asked", "complaint"), [({"meetings": ("ES9999a",)}, "ES9999a"), ({"participant": "Z"}, "participant 'Z'")]
)
def test_what_is_not_there_is_named(corpus: Path, tmp_path: Path, asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        rows_of(corpus, tmp_path / "run", **asked)


def test_mistimed_meetings_are_told_of(corpus: Path, tmp_path: Path) -> None:
    write_words(corpus, "EN2002a.A", (1.0, "what is it"))
    _, told = rows_of(corpus, tmp_path / "run")
    assert any("EN2002a" in line and "wrong" in line for line in told)


def test_a_scheduler_that_is_not_there_is_one_line(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="cannot be reached"):
        rows_of(corpus, tmp_path / "run", scheduler="nonsense://nowhere")


# ---------------------------------------------------------------- recordings


def record(folder: Path, name: str, seconds: float = 1.0) -> Path:
    path = folder / name.split(".")[0] / "audio" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(16_000 * seconds), np.int16), 16_000)
    return path


def test_a_participant_is_heard_on_the_own_headset_and_on_the_mix_only_where_there_are_no_headsets(
    tmp_path: Path,
) -> None:
    mix = record(tmp_path, "ES2002a.Mix-Headset.wav")
    found = find(tmp_path, "ES2002a", Person("x", "1"), "A")
    assert found is not None
    assert (found.path, found.mixed) == (mix, True)
    own = record(tmp_path, "ES2002a.Headset-1.wav")
    found = find(tmp_path, "ES2002a", Person("x", "1"), "A")
    assert found is not None
    assert (found.path, found.mixed) == (own, False)
    assert find(tmp_path, "ES2002a", Person("y", "2"), "B") is None
    assert find(tmp_path, "ES2002b", None, "A") is None


def test_annotations_without_audio_and_audio_without_annotations_are_told_of(corpus: Path, tmp_path: Path) -> None:
    audio = tmp_path / "audio"
    record(audio, "ES2002a.Headset-0.wav")
    record(audio, "ES3000a.Headset-0.wav")
    told: list[str] = []
    wanted = sweep.jobs(sweep.Sweep(corpus, audio=audio), SETTINGS, told.append)
    assert [(job.party.meeting, job.party.speaker) for job in wanted] == [("ES2002a", "A")]
    assert any(line.startswith("ES3000a: recorded but not annotated") for line in told)
    assert any(line.startswith("ES2002a B: annotated but not recorded") for line in told)


@pytest.mark.slow
def test_a_recorded_participant_is_replayed_with_the_annotated_words(tmp_path: Path) -> None:
    data = Path(__file__).resolve().parents[3] / "shared" / "data"
    clip, words = data / "ami_audio" / "EN2001a_0000000_trn00.flac", data / "ami_nxt" / "ami_manual_nxt.tar.xz"
    if not (clip.is_file() and words.is_file()):
        pytest.skip("the AMI clips or annotations are not here")
    audio = tmp_path / "audio" / "EN2001a" / "audio"
    audio.mkdir(parents=True)
    (audio / "EN2001a.Mix-Headset.flac").symlink_to(clip)
    settings = load("replay", [f"run.dir={tmp_path / 'runs'}"])
    asked: dict[str, Any] = {"meetings": ("EN2001a",), "participant": "A", "audio": tmp_path / "audio"}
    (row,), _ = rows_of(words, tmp_path / "run", settings, **asked)
    assert row["mixed"] is True
    assert row["stretches"] >= 1
    assert (tmp_path / "runs" / row["run"] / "trace.jsonl").is_file()


def test_a_folder_without_recordings_is_named(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="none of the participants"):
        sweep.jobs(sweep.Sweep(corpus, audio=tmp_path / "empty"), SETTINGS, lambda text: None)
    with pytest.raises(DataError, match="not found"):
        sweep.jobs(sweep.Sweep(corpus, audio=tmp_path / "none"), SETTINGS, lambda text: None)
