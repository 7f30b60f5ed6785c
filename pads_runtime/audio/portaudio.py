"""The seam to PortAudio: devices as facts, two kinds of stream, and every native error as one line.

``Backend`` is what the rest of the folder asks for; ``PortAudio`` serves it through the ``sounddevice`` package.
Streams move int16 blocks of shape (frames, channels) through callbacks that PortAudio calls from a thread of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..errors import DeviceError
from ..frames import Samples

Direction = Literal["input", "output"]
ROLE: dict[Direction, str] = {"input": "microphone", "output": "speaker"}

NO_PORTAUDIO = "PortAudio is missing, so there is no microphone and no speaker; run: sudo apt-get install libportaudio2"

OnInput = Callable[[Samples, bool], None]
"""``(block, overflowed)``: the block, shape (frames, channels), is only valid during the call."""
OnOutput = Callable[[Samples, float, bool], None]
"""``(block, delay_s, underflowed)``: fill the block; its first sample will sound ``delay_s`` from now."""


class FormatRefused(DeviceError):
    """The device does not take this rate or number of channels; another may do."""


@dataclass(frozen=True, slots=True)
class DeviceFact:
    """One device as the system lists it. It can be both a microphone and a speaker."""

    index: int
    name: str
    host_api: str
    input_channels: int
    output_channels: int
    default_rate: int
    """Its own rate, in Hz."""
    default_input: bool
    default_output: bool

    def channels(self, direction: Direction) -> int:
        """How many channels it has that way; 0 if it does not work that way."""
        return self.input_channels if direction == "input" else self.output_channels

    def default(self, direction: Direction) -> bool:
        """Whether the system takes it where nothing is asked for."""
        return self.default_input if direction == "input" else self.default_output


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """How a device is opened: ``block`` frames a callback, ``latency_s`` of buffer asked for."""

    rate: int
    channels: int
    block: int
    latency_s: float


class Stream(Protocol):
    """An open stream; it runs until ``close``."""

    def active(self) -> bool:
        """Whether the system still calls back."""
        ...

    def restart(self) -> None:
        """Drop what the device has not yet played, and go on at once. Raises DeviceError."""
        ...

    def close(self) -> None:
        """End it, dropping what has not been played. Idempotent, never raises."""
        ...


class Backend(Protocol):
    """A system of audio devices."""

    def devices(self) -> tuple[DeviceFact, ...]:
        """All devices. Raises DeviceError."""
        ...

    def open_input(self, device: DeviceFact, form: StreamFormat, callback: OnInput) -> Stream:
        """Open a microphone and start it. Raises FormatRefused, or DeviceError for good."""
        ...

    def open_output(self, device: DeviceFact, form: StreamFormat, callback: OnOutput) -> Stream:
        """Open a speaker and start it. Raises FormatRefused, or DeviceError for good."""
        ...

    def rescan(self) -> None:
        """Look for devices anew. All streams must be closed. Raises DeviceError."""
        ...


class PortAudio:
    """The machine's devices. Raises DeviceError if the library is missing."""

    def __init__(self) -> None:
        try:
            import sounddevice
        except OSError:
            raise DeviceError(NO_PORTAUDIO) from None
        except ImportError:
            raise DeviceError("the package sounddevice is missing; run ./scripts/setup") from None
        self._sd: Any = sounddevice
        _silence_alsa()

    def devices(self) -> tuple[DeviceFact, ...]:
        try:
            apis = self._sd.query_hostapis()
            listed = self._sd.query_devices()
        except self._sd.PortAudioError as exc:
            raise DeviceError(f"the audio devices cannot be listed: {_reason(exc)}") from None
        first = {direction: self._default(apis, direction) for direction in ("input", "output")}
        return tuple(
            DeviceFact(
                index=at,
                name=str(found["name"]),
                host_api=str(apis[found["hostapi"]]["name"]),
                input_channels=int(found["max_input_channels"]),
                output_channels=int(found["max_output_channels"]),
                default_rate=round(found["default_samplerate"]),
                default_input=at == first["input"],
                default_output=at == first["output"],
            )
            for at, found in enumerate(listed)
        )

    def open_input(self, device: DeviceFact, form: StreamFormat, callback: OnInput) -> Stream:
        def on_block(block: Samples, _frames: int, _times: Any, status: Any) -> None:
            callback(block, bool(status) and status.input_overflow)

        return self._open(self._sd.InputStream, device, form, on_block, "input")

    def open_output(self, device: DeviceFact, form: StreamFormat, callback: OnOutput) -> Stream:
        def on_block(block: Samples, _frames: int, times: Any, status: Any) -> None:
            delay_s = times.outputBufferDacTime - times.currentTime
            callback(block, delay_s, bool(status) and status.output_underflow)

        return self._open(self._sd.OutputStream, device, form, on_block, "output")

    def rescan(self) -> None:
        # PortAudio lists devices once, when it starts; sounddevice has no public call to start it anew.
        try:
            self._sd._terminate()
        finally:
            try:
                self._sd._initialize()
            except self._sd.PortAudioError as exc:
                raise DeviceError(f"the audio system does not start: {_reason(exc)}") from None

    def _default(self, apis: Any, direction: str) -> int:
        """The index of the default device; -1 for none. The first host API that has one decides, as in PortAudio."""
        return next((api[f"default_{direction}_device"] for api in apis if api[f"default_{direction}_device"] >= 0), -1)

    def _open(self, kind: Any, device: DeviceFact, form: StreamFormat, on_block: Any, direction: Direction) -> Stream:
        what = f"{ROLE[direction]} '{device.name}'"
        stream = None
        try:
            with _quiet_stderr():
                stream = kind(
                    device=device.index,
                    samplerate=form.rate,
                    channels=form.channels,
                    dtype="int16",
                    blocksize=form.block,
                    latency=form.latency_s,
                    callback=on_block,
                )
                stream.start()
        except self._sd.PortAudioError as exc:
            if stream is not None:
                stream.close(ignore_errors=True)
            raise _refusal(what, exc, form) from None
        except ValueError as exc:  # sounddevice's own check of the device
            raise DeviceError(f"{what} cannot be opened: {exc}; see: pads devices") from None
        return _PortAudioStream(stream, what, self._sd.PortAudioError)


