"""``pads talk`` with fakes for devices and models: whatever ends it, its record is complete."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pads_runtime import assemble, live, live_page
from pads_runtime.audio.live import AudioStatus
from pads_runtime.clock import Clock
from pads_runtime.config import AudioSettings, PadsSettings, load
from pads_runtime.errors import ConfigError, DeviceError
from pads_runtime.frames import AudioFrame, Samples, TraceEvent
from pads_runtime.live import LiveTalk, Shown
from pads_runtime.testing import (
    FixedPredictor,
    KeywordActs,
    LoudnessActivity,
    MemorySink,
    Script,
    ScriptRecognizer,
    ScriptSource,
    SentenceSplitter,
    ToneVoice,
    WordEngine,
)
from pads_runtime.trace import read

SCRIPT = Script.of((0.1, "what is it"), word_s=0.1, tail_s=0.8)
STATUS = AudioStatus("mic", 16000, True, "speaker", 24000, True, 20.0, 0, 0, 0, 0, 0.1, "off", "asked for", None)


class PlayingSink(MemorySink):
    """Knows what it played."""

    def window(self, start_s: float, end_s: float) -> Samples:
        return np.full(super().window(start_s, end_s).shape, 100, np.int16)


class FakeAudio:
    """A microphone that hears the script, and then what ``then`` says: an end, or a fault."""

    def __init__(self, clock: Clock, then: Callable[[], None] = lambda: None) -> None:
        self.source = _Source(ScriptSource(SCRIPT, clock), then)
        self.sink = PlayingSink()
        self.on_event: Callable[..., None] | None = None
        self.closed = False

    def status(self) -> AudioStatus:
        return STATUS

    def close(self) -> None:
        self.closed = True


@dataclass
class _Source:
    script: ScriptSource
    then: Callable[[], None]

    async def frames(self) -> AsyncIterator[AudioFrame]:
        async for frame in self.script.frames():
            yield frame
        self.then()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is looked for or loaded."""

    def fakes(*_: Any, **__: Any) -> assemble.Parts:
        return assemble.Parts(
            voice_activity=LoudnessActivity(),
            predictor=FixedPredictor(0.9),
            recognizer=ScriptRecognizer(SCRIPT),
            acts=KeywordActs(),
            engine=WordEngine(reply_words=3),
            synthesizer=ToneVoice(),
            splitter=SentenceSplitter,
        )

    monkeypatch.setattr(assemble, "load", fakes)
    monkeypatch.setattr(assemble, "check", lambda *_: None)
    monkeypatch.setattr(assemble, "model_hashes", lambda *_: {"fake": "0"})


@pytest.fixture
def talked(tmp_path: Path, parts: None) -> Callable[..., LiveTalk]:
    """``talked(then=..., **settings)`` holds the talk and returns it."""

    def hold(then: Callable[[], None] = lambda: None, overrides: tuple[str, ...] = ()) -> LiveTalk:
        quick = ("turn.confirm_min_s=0.3", "turn.confirm_max_s=0.4", f"run.dir={tmp_path / 'runs'}")
        settings = load("talk", [*quick, *overrides])
        return live.talk(settings, lambda _: None, Shown.LINES, lambda s, rate, clock: FakeAudio(clock, then))

    return hold


def record(folder: Path) -> tuple[dict[str, Any], list[TraceEvent]]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return manifest, read(folder / "trace.jsonl")


def only(runs: Path) -> Path:
    (folder,) = runs.iterdir()
    return folder


def test_a_talk_is_answered_and_leaves_a_whole_record(
    talked: Callable[..., LiveTalk], capsys: pytest.CaptureFixture[str]
) -> None:
    held = talked()
    manifest, events = record(held.talk.folder)
    assert not held.interrupted
    assert manifest["status"] == "finished"
    assert manifest["purpose"] == "live talk"
    assert manifest["pid"] == os.getpid()
    assert [event.kind for event in events][-1] == "session_ended"
    assert held.talk.summary["turns"] == 1
    assert held.talk.summary["audio"]["input_device"] == "mic"
    metrics = [json.loads(line) for line in (held.talk.folder / "metrics.jsonl").read_text().splitlines()]
    assert (metrics[0]["turns"], metrics[1]["turn"]) == (1, 1)
    page = (held.talk.folder / "timeline.html").read_text(encoding="utf-8")
    assert 'class="wave agent"' in page, "how loud both sides were is drawn"
    assert not (held.talk.folder / "conversation.wav").exists(), "sound is kept only if asked for"
    lines = capsys.readouterr().out
    assert "the prepared reply is used" in lines
    assert f"PADS said: {held.talk.summary['per_turn'][0]['agent']}" in lines


def test_its_sound_is_kept_if_asked_for(talked: Callable[..., LiveTalk]) -> None:
    soundfile = pytest.importorskip("soundfile")
    held = talked(overrides=("talk.record_minutes=1",))
    sound, rate = soundfile.read(held.talk.folder / "conversation.wav", dtype="int16")
    assert rate == 16_000
    assert abs(len(sound) / rate - SCRIPT.end_s) < 0.5
    assert sound[:, 0].max() == 1000, "left: the user"
    assert sound[:, 1].max() == 100, "right: PADS"


