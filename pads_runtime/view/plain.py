"""The talk as lines for a log: one fact a line, with its time on the session's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..frames import TraceEvent
from .fields import number, text_of
from .notices import notice_of
from .state import Latency, Seen


def line_of(event: TraceEvent, seen: Seen) -> str | None:
    """The line that tells ``event``, or None for one that is not told. ``seen`` is what is to be seen after it.

    What a prepared reply says is not in it: a line stays, and it may never be said.
    """
    text = _tell(event, seen) or notice_of(event)
    return f"{event.t_s:9.3f}  {text}" if text else None


def _tell(event: TraceEvent, seen: Seen) -> str:
    fields = event.fields
    match event.kind:
        case "session_started":
            return "listening"
        case "speech_started":
            return "you speak"
        case "speech_resumed":
            return "you go on"
        case "speech_paused":
            return "you pause"
        case "transcript_updated":
            return _transcript(fields)
        case "turn_end_predicted":
            return f"p_end {_p(fields, 'p_end')}"
        case "act_classified":
            return f"p_deep {_p(fields, 'p_deep')}"
        case "speech_ignored":
            return f"ignored: {text_of(fields, 'reason')}"
        case "muted":
            return "microphone muted"
        case "unmuted":
            return "microphone on"
        case "quit_asked":
            return "asked to end"
        case "stop_asked":
            return "asked to be silent"
        case "audio_overrun" | "audio_underrun":
            return _losses(event.kind, int(number(fields, "count") or 0))
        case "session_ended":
            return f"ended, {int(number(fields, 'frames_dropped') or 0)} frames lost"
        case _:
            return _tell_reply(event, seen)


def _tell_reply(event: TraceEvent, seen: Seen) -> str:
    fields = event.fields
    match event.kind:
        case "branch_opened":
            return "preparing a reply"
        case "branch_discarded":
            tokens, reason = int(number(fields, "tokens") or 0), text_of(fields, "reason")
            return f"prepared reply thrown away unheard ({tokens} tokens): {reason}"
        case "reply_withdrawn":
            return f"reply withdrawn unheard: {text_of(fields, 'reason')}"
        case "turn_confirmed":
            return f"turn {seen.turn} is over"
        case "turn_reopened":
            return f"turn {seen.turn} is not over after all"
        case "turn_closed":
            return f"turn {seen.turn} closed without an answer: {text_of(fields, 'reason')}"
        case "reply_opened":
            return "making a reply"
        case "reply_committed":
            return "the prepared reply is used"
        case "playback_started":
            return f"PADS speaks{_latency(seen.last)}"
        case "reply_held":
            return f"PADS holds on: {text_of(fields, 'reason')}"
        case "reply_resumed":
            return f"PADS goes on: {text_of(fields, 'reason')}"
        case "say_finished":
            return f"PADS said on request: {text_of(fields, 'heard') or '(nothing)'}"
        case "reply_interrupted":
            return f"PADS was interrupted: {text_of(fields, 'reason')}"
        case "reply_served":
            return f"PADS said: {text_of(fields, 'agent') or '(nothing)'}"
        case _:
            return ""


def _losses(kind: str, count: int) -> str:
    """Told when their number has about doubled; the screen shows it all the time, the trace has every one."""
    if count & (count - 1):
        return ""
    return f"{count} {'microphone overruns' if kind == 'audio_overrun' else 'gaps in the loudspeaker sound'} so far"


def _transcript(fields: Mapping[str, Any]) -> str:
    stable, unstable = text_of(fields, "stable"), text_of(fields, "unstable")
    if fields.get("final") is True:
        return f"heard: {' '.join(part for part in (stable, unstable) if part) or '(no words)'}"
    return f"hearing: {stable}{' ' if stable and unstable else ''}{f'[{unstable}]' if unstable else ''}"


def _latency(last: Latency | None) -> str:
    if last is None:
        return ""
    figures = (("wait for the model", last.post_confirm_ttft_ms), ("silence before it", last.dead_air_ms))
    told = ", ".join(f"{name} {value:.0f} ms" for name, value in figures if value is not None)
    return f" ({told})" if told else ""


def _p(fields: Mapping[str, Any], key: str) -> str:
    p = number(fields, key)
    return "-" if p is None else f"{p:.2f}"
