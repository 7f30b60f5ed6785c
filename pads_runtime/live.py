"""A live talk from the devices to its record: ``pads talk``.

::

    LiveAudio.source ──> Recording ──> Session <──> LiveAudio.sink
                                          │ trace ──> view (screen or lines), MQTT, trace.jsonl ──> pads dashboard
    keys, signals, MQTT ──Controls────────┘

The devices, the bus and the view are there for the talk: none of them can end it but by saying so, and whatever ends
it, its record is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol

from . import assemble, clock
from .audio.protocol import AudioSink, AudioSource
from .clock import Clock, LoopClock
from .config import AudioSettings, PadsSettings, load_costs
from .controls import Controls
from .ending import Ending
from .errors import ConfigError, PadsError
from .live_page import PAGE_S, draw
from .meter import Meter
from .models import Registry
from .recording import Recording
from .runs import RunRecord
from .session import Session
from .summary import summarise
from .talks import Progress, Talk, also_logged, begin_record, finished
from .trace import Trace, stream
from .view.keys import Command, keys, readable
from .view.terminal import Look
from .view.views import LineView, ScreenView, View

KEEP_EVENTS = 20_000
"""Events of the trace that stay in memory, for the page at the end; the file has all."""


class Audio(Protocol):
    """Microphone and loudspeaker of a talk: ``audio.live.LiveAudio``, or a fake."""

    on_event: Callable[..., None] | None

    @property
    def source(self) -> AudioSource: ...

    @property
    def sink(self) -> AudioSink: ...

    def status(self) -> Any:
        """An ``audio.live.AudioStatus``."""
        ...

    def close(self) -> None: ...


OpenAudio = Callable[[AudioSettings, int, Clock], Audio]


class Shown(Enum):
    """How the talk is shown while it goes on."""

    SCREEN = "screen"
    """The whole terminal, and keys."""
    LINES = "lines"
    """A line a fact, on stdout."""
    LINES_ON_STDERR = "stderr"
    """The same beside a machine-readable result."""


@dataclass(frozen=True)
class LiveTalk:
    """A talk that was held, and whether Ctrl-C ended it."""

    talk: Talk
    interrupted: bool


def talk(settings: PadsSettings, progress: Progress, shown: Shown, open_audio: OpenAudio | None = None) -> LiveTalk:
    """Talk with whoever is at the microphone until told to end. Raises PadsError, KeyboardInterrupt."""
    if settings.clock.kind != "real":
        raise ConfigError("a live talk runs in real time: clock.kind must be real")
    ending = Ending()
    done: list[Talk] = []
    try:
        with begin_record(settings, "talk", "live talk") as record:
            progress = also_logged(progress, record)
            with ending.before():
                models = _load(settings, progress, check=open_audio is None)
            done.append(_hold(settings, record, models, _Outside(shown, ending, open_audio or _devices, progress)))
            if ending.interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if not done:
            raise
    return LiveTalk(done[0], ending.interrupted)


@dataclass(frozen=True)
class _Models:
    """What is loaded before the devices are opened."""

    parts: assemble.Parts

    @property
    def voice_rate(self) -> int:
        return self.parts.synthesizer.sample_rate


@dataclass(frozen=True)
class _Outside:
    """What a talk has to do with beside its models."""

    shown: Shown
    ending: Ending
    open_audio: OpenAudio
    progress: Progress


def _load(settings: PadsSettings, progress: Progress, check: bool) -> _Models:
    """Whether all is there is found out before time goes into loading."""
    registry = Registry.load()
    assemble.check(settings, registry)
    if check:
        from .audio.devices import find_device

        find_device(settings.audio.input_device, "input")
        find_device(settings.audio.output_device, "output")
    progress("loading models")
    return _Models(assemble.load(settings, registry))


def _devices(settings: AudioSettings, voice_rate: int, clock_: Clock) -> Audio:
    from .audio.live import LiveAudio

    return LiveAudio(settings, voice_rate, clock_)


# ---------------------------------------------------------------- the talk


def _hold(settings: PadsSettings, record: RunRecord, models: _Models, outside: _Outside) -> Talk:
    began_s = time.monotonic()
    figures: dict[str, Any] = {}

    async def main() -> None:
        clock_ = LoopClock()
        with Trace(record.trace_path, keep=KEEP_EVENTS) as trace:
            audio = outside.open_audio(settings.audio, models.voice_rate, clock_)
            sound = Recording(audio.source, audio.sink, PAGE_S, settings.talk.record_minutes * 60.0)
            stages = models.parts.between(sound, audio.sink)
            session = Session(stages, settings, load_costs(settings.clock.costs), clock_, trace)
            audio.on_event = session.emit
            try:
                await _converse(settings, session, trace, _Beside(audio, clock_, record, outside))
            finally:
                end_s = clock_.now()
                audio.on_event = None  # what the devices do from here on is no part of the talk
                audio.close()
                try:
                    figures.update(summarise(stream(record.trace_path), (), session.lags_s))
                    figures.update(audio=asdict(audio.status()))
                    draw(settings, record.path, figures, trace.events, sound, end_s)
                except PadsError as exc:  # the talk's own end, or its own error, comes first
                    outside.progress(f"warning: {exc}")

    try:
        clock.run(main, virtual=False)
    except asyncio.CancelledError:  # a second Ctrl-C
        raise KeyboardInterrupt from None
    finally:
        talk = finished(settings, record, figures, began_s)  # also of a talk that was stopped
    return talk


@dataclass(frozen=True)
class _Beside:
    """What runs beside the session."""

    audio: Audio
    clock: Clock
    record: RunRecord
    outside: _Outside


async def _converse(settings: PadsSettings, session: Session, trace: Trace, beside: _Beside) -> None:
    """Run the session to its end, with a view, keys, signals and the bus beside it; none of them outlives it."""
    view = _view(settings, session, beside)
    trace.listen(view.listener)
    bus = _bus(settings, session)
    if bus is not None:
        trace.listen(bus.listener)
    here = asyncio.current_task()
    assert here is not None
    sides: list[asyncio.Task[None]] = []
    beside.outside.progress("listening; speak when you like" + _how_to_end(beside.outside.shown))
    try:
        with (
            beside.outside.ending.during(session.quit, here.cancel),
            _keyboard(session, view, beside),
        ):
            sides.append(asyncio.create_task(_side("view", view.run(), session, ends_talk=True)))
            if bus is not None:
                sides.append(asyncio.create_task(_side("bus", bus.run(), session, ends_talk=False)))
            await session.run()
    finally:
        for side in sides:
            side.cancel()
        if sides:
            await asyncio.wait(sides)
        await view.close()


async def _side(name: str, work: Coroutine[Any, Any, None], session: Session, ends_talk: bool) -> None:
    """Something beside the talk: if it fails, the trace says so and the talk goes on.

    Where nobody sees it any more (a closed pipe, a lost terminal), it ends in good order: a microphone that listens
    unseen is nobody's wish.
    """
    try:
        await work
    except OSError as exc:
        session.emit(f"{name}_failed", error=f"{exc.strerror or exc}")
        if ends_talk:
            session.quit()
    except Exception as exc:
        session.emit(f"{name}_failed", error=f"{type(exc).__name__}: {exc}")


def _bus(settings: PadsSettings, session: Session) -> Any:
    if not settings.bus.enabled:
        return None
    from .bus.mqtt import MqttBus

    bus = MqttBus(settings.bus, session)
    bus.on_state = lambda kind, fields: session.emit(kind, **fields)
    return bus


# ---------------------------------------------------------------- what is seen, and keys


def _view(settings: PadsSettings, session: Session, beside: _Beside) -> View:
    match beside.outside.shown:
        case Shown.SCREEN:
            look = Look(settings.gate.theta_end, settings.gate.theta_deep, keys=_keys_here())
            return ScreenView(beside.clock, look, Meter(session, beside.audio.status).read)
        case Shown.LINES:
            return LineView(sys.stdout)
        case Shown.LINES_ON_STDERR:
            return LineView(sys.stderr)


def _keys_here() -> bool:
    return sys.stdin is not None and readable(sys.stdin.fileno())


def _how_to_end(shown: Shown) -> str:
    return "; Ctrl-C ends the talk" if shown is not Shown.SCREEN or not _keys_here() else "; q ends the talk"


@contextlib.contextmanager
def _keyboard(controls: Controls, view: View, beside: _Beside) -> Iterator[None]:
    if beside.outside.shown is not Shown.SCREEN or not _keys_here():
        yield
        return

    def obey(command: Command) -> None:
        match command:
            case Command.MUTE:
                controls.mute(not view.seen.muted)
            case Command.STOP:
                controls.stop_speaking()
            case Command.REPEAT:
                controls.repeat()
            case Command.QUIT:
                controls.quit()

    with keys(sys.stdin.fileno(), obey, controls.quit):
        yield
