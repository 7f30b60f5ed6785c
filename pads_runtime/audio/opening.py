"""Opening a device at the rate PADS works at, or at its own where it refuses that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import DeviceError
from .devices import find_device
from .portaudio import ROLE, Backend, DeviceFact, Direction, FormatRefused, Stream, StreamFormat

BLOCK_S: dict[Direction, float] = {"input": 0.01, "output": 0.005}
"""Length of one callback's block. The speaker's is short, because what is in the device can no longer be cut."""
_COMMON_RATES = (48_000, 44_100)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open device."""

    device: DeviceFact
    form: StreamFormat
    stream: Stream


OpenWith = Callable[[DeviceFact, StreamFormat], Stream]


def open_device(
    backend: Backend, wanted: str | int | None, direction: Direction, rate: int, latency_s: float, open_with: OpenWith
) -> Opened:
    """Open what ``wanted`` means, in the first format that it takes: ours, then its own, then common ones.

    ``open_with(device, form)`` opens and starts one stream. Raises DeviceError.
    """
    device = find_device(wanted, direction, backend)
    refusals: list[FormatRefused] = []
    for form in formats(device, direction, rate, latency_s):
        try:
            return Opened(device, form, open_with(device, form))
        except FormatRefused as refused:
            refusals.append(refused)
    tried = ", ".join(f"{form.rate}/{form.channels}" for form in formats(device, direction, rate, latency_s))
    raise DeviceError(
        f"{ROLE[direction]} '{device.name}' takes none of the formats tried (Hz/channels {tried}); take another"
    )


def formats(device: DeviceFact, direction: Direction, rate: int, latency_s: float) -> list[StreamFormat]:
    """What to try, in order. Rates of which 5 or 10 ms are no whole number of samples get the nearest block."""
    most = device.channels(direction)
    pairs = [(rate, 1), (rate, 2)]
    for other in (device.default_rate, *_COMMON_RATES):
        pairs += [(other, 1), (other, 2), (other, most)]
    usable = [(hz, channels) for hz, channels in pairs if hz > 0 and channels <= most]
    return [
        StreamFormat(hz, channels, max(1, round(hz * BLOCK_S[direction])), latency_s)
        for hz, channels in dict.fromkeys(usable)
    ]