class _PortAudioStream:
    def __init__(self, stream: Any, what: str, error: type[Exception]) -> None:
        self._stream, self._what, self._error = stream, what, error

    def active(self) -> bool:
        return bool(self._stream.active)

    def restart(self) -> None:
        try:
            with _quiet_stderr():
                self._stream.abort()
                self._stream.start()
        except self._error as exc:
            raise DeviceError(f"{self._what} did not start again: {_reason(exc)}") from None

    def close(self) -> None:
        with _quiet_stderr():
            self._stream.abort(ignore_errors=True)
            self._stream.close(ignore_errors=True)


# ---------------------------------------------------------------- native errors

_INVALID_CHANNELS, _INVALID_RATE, _BAD_FORMAT, _NO_DEVICE, _UNAVAILABLE = -9998, -9997, -9994, -9996, -9985
_HOST_ERROR, _NO_WAY = -9999, -9993
_BUSY, _DENIED, _GONE = -16, (-1, -13), (-2, -5, -6, -19, -111, -112)
"""ALSA answers with negated errnos: EBUSY; EPERM, EACCES; ENOENT, EIO, ENXIO, ENODEV, ECONNREFUSED, EHOSTDOWN.
_NO_WAY is PortAudio's answer for a direction that a device has lost since it was listed."""


def _refusal(what: str, exc: Exception, form: StreamFormat) -> DeviceError:
    """The PortAudio error of opening ``what``, as one line with what to do."""
    code = exc.args[1] if len(exc.args) > 1 else None
    host = exc.args[2][1] if code == _HOST_ERROR and len(exc.args) > 2 else None
    if code in (_INVALID_RATE, _INVALID_CHANNELS, _BAD_FORMAT):
        return FormatRefused(f"{what} does not take {form.rate} Hz with {form.channels} channel(s)")
    if code == _UNAVAILABLE or host == _BUSY:
        return DeviceError(f"{what} is busy: another program uses it; close that program or choose another device")
    if host in _DENIED:
        return DeviceError(f"{what} may not be used: permission denied; add yourself to the group 'audio'")
    if code in (_NO_DEVICE, _NO_WAY) or host in _GONE:
        return DeviceError(f"{what} is not there: unplugged, or its sound server does not run; see: pads devices")
    return DeviceError(f"{what} cannot be opened: {_reason(exc)}; see: pads devices")


def _reason(exc: Exception) -> str:
    """PortAudio's text with what the host system said, where it said more."""
    text = str(exc.args[0]) if exc.args else str(exc)
    host = exc.args[2][2] if len(exc.args) > 2 and exc.args[2][2] else ""
    return " ".join(f"{text} {host}".split()).rstrip(".")


_ERROR_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
_ignore = _ERROR_HANDLER(lambda *_: None)


def _silence_alsa() -> None:
    """Keep ALSA from writing diagnostics over the terminal; what matters comes back as an error code."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libasound.so.2").snd_lib_error_set_handler(_ignore)


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """PortAudio prints its failed checks to stderr and offers no switch; they come back as errors anyway."""
    try:
        kept = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
