"""Which devices there are, and which one a name or number means."""

from __future__ import annotations

import difflib

from ..errors import DeviceError
from .portaudio import ROLE, Backend, DeviceFact, Direction, PortAudio

_SHOWN = 4
"""How many names an error lists."""


def list_devices(backend: Backend | None = None) -> tuple[DeviceFact, ...]:
    """All devices in the system's order; none is no error. Raises DeviceError without PortAudio."""
    return (backend or PortAudio()).devices()


def find_device(wanted: str | int | None, direction: Direction, backend: Backend | None = None) -> DeviceFact:
    """The device that ``wanted`` means: an index, a name, a unique part of a name, or None for the default.

    Raises DeviceError: nothing there, unknown (with the nearest name), ambiguous, or not usable that way.
    """
    found = list_devices(backend)
    usable = [device for device in found if device.channels(direction)]
    role = ROLE[direction]
    if not usable:
        raise DeviceError(f"no {role} found; connect one and see: pads devices")
    if wanted is None:
        # Without a default of its own the system's first device of that kind is as good as any.
        return next((device for device in usable if device.default(direction)), usable[0])
    if isinstance(wanted, int) or wanted.strip().isdecimal():
        return _by_index(int(wanted), direction, found)
    return _by_name(wanted.strip(), role, usable)


def _by_index(index: int, direction: Direction, found: tuple[DeviceFact, ...]) -> DeviceFact:
    role = ROLE[direction]
    if not 0 <= index < len(found):
        raise DeviceError(f"there is no device {index}: they are numbered 0 to {len(found) - 1}; see: pads devices")
    if not found[index].channels(direction):
        raise DeviceError(f"device {index} '{found[index].name}' is no {role}; see: pads devices")
    return found[index]


def _by_name(wanted: str, role: str, usable: list[DeviceFact]) -> DeviceFact:
    low = wanted.casefold()
    for matches in (
        [device for device in usable if device.name == wanted],
        [device for device in usable if device.name.casefold() == low],
        [device for device in usable if low and low in device.name.casefold()],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise DeviceError(f"'{wanted}' means several {role}s: {_names(matches)}; give the number")
    near = difflib.get_close_matches(low, [device.name.casefold() for device in usable], n=1, cutoff=0.5)
    if near:
        name = next(device.name for device in usable if device.name.casefold() == near[0])
        raise DeviceError(f"there is no {role} '{wanted}'; did you mean '{name}'?")
    raise DeviceError(f"there is no {role} '{wanted}'; there is: {_names(usable)}")


def _names(devices: list[DeviceFact]) -> str:
    shown = ", ".join(f"{device.index} '{device.name}'" for device in devices[:_SHOWN])
    more = len(devices) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"
