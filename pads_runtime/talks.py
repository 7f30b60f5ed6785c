"""Whole talks from start to record: the demo, a replay, each leaving its run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from . import assemble, clock, timeline
from .audio.files import read_audio
from .audio.sink import WavSink, write_conversation
from .audio.source import SamplesSource
from .chat import Chat, chat_summary, typed_lines
from .clock import LoopClock
from .config import PadsSettings, load_costs
from .demo import DemoScript, ScriptedUser, Utterance, load_script, speak_script
from .errors import ContextFull, InputError, PadsError
from .frames import FRAME_S, SAMPLE_RATE, Samples
from .models import Registry
from .process import peak_rss_mb
from .runs import RunRecord, command_line
from .session import Session
from .speech.protocol import Synthesizer
from .summary import summarise
from .trace import Trace

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Talk:
    """What a talk left behind: its figures and its run folder."""

    summary: dict[str, Any]
    folder: Path


def demo(settings: PadsSettings, progress: Progress, name: str = "demo") -> Talk:
    """Hold the scripted talk. Raises PadsError."""
    script = load_script(settings.demo.script)
    purpose = "scripted talk: a synthesised user with pauses inside and at the end of turns"
    with begin_record(settings, name, purpose) as record:
        progress = also_logged(progress, record)
        registry = Registry.load()
        assemble.check(settings, registry)
        progress("loading models")
        voice = assemble.synthesizer(settings.speech, registry)
        utterances = speak_script(script, voice)
        progress(f"talking: {len(utterances)} turns, {settings.clock.kind} clock")
        return _hold(settings, registry, record, voice, lambda c: _Scripted(script, utterances, c))


def replay(settings: PadsSettings, path: Path, progress: Progress) -> Talk:
    """Let a recording be the user. Raises PadsError."""
    purpose = f"replay of {path.name}"
    with begin_record(settings, f"replay-{path.stem}", purpose) as record:
        samples = read_audio(path, settings.audio.channel)
        if len(samples) < SAMPLE_RATE * FRAME_S:
            raise InputError(
                f"'{path}' is shorter than one frame of {FRAME_S * 1000:.0f} ms; nothing can be heard in it"
            )
        progress = also_logged(progress, record)
        registry = Registry.load()
        assemble.check(settings, registry)
        progress("loading models")
        voice = assemble.synthesizer(settings.speech, registry)
        progress(f"replaying {len(samples) / SAMPLE_RATE:.1f} s, {settings.clock.kind} clock")
        return _hold(settings, registry, record, voice, lambda c: _Recorded(samples, c))


class _Scripted:
    """The scripted user as a talk's first party."""

    def __init__(self, script: DemoScript, utterances: Sequence[Utterance], clock_: LoopClock) -> None:
        self.source = ScriptedUser(utterances, script.gap_s, clock_)
        self.on_idle: Callable[[], None] | None = self.source.agent_idle

    def samples(self) -> Samples:
        return np.concatenate([np.zeros(0, np.int16), *self.source.heard])

    def speech_ends_s(self) -> Sequence[float]:
        return self.source.speech_ends_s


class _Recorded:
    """A recording as a talk's first party."""

    def __init__(self, samples: Samples, clock_: LoopClock) -> None:
        self.source = SamplesSource(samples, clock_)
        self.on_idle: Callable[[], None] | None = None
        self._samples = samples

    def samples(self) -> Samples:
        return self._samples

    def speech_ends_s(self) -> Sequence[float]:
        return ()


def _hold(
    settings: PadsSettings,
    registry: Registry,
    record: RunRecord,
    voice: Synthesizer,
    party: Callable[[LoopClock], _Scripted | _Recorded],
) -> Talk:
    costs = load_costs(settings.clock.costs)
    parts = assemble.load(settings, registry, voice)
    began_s = time.monotonic()
    figures: dict[str, Any] = {}

    async def main() -> None:
        clock_ = LoopClock()
        user = party(clock_)
        sink = WavSink(voice.sample_rate)
        with Trace(record.trace_path) as trace:
            stages = parts.between(user.source, sink)
            session = Session(stages, settings, costs, clock_, trace, on_idle=user.on_idle)
            try:
                await session.run()
            finally:  # a talk that was stopped leaves the same things, as far as it went
                figures.update(summarise(trace.events, user.speech_ends_s(), session.lags_s))
                sides = _Sides.until(clock_.now(), user.samples(), sink)
                _draw(settings, record.path, figures, trace, sides)

    try:
        clock.run(main, virtual=settings.clock.kind == "virtual", speed=settings.clock.speed)
    finally:
        talk = finished(settings, record, figures, began_s)  # also of a talk that was stopped
    return talk


