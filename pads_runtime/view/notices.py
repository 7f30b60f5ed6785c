"""What is out of the ordinary in a talk, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..frames import TraceEvent
from .fields import text_of


def notice_of(event: TraceEvent) -> str:
    """What is out of the ordinary about ``event``, in one line; empty if nothing is."""
    fields = event.fields
    what = text_of(fields, "error") or text_of(fields, "reason")
    match event.kind:
        case "device_lost":
            return f"{_device(fields)} is gone: {what}"
        case "device_reopened":
            return f"{_device(fields)} is back"
        case "bus_connected":
            return f"connected to the broker {text_of(fields, 'where')}"
        case "bus_lost" | "bus_refused":
            return f"broker: {what}"
        case "bus_dropped":
            return "the broker is away for too long: messages were given up"
        case kind if kind.endswith("_refused"):
            return f"{kind.removesuffix('_refused').replace('_', ' ')} refused: {what}"
        case kind:
            error = text_of(fields, "error")
            return f"{kind.replace('_', ' ')}: {error}" if error else ""


def _device(fields: Mapping[str, Any]) -> str:
    which = {"input": "microphone", "output": "loudspeaker"}.get(text_of(fields, "direction"), "device")
    return f"the {which} '{text_of(fields, 'device')}'"
