"""The scripted talk and recordings, end to end on the embedded models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from pads_runtime.config import ROOT
from pads_runtime.demo import load_script
from pads_runtime.models import Registry
from pads_runtime.trace import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CLIPS = ROOT.parent / "shared" / "data" / "ami_audio"
FIGURES = {
    "run",
    "clock",
    "gate",
    "turns",
    "prepared",
    "committed",
    "discarded",
    "spec_hit_rate",
    "spec_wasted_tokens",
    "spec_wasted_cpu_ms",
    "false_cutoffs",
    "false_cutoff_rate",
    "interruptions",
    "false_interruptions",
    "post_confirm_ttft_ms",
    "dead_air_ms",
    "discard_ms",
    "approximate_replies",
    "loop_lag_p99_ms",
    "frames_dropped",
    "per_turn",
    "wall_s",
    "peak_rss_mb",
}
TURN_FIGURES = {"turn", "user", "agent", "prepared", "committed", "discarded", "post_confirm_ttft_ms", "dead_air_ms"}
IN_A_RECORD = {
    "cmd.sh",
    "conversation.wav",
    "log.txt",
    "manifest.json",
    "metrics.jsonl",
    "timeline.html",
    "trace.jsonl",
}

Hold = Callable[..., Any]


@pytest.fixture(scope="module")
def demo(hold: Hold) -> Any:
    return hold("demo")


@pytest.fixture(scope="module")
def compared(told: Hold) -> Any:
    """The same talk again and without speculation, from one process."""
    return told("demo", "--compare")[0]


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


# ---------------------------------------------------------------- the demo


def test_the_demo_tells_its_figures_as_one_object(demo: Any) -> None:
    assert set(demo.figures) == FIGURES
    assert demo.figures["turns"] == len(load_script("demo-script.yaml").turns) >= 6
    assert all(set(row) >= TURN_FIGURES for row in demo.figures["per_turn"])
    for key in ("post_confirm_ttft_ms", "dead_air_ms"):
        spread = demo.figures[key]
        assert spread["n"] == demo.figures["turns"]
        assert 0 <= spread["p50"] <= spread["p95"]
    assert demo.told.splitlines() == ["loading models", "talking: 8 turns, virtual clock"]


def test_the_totals_are_the_sums_of_the_turns(demo: Any) -> None:
    rows = demo.figures["per_turn"]
    for key in ("prepared", "committed", "discarded"):
        assert demo.figures[key] == sum(row[key] for row in rows)
    assert demo.figures["prepared"] == demo.figures["committed"] + demo.figures["discarded"]
    kinds = [event.kind for event in demo.events]
    assert demo.figures["prepared"] == kinds.count("branch_opened")
    assert demo.figures["turns"] == kinds.count("reply_served")


def test_some_reply_was_ready_before_its_turn_was_over(demo: Any) -> None:
    assert any(row["committed"] and row["post_confirm_ttft_ms"] == 0 for row in demo.figures["per_turn"])


def test_some_branch_was_discarded_because_the_user_went_on(demo: Any) -> None:
    dropped = [row for row in demo.figures["per_turn"] if "the user went on" in row["discard_reasons"]]
    assert dropped
    assert all(row["wasted_tokens"] > 0 for row in dropped)


def test_every_scripted_turn_is_one_turn_and_most_words_are_understood(demo: Any) -> None:
    script = load_script("demo-script.yaml")
    said = [" ".join(part for part in turn.say if isinstance(part, str)) for turn in script.turns]
    words = [set(text.lower().replace("?", "").replace(".", "").replace(",", "").split()) for text in said]
    heard = [set(user.lower().split()) for _, user, _ in demo.replies]
    assert len(heard) == len(words)
    for wanted, got in zip(words, heard, strict=True):
        assert len(wanted & got) >= 0.7 * len(wanted)
    assert demo.figures["false_cutoffs"] == 0
    assert demo.figures["frames_dropped"] == 0


def test_without_speculation_every_reply_is_the_same_and_comes_later(demo: Any, compared: Any) -> None:
    plain = compared["plain"]
    assert compared["identical_replies"] is True
    assert [(row["turn"], row["user"], row["agent"]) for row in plain["per_turn"]] == demo.replies
    assert plain["gate"] == "never"
    assert plain["prepared"] == plain["committed"] == plain["spec_wasted_tokens"] == 0
    for key in ("post_confirm_ttft_ms", "dead_air_ms"):
        assert plain[key]["p50"] > demo.figures[key]["p50"]


def test_the_same_command_gives_the_same_trace_byte_for_byte(demo: Any, compared: Any) -> None:
    again = Path(compared["speculation"]["run"])
    assert (again / "trace.jsonl").read_bytes() == (demo.folder / "trace.jsonl").read_bytes()
    assert len(demo.events) > 100
    same = FIGURES - {"run", "wall_s", "peak_rss_mb"}
    assert {key: compared["speculation"][key] for key in same} == {key: demo.figures[key] for key in same}


def test_the_recording_holds_the_whole_talk_user_left_agent_right(demo: Any) -> None:
    sound, rate = soundfile.read(demo.folder / "conversation.wav", dtype="int16")
    assert sound.shape[1] == 2
    ended_s = demo.events[-1].t_s
    assert demo.events[-1].kind == "session_ended"
    assert len(sound) / rate == pytest.approx(ended_s, abs=0.001)

    def loud(side: int, start_s: float, end_s: float) -> bool:
        return bool(np.abs(sound[round(start_s * rate) : round(end_s * rate), side].astype(int)).max() > 500)

    for row in demo.figures["per_turn"]:
        assert loud(0, row["speech_end_s"] - 0.5, row["speech_end_s"])
        assert not loud(1, row["speech_end_s"] - 0.5, row["first_audio_s"] - 0.01), "nothing prepared is heard"
        assert loud(1, row["first_audio_s"], row["first_audio_s"] + 0.5)
        assert not loud(0, row["speech_end_s"] + 0.01, row["first_audio_s"] + 0.5), "the scripted user waits"


def test_dead_air_is_the_silence_between_the_two_channels(demo: Any) -> None:
    """The figure against the sound itself: from the user's last sample to the agent's first, within 50 ms."""
    sound, rate = soundfile.read(demo.folder / "conversation.wav", dtype="int16")
    for row in demo.figures["per_turn"]:
        start = round((row["speech_end_s"] - 0.3) * rate)
        stop = round((row["first_audio_s"] + 1.0) * rate)
        user = np.flatnonzero(np.abs(sound[start:stop, 0].astype(int)) > 20)
        agent = np.flatnonzero(np.abs(sound[start:stop, 1].astype(int)) > 20)
        assert (agent[0] - user[-1]) / rate * 1000 == pytest.approx(row["dead_air_ms"], abs=50)


def test_the_record_of_a_demo_is_complete(demo: Any) -> None:
    assert {path.name for path in demo.folder.iterdir()} == IN_A_RECORD
    told = manifest(demo.folder)
    assert told["status"] == "finished"
    assert len(told["models"]) == 8
    assert all(len(sha256) == 64 for sha256 in told["models"].values())
    lines = [json.loads(line) for line in (demo.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {**lines[0], "per_turn": lines[1:]} == demo.figures
    page = (demo.folder / "timeline.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


# ---------------------------------------------------------------- recordings


@pytest.fixture(scope="module")
def clip(hold: Hold) -> Any:
    path = CLIPS / "EN2001a_0000000_trn00.flac"
    if not path.is_file():
        pytest.skip(f"no AMI recording at {path}")
    return path, hold("replay", path)


def test_a_recorded_meeting_is_answered_to_its_end(clip: Any) -> None:
    path, held = clip
    assert held.figures["turns"] >= 1
    assert held.figures["frames_dropped"] == 0
    assert held.events[-1].kind == "session_ended"
    assert manifest(held.folder)["purpose"] == f"replay of {path.name}"
    assert {p.name for p in held.folder.iterdir()} == IN_A_RECORD
    sound, rate = soundfile.read(held.folder / "conversation.wav", dtype="float32")
    original, original_rate = soundfile.read(path, dtype="float32")
    assert len(sound) / rate >= len(original) / original_rate
    heard = soxr.resample(sound[:, 0], rate, original_rate)[: len(original)]
    assert np.corrcoef(heard, original)[0, 1] > 0.99, "the left channel is the recording"


def test_a_recorded_meeting_gives_the_same_trace_again(clip: Any, hold: Hold) -> None:
    path, held = clip
    again = hold("replay", path)
    assert (again.folder / "trace.jsonl").read_bytes() == (held.folder / "trace.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("name", "rate", "channels"), [("phone.wav", 8_000, 2), ("cd.flac", 44_100, 1), ("studio.wav", 48_000, 2)]
)
def test_recordings_of_any_rate_and_channel_count_are_understood(
    hold: Hold, tmp_path: Path, name: str, rate: int, channels: int
) -> None:
    from hibari import Hibari

    spoken = np.asarray(Hibari()("What is the time in London?", seed=0), np.float32)
    mono = soxr.resample(np.pad(spoken, (12_000, 48_000)), 24_000, rate)
    soundfile.write(tmp_path / name, np.stack([mono] * channels, axis=1), rate)
    held = hold("replay", tmp_path / name, "--set", "engine.max_reply_tokens=4")
    (row,) = held.figures["per_turn"]
    assert "time in london" in row["user"].lower()
    assert row["agent"]


# ---------------------------------------------------------------- Ctrl-C


@pytest.fixture(scope="module")
def stopped(models: Registry, pads_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A demo in real time, interrupted while a reply is being computed or spoken."""
    runs = tmp_path_factory.mktemp("stopped")
    words = [*pads_command, "demo", "--clock", "real", "--json", "--set", f"run.dir={runs}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talk:
        assert talk.stdout and talk.stderr
        try:
            trace = _wait_for(lambda: next(iter(runs.glob("*/trace.jsonl")), None), talk)
            _wait_for(lambda: "first_token" in trace.read_text(encoding="utf-8"), talk)
            talk.send_signal(signal.SIGINT)
            code = talk.wait(timeout=60)
        finally:
            talk.kill()
        return code, talk.stdout.read().decode(), talk.stderr.read().decode(), trace.parent


def _wait_for(found: Callable[[], Any], talk: subprocess.Popen[bytes]) -> Any:
    while not (result := found()):
        assert talk.poll() is None, "the talk ended by itself"
        time.sleep(0.05)
    return result


def test_ctrl_c_ends_a_talk_with_one_line_and_code_130(stopped: Any) -> None:
    code, out, err, _ = stopped
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "error: stopped; the run record holds what was done"
    assert err.count("\n") == 3
    assert "Traceback" not in err


def test_a_stopped_talk_leaves_a_whole_trace_and_record(stopped: Any) -> None:
    folder = stopped[3]
    events = read(folder / "trace.jsonl")
    assert (events[0].kind, events[-1].kind) == ("session_started", "session_ended")
    assert (folder / "trace.jsonl").read_bytes().endswith(b"\n")
    assert [event.t_s for event in events] == sorted(event.t_s for event in events)
    assert manifest(folder)["status"] == "stopped"
    assert {path.name for path in folder.iterdir()} == IN_A_RECORD
    figures = json.loads((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert figures["clock"] == "real"
    assert figures["loop_lag_p99_ms"] is not None
    sound = soundfile.info(folder / "conversation.wav")
    assert sound.duration == pytest.approx(events[-1].t_s, abs=1.0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_replay_holds_only_what_was_heard(
    models: Registry, pads_command: list[str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    soundfile.write(tmp_path / "long.wav", np.random.default_rng(0).normal(0, 1e-4, 600 * 16_000), 16_000)
    runs = tmp_path / "runs"
    words = [*pads_command, "replay", os.fspath(tmp_path / "long.wav"), "--clock", "real", "--set", f"run.dir={runs}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talk:
        try:
            trace = _wait_for(lambda: next(iter(runs.glob("*/trace.jsonl")), None), talk)
            _wait_for(lambda: trace.stat().st_size, talk)
            time.sleep(1.0)
            talk.send_signal(number)
            assert talk.wait(timeout=60) == code
        finally:
            talk.kill()
    ended = read(trace)[-1]
    assert ended.kind == "session_ended"
    assert manifest(trace.parent)["status"] == "stopped"
    assert soundfile.info(trace.parent / "conversation.wav").duration == pytest.approx(ended.t_s, abs=1.0)
