"""Microphone and loudspeaker of a talk: both devices, what runs beside them, and their coming back when they go.

::

    device ──callback──> Ring ──> 16 kHz mono, times ──> echo canceller ──> LiveSource ──> session
                                                              ^ what sounded
    device <─callback── Player <────────────────────────── LiveSink <──────────────────── session

Two threads: *ears* makes frames, *watch* looks after the devices. A callback copies; all else happens in these two.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..clock import Clock
from ..config import AudioSettings
from ..errors import DeviceError
from ..frames import FRAME_SAMPLES, SAMPLE_RATE, AudioFrame
from .echo import EchoCanceller, choose_echo
from .framing import FrameMaker
from .live_sink import LiveSink
from .live_source import LiveSource
from .microphone import Microphone
from .opening import Opened, open_device
from .player import Player
from .portaudio import Backend, DeviceFact, Direction, PortAudio, Stream, StreamFormat
from .reference import Reference
from .status import AudioStatus
from .timing import CallbackTimes, p99_ms
from .watch import RESCAN_AFTER, Buffer, Line

EARS_PERIOD_S = 0.01
WATCH_PERIOD_S = 0.05
THREADS_END_WITHIN_S = 2.0
OnEvent = Callable[..., None]
"""``(kind, **fields)`` with plain JSON fields, on the event loop."""


class LiveAudio:
    """Opens both devices and keeps them open until ``close``. Raises DeviceError when one cannot be opened.

    ``on_event(kind, **fields)`` is told of ``device_lost``, ``device_reopened``, ``audio_overrun``, ``audio_underrun``
    and ``speaker_buffer_deepened``, on the event loop that reads the source; before there is one, events wait.
    """

    source: LiveSource
    sink: LiveSink

    def __init__(
        self,
        settings: AudioSettings,
        voice_rate: int,
        clock: Clock,
        *,
        backend: Backend | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self._settings, self._voice_rate, self._clock = settings, voice_rate, clock
        self._backend = backend or PortAudio()
        self.on_event = on_event
        self._untold: list[tuple[str, dict[str, Any]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._input_times = CallbackTimes()
        self._overruns_before = self._underruns_before = self._reopened = 0
        self._told_overruns = self._told_underruns = 0
        self._buffer = Buffer(settings.output_latency_s)
        self._lines = {d: Line(settings.dead_after_s) for d in _DIRECTIONS}
        self._opened: dict[Direction, Opened] = {}
        self._maker = FrameMaker()
        self._ended, self._poke, self._restart = threading.Event(), threading.Event(), threading.Event()
        self.source = LiveSource(settings.queue_frames, self._listened)
        try:
            self._microphone = self._open_input()
            self._player, self._reference = self._open_output()
        except DeviceError:
            self._close_streams()
            raise
        self.sink = LiveSink(voice_rate, self._player, self._reference, self._ask_restart)
        devices = [self._opened[d].device.name for d in _DIRECTIONS]
        self._choice = choose_echo(settings.echo, devices[0], devices[1])
        self._canceller = EchoCanceller() if self._choice.mode == "webrtc" else None
        self._stumbles = (self._reference, 0, 0)
        self._threads = [
            threading.Thread(target=work, name=f"pads-audio-{name}", daemon=True)
            for name, work in (("ears", self._ears), ("watch", self._watch))
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------ told by the talk

    def status(self) -> AudioStatus:
        """The present state, from any thread."""
        player, microphone = self._player, self._microphone
        heard, spoken = self._opened["input"], self._opened["output"]
        return AudioStatus(
            input_device=heard.device.name,
            input_rate=heard.form.rate,
            input_alive=self._lines["input"].alive,
            output_device=spoken.device.name,
            output_rate=spoken.form.rate,
            output_alive=self._lines["output"].alive,
            output_delay_ms=player.delay_s * 1000.0,
            input_overruns=self._overruns_before + microphone.overruns,
            output_underruns=self._underruns_before + player.underruns,
            frames_lost=self._maker.frames_lost + self.source.frames_lost,
            reopened=self._reopened,
            callback_ms_p99=p99_ms(self._input_times, player.times),
            echo=self._choice.mode,
            echo_why=self._choice.why,
            echo_reduction_db=self._canceller.reduction_db if self._canceller is not None else None,
        )

    def stop(self) -> None:
        """End the source in order; what the agent is saying can still be heard. Idempotent, from any thread."""
        self.source.end()

    def close(self) -> None:
        """End the source, silence the speaker and close both devices. Idempotent."""
        self.source.end()
        self._ended.set()
        self._poke.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(THREADS_END_WITHIN_S)
        if not any(thread.is_alive() for thread in self._threads):  # else a driver hangs; it must not hang us too
            self._close_streams()

    # ------------------------------------------------------------ devices

    def _open_input(self) -> Microphone:
        made: list[Microphone] = []

        def open_with(device: DeviceFact, form: StreamFormat) -> Stream:
            made.append(Microphone(form.rate, form.channels, self._clock.now, self._input_times))
            return self._backend.open_input(device, form, made[-1].hear)

        s = self._settings
        self._opened["input"] = open_device(
            self._backend, s.input_device, "input", SAMPLE_RATE, s.input_latency_s, open_with
        )
        return made[-1]

    def _open_output(self, old: Player | None = None) -> tuple[Player, Reference]:
        made: list[Player] = []

        def open_with(device: DeviceFact, form: StreamFormat) -> Stream:
            same = old is not None and old.rate == form.rate
            made.append(old if same and old is not None else Player(form.rate, self._clock.now))
            return self._backend.open_output(device, form, made[-1].fill)

        s = self._settings
        self._opened["output"] = open_device(
            self._backend, s.output_device, "output", self._voice_rate, self._buffer.latency_s, open_with
        )
        return made[-1], self._reference if made[-1] is old else Reference(made[-1])

    def _close_streams(self) -> None:
        for opened in self._opened.values():
            opened.stream.close()

    # ------------------------------------------------------------ the ears' thread

    def _ears(self) -> None:
        try:
            while not self._ended.wait(EARS_PERIOD_S):
                self._reference.update()
                self.source.feed([self._without_echo(frame) for frame in self._frames()])
        except Exception as exc:  # nothing here is expected to fail; a deaf talk that goes on would be worse
            self.source.end(f"the microphone's audio could not be processed: {type(exc).__name__}: {exc}")

    def _frames(self) -> list[AudioFrame]:
        if not self.source.listening:  # what was said before the talk began is no part of it
            self._maker = FrameMaker()
        if self._lines["input"].alive:
            return self._microphone.collect(self._maker)
        return self._maker.silence(self._clock.now())

    def _without_echo(self, frame: AudioFrame) -> AudioFrame:
        if self._canceller is None:
            return frame
        played = self._reference.take(frame.end_s, FRAME_SAMPLES)
        stumbles = (self._reference, self._player.underruns, self._reference.resyncs)
        if stumbles != self._stumbles:
            self._stumbles = stumbles
            self._canceller.disturbed()
        return replace(frame, samples=self._canceller.process(frame.samples, played))

    # ------------------------------------------------------------ the watching thread

    def _watch(self) -> None:
        while not self._ended.is_set():
            self._poke.wait(WATCH_PERIOD_S)
            self._poke.clear()
            with contextlib.suppress(DeviceError):  # a device that fails here is found dead in the next round
                self._restart_if_asked()
                for direction in _DIRECTIONS:
                    if not self._ended.is_set():
                        self._look_after(direction)
                self._tell_losses()
                self._deepen_if_it_stumbles()

    def _restart_if_asked(self) -> None:
        if self._restart.is_set():
            self._restart.clear()
            if self._lines["output"].alive:
                self._opened["output"].stream.restart()
                self._player.interrupted()
                self._lines["output"].opened(self._clock.now())  # nothing was heard of it yet, and need not be

    def _look_after(self, direction: Direction) -> None:
        line, now_s = self._lines[direction], self._clock.now()
        if line.alive:
            called_s = self._microphone.called_s if direction == "input" else self._player.called_s
            reason = line.verdict(now_s, called_s, self._opened[direction].stream.active())
            if reason is not None:
                self._lose(direction, reason)
        elif line.due(now_s):
            self._try_again(direction)

    def _lose(self, direction: Direction, reason: str) -> None:
        opened = self._opened[direction]
        self._lines[direction].lose(self._clock.now())
        self._tell("device_lost", direction=direction, device=opened.device.name, reason=reason)
        if direction == "output":
            self._player.interrupted()
        opened.stream.close()

    def _try_again(self, direction: Direction) -> None:
        line = self._lines[direction]
        try:
            if line.failures >= RESCAN_AFTER and not (direction == "input" and self._player.speaking):
                self._rescan(direction)
            self._reopen(direction)
        except DeviceError:
            line.failed(self._clock.now())
            if direction == "output":
                self.sink.away(True)
            return
        self._reopened += 1
        opened, away_s = self._opened[direction], line.opened(self._clock.now())
        fields = {"direction": direction, "device": opened.device.name, "rate": opened.form.rate}
        self._tell("device_reopened", **fields, away_s=round(away_s, 3))

    def _reopen(self, direction: Direction) -> None:
        if direction == "input":
            before = self._microphone
            self._microphone = self._open_input()
            self._overruns_before += before.overruns
            return
        before_player = self._player
        self._player, self._reference = self._open_output(before_player)
        if self._player is not before_player:
            self._underruns_before += before_player.underruns
            self.sink.exchange(self._player, self._reference)
        self.sink.away(False)

    def _deepen_if_it_stumbles(self) -> None:
        """A speaker that keeps running dry gets a deeper buffer, between two replies."""
        underruns, now_s = self._underruns_before + self._player.underruns, self._clock.now()
        if not self._lines["output"].alive or not self._buffer.too_short(underruns, now_s):
            return
        if self._player.ends_s(now_s) <= now_s:
            self._buffer.deepen()
            self._opened["output"].stream.close()
            self._player.interrupted()
            self._reopen_other("output")
            self._tell("speaker_buffer_deepened", latency_ms=round(self._buffer.latency_s * 1000.0, 1))

    def _rescan(self, direction: Direction) -> None:
        """Read the list of devices anew, for which the other device has to be closed and opened again."""
        other: Direction = "output" if direction == "input" else "input"
        was_alive = self._lines[other].alive
        if was_alive:
            self._opened[other].stream.close()
        try:
            self._backend.rescan()
        finally:
            if was_alive:
                if other == "output":
                    self._player.interrupted()
                self._reopen_other(other)

    def _reopen_other(self, other: Direction) -> None:
        try:
            self._reopen(other)
        except DeviceError as exc:
            self._lose(other, str(exc))
        else:
            self._lines[other].opened(self._clock.now())

    # ------------------------------------------------------------ events

    def _ask_restart(self) -> None:
        self._restart.set()
        self._poke.set()

    def _listened(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        waiting, self._untold = self._untold, []
        for kind, fields in waiting:
            self._say(kind, fields)

    def _tell_losses(self) -> None:
        overruns = self._overruns_before + self._microphone.overruns
        underruns = self._underruns_before + self._player.underruns
        if overruns > self._told_overruns:
            self._told_overruns = overruns
            self._tell("audio_overrun", count=overruns)
        if underruns > self._told_underruns:
            self._told_underruns = underruns
            self._tell("audio_underrun", count=underruns)

    def _tell(self, kind: str, **fields: Any) -> None:
        loop = self._loop
        if loop is None:
            self._untold.append((kind, fields))
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(self._say, kind, fields)

    def _say(self, kind: str, fields: dict[str, Any]) -> None:
        if self.on_event is not None:
            self.on_event(kind, **fields)


_DIRECTIONS: tuple[Direction, Direction] = ("input", "output")