@pytest.mark.parametrize(
    ("number", "interrupted", "status"),
    [(signal.SIGINT, True, "stopped"), (signal.SIGTERM, False, "finished")],
)
def test_a_signal_ends_it_in_order(
    talked: Callable[..., LiveTalk], number: signal.Signals, interrupted: bool, status: str
) -> None:
    handler = signal.getsignal(number)
    held = talked(lambda: os.kill(os.getpid(), number))
    manifest, events = record(held.talk.folder)
    assert (held.interrupted, manifest["status"]) == (interrupted, status)
    assert [event.kind for event in events][-1] == "session_ended"
    assert [event for event in events if event.kind == "quit_asked"]
    assert (held.talk.folder / "timeline.html").exists()
    assert signal.getsignal(number) is handler


def test_a_second_ctrl_c_insists_and_the_record_is_closed_all_the_same(
    talked: Callable[..., LiveTalk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr(live.Session, "run", never)
    with pytest.raises(KeyboardInterrupt):
        talked()
    manifest = json.loads((only(tmp_path / "runs") / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "stopped"


def test_a_device_that_cannot_be_opened_is_told_and_recorded(tmp_path: Path, parts: None) -> None:
    def busy(settings: AudioSettings, rate: int, clock: Clock) -> Any:
        raise DeviceError("microphone 'mic' is busy; close the program that uses it")

    settings = load("talk", [f"run.dir={tmp_path / 'runs'}"])
    with pytest.raises(DeviceError, match="is busy"):
        live.talk(settings, lambda _: None, Shown.LINES, busy)
    manifest, events = record(only(tmp_path / "runs"))
    assert manifest["status"] == "failed"
    assert "is busy" in manifest["error"]
    assert events == []


def test_a_device_that_fails_in_the_talk_ends_it_with_its_error_and_a_whole_record(
    talked: Callable[..., LiveTalk], tmp_path: Path
) -> None:
    def fail() -> None:
        raise DeviceError("the microphone's audio could not be processed")

    with pytest.raises(DeviceError, match="could not be processed"):
        talked(fail)
    folder = only(tmp_path / "runs")
    manifest, events = record(folder)
    assert manifest["status"] == "failed"
    assert [event.kind for event in events][-2:] == ["session_failed", "session_ended"]
    assert (folder / "timeline.html").exists()
    figures = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    assert {"turns", "prepared", "committed", "wall_s"} <= set(figures)


def test_a_view_that_nobody_reads_any_more_ends_the_talk_in_order(
    talked: Callable[..., LiveTalk], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(live.LineView):
        async def run(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(live, "LineView", Gone)
    held = talked()
    events = record(held.talk.folder)[1]
    assert [event.fields["error"] for event in events if event.kind == "view_failed"] == ["Broken pipe"]
    assert [event for event in events if event.kind == "quit_asked"]
    assert held.talk.summary["turns"] == 0


def test_a_bus_that_breaks_is_noted_and_the_talk_goes_on(
    talked: Callable[..., LiveTalk], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def listener(self, event: TraceEvent) -> None:
            pass

        async def run(self) -> None:
            raise RuntimeError("what nobody expected")

    monkeypatch.setattr(live, "_bus", lambda settings, session: Broken())
    held = talked()
    failed = [event.fields for event in record(held.talk.folder)[1] if event.kind == "bus_failed"]
    assert failed == [{"error": "RuntimeError: what nobody expected"}]
    assert held.talk.summary["turns"] == 1


def test_a_broker_that_is_not_there_is_noted_and_the_talk_goes_on(talked: Callable[..., LiveTalk]) -> None:
    held = talked(overrides=("bus.enabled=true", "bus.host=127.0.0.1", "bus.port=1"))
    assert [event for event in record(held.talk.folder)[1] if event.kind == "bus_lost"]
    assert held.talk.summary["turns"] == 1


def test_devices_tell_their_troubles_in_the_trace(tmp_path: Path, parts: None) -> None:
    made: list[FakeAudio] = []

    def opened(settings: AudioSettings, rate: int, clock: Clock) -> FakeAudio:
        def lose() -> None:
            assert made[0].on_event is not None
            made[0].on_event("device_lost", direction="input", device="mic", reason="unplugged")

        made.append(FakeAudio(clock, lose))
        return made[0]

    held = live.talk(load("talk", [f"run.dir={tmp_path / 'runs'}"]), lambda _: None, Shown.LINES, opened)
    lost = [event.fields for event in record(held.talk.folder)[1] if event.kind == "device_lost"]
    assert lost == [{"direction": "input", "device": "mic", "reason": "unplugged"}]
    assert made[0].closed


def test_virtual_time_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^a live talk runs in real time"):
        live.talk(PadsSettings(), lambda _: None, Shown.LINES)


def test_the_page_of_a_long_talk_begins_where_its_last_minutes_do() -> None:
    events = [TraceEvent(float(t), "speech_started", {"onset_s": t - 0.5, "turn": 1}) for t in range(0, 100, 10)]
    later = live_page.shifted(events, 75.0)
    assert [(event.t_s, event.fields["onset_s"]) for event in later] == [(5.0, 4.5), (15.0, 14.5)]
    assert live_page.shifted(events, 0.0) == events
