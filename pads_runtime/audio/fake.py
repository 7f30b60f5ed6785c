"""Audio devices without a machine: they take what they are told to take, and run only when a test drives them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import DeviceError
from ..frames import Samples
from .portaudio import ROLE, DeviceFact, Direction, FormatRefused, OnInput, OnOutput, Stream, StreamFormat


def fact(index: int, name: str, inputs: int = 0, outputs: int = 0, rate: int = 48_000) -> DeviceFact:
    """A device of so many channels, and no default (see ``default``)."""
    return DeviceFact(index, name, "fake", inputs, outputs, rate, default_input=False, default_output=False)


def default(device: DeviceFact) -> DeviceFact:
    """The same device as the system's default in whatever it can do."""
    return replace(device, default_input=device.input_channels > 0, default_output=device.output_channels > 0)


PAIR = (default(fact(0, "Built-in Microphone", inputs=2)), default(fact(1, "Built-in Speaker", outputs=2)))


@dataclass
class FakeStream:
    """One open stream."""

    device: DeviceFact
    form: StreamFormat
    on_input: OnInput | None = None
    on_output: OnOutput | None = None
    running: bool = True
    closed: bool = False
    restarts: int = 0
    held_back: list[Samples] = field(default_factory=list)

    def active(self) -> bool:
        return self.running

    def restart(self) -> None:
        self.restarts += 1

    def close(self) -> None:
        self.running, self.closed = False, True

    def hear(self, samples: Samples, overflowed: bool = False) -> None:
        """Call back with mono ``samples`` on every channel, block by block."""
        assert self.on_input is not None
        for first in range(0, len(samples), self.form.block):
            block = samples[first : first + self.form.block]
            self.on_input(np.repeat(block[:, None], self.form.channels, axis=1), overflowed)

    def play(self, blocks: int, delay_s: float = 0.01, underflowed: bool = False) -> Samples:
        """Call back for so many blocks; returns what they were filled with, shape (frames, channels)."""
        assert self.on_output is not None
        played = []
        for _ in range(blocks):
            block = np.full((self.form.block, self.form.channels), 77, dtype=np.int16)
            self.on_output(block, delay_s, underflowed)
            played.append(block)
        return np.concatenate(played)


@dataclass
class FakeBackend:
    """A Backend. ``takes`` are the (rate, channels) that its devices accept, None for any; ``refuses`` holds, by device
    name, the error that opening it raises."""

    listed: tuple[DeviceFact, ...] = PAIR
    takes: set[tuple[int, int]] | None = None
    refuses: dict[str, str] = field(default_factory=dict)
    streams: list[FakeStream] = field(default_factory=list)
    rescans: int = 0

    def devices(self) -> tuple[DeviceFact, ...]:
        return self.listed

    def open_input(self, device: DeviceFact, form: StreamFormat, callback: OnInput) -> Stream:
        return self._open(FakeStream(device, form, on_input=callback), "input")

    def open_output(self, device: DeviceFact, form: StreamFormat, callback: OnOutput) -> Stream:
        return self._open(FakeStream(device, form, on_output=callback), "output")

    def rescan(self) -> None:
        assert all(stream.closed for stream in self.streams), "a rescan with open streams crashes PortAudio"
        self.rescans += 1

    def open_now(self, direction: Direction) -> FakeStream:
        """The stream of one direction that was opened last."""
        return [s for s in self.streams if (s.on_input is not None) == (direction == "input")][-1]

    def _open(self, stream: FakeStream, direction: Direction) -> Stream:
        name = stream.device.name
        if name in self.refuses:
            raise DeviceError(self.refuses[name])
        if self.takes is not None and (stream.form.rate, stream.form.channels) not in self.takes:
            raise FormatRefused(f"{ROLE[direction]} '{name}' does not take {stream.form.rate} Hz")
        self.streams.append(stream)
        return stream