@dataclass(frozen=True)
class _Sides:
    """Both sides of a talk, equally long: the user at SAMPLE_RATE, the agent at ``agent_rate``."""

    user: Samples
    agent: Samples
    agent_rate: int

    @classmethod
    def until(cls, end_s: float, user: Samples, sink: WavSink) -> _Sides:
        length = round(end_s * SAMPLE_RATE)
        heard = np.pad(user[:length], (0, max(0, length - len(user))))
        return cls(heard, sink.render(end_s), sink.sample_rate)


def _draw(settings: PadsSettings, folder: Path, figures: dict[str, Any], trace: Trace, sides: _Sides) -> None:
    """Write the talk's sound and its page."""
    write_conversation(folder / "conversation.wav", sides.user, sides.agent, sides.agent_rate)
    page = {**figures, "theta_end": settings.gate.theta_end, "theta_deep": settings.gate.theta_deep}
    page["wasted_tokens"] = figures["spec_wasted_tokens"]
    user, agent = loudness_of(sides.user, SAMPLE_RATE), loudness_of(sides.agent, sides.agent_rate)
    timeline.write(folder / "timeline.html", trace.events, page, folder.name, {"user": user, "agent": agent})


def finished(settings: PadsSettings, record: RunRecord, figures: dict[str, Any], began_s: float) -> Talk:
    """What the talk comes to, written into its record. ``began_s`` is on the monotonic clock."""
    summary = {
        "run": str(record.path),
        "clock": settings.clock.kind,
        "gate": settings.gate.mode.value,
        **figures,
        "wall_s": round(time.monotonic() - began_s, 3),
        "peak_rss_mb": peak_rss_mb(),
    }
    record.metrics(**{key: value for key, value in summary.items() if key != "per_turn"})
    for row in figures.get("per_turn", ()):
        record.metrics(**row)
    return Talk(summary, record.path)


def begin_record(settings: PadsSettings, name: str, purpose: str) -> RunRecord:
    """The record of a talk with these settings, with the hashes of its models. Raises PadsError."""
    try:
        hashes = assemble.model_hashes(settings, Registry.load())
    except PadsError as exc:
        hashes = {"error": str(exc)}
    return RunRecord.begin(name, purpose, settings, hashes, command_line())


def also_logged(progress: Progress, record: RunRecord) -> Progress:
    """``progress`` that is kept in the record's log as well."""

    def tell(text: str) -> None:
        progress(text)
        record.log(text)

    return tell


def loudness_of(samples: Samples, rate: int, step_s: float = 0.05) -> list[float]:
    """Root mean square of each ``step_s``, as a share of full scale."""
    step = round(rate * step_s)
    blocks = samples[: len(samples) // step * step].reshape(-1, step).astype(np.float64) / 32768
    levels: list[float] = np.sqrt((blocks**2).mean(axis=1)).round(4).tolist()
    return levels


def chat(
    settings: PadsSettings, stream: BinaryIO, progress: Progress, show: Callable[[str], None] | None
) -> dict[str, Any]:
    """Typed turns from ``stream``. With ``show`` replies appear as they come, and on a terminal errors end no talk."""
    with begin_record(settings, "chat", "typed turns") as record:
        progress = also_logged(progress, record)
        registry = Registry.load()
        progress("loading models")
        acts = assemble.acts(settings.acts, registry)
        engine = assemble.engine(settings.engine, registry, acts)

        async def main() -> dict[str, Any]:
            with Trace(record.trace_path) as trace:
                talk = Chat(engine, acts, settings, LoopClock(), trace)
                try:
                    await _type(talk, stream, show)
                finally:
                    talk.close()
                    for turn in talk.turns:
                        record.metrics(**asdict(turn))
                return chat_summary(talk.turns)

        return {"run": str(record.path), **clock.run(main, virtual=False)}


async def _type(talk: Chat, stream: BinaryIO, show: Callable[[str], None] | None) -> None:
    person = show is not None and stream.isatty()
    async for text in typed_lines(stream, (lambda: show("you> ")) if show is not None and person else lambda: None):
        try:
            await talk.say(text, show or (lambda _: None))
        except (ContextFull, InputError) as exc:
            if show is None or not person:
                raise
            show(f"error: {exc}")
        if show is not None:
            show("\n")
