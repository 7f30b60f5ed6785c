"""What a live talk leaves to look at and to listen to, however long it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from . import timeline
from .audio.sink import write_conversation
from .config import PadsSettings
from .frames import SAMPLE_RATE, TraceEvent
from .recording import Recording

PAGE_S = 1200.0
"""The page of a longer talk shows its last so many seconds."""


def draw(
    settings: PadsSettings,
    folder: Path,
    figures: dict[str, Any],
    events: list[TraceEvent],
    sound: Recording,
    end_s: float,
) -> None:
    """Write the page, and the sound if it was to be kept."""
    kept = sound.sound(end_s)
    if kept is not None:
        write_conversation(folder / "conversation.wav", kept.user, kept.agent, SAMPLE_RATE)
    from_s = max(0.0, end_s - PAGE_S)
    page = {**figures, "theta_end": settings.gate.theta_end, "theta_deep": settings.gate.theta_deep}
    page["wasted_tokens"] = figures["spec_wasted_tokens"]
    title = folder.name if not from_s else f"{folder.name}, its last {PAGE_S / 60:.0f} minutes"
    timeline.write(folder / "timeline.html", shifted(events, from_s), page, title, sound.levels(from_s, end_s))


_TIMES = ("onset_s", "last_voiced_s", "audio_end_s")


def shifted(events: list[TraceEvent], from_s: float) -> list[TraceEvent]:
    """The events from ``from_s`` on, as if the talk had begun then."""
    if from_s <= 0.0:
        return events
    later = []
    for event in events:
        if event.t_s >= from_s:
            times = {key: event.fields[key] - from_s for key in _TIMES if isinstance(event.fields.get(key), float)}
            later.append(replace(event, t_s=event.t_s - from_s, fields={**event.fields, **times}))
    return later
