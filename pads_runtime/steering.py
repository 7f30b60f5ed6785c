"""What a person or another program tells a running talk: ``Controls``, as messages to the session's inbox.

Each call returns at once and leaves its own event in the trace; one that is refused says why.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .clock import Clock
from .config import PadsSettings
from .gate import events as m
from .trace import Trace

SPARE = 64
"""Places in the inbox that are kept free of what comes from outside: a flood of it must not keep the talk from going
on."""
MAX_TEXT = 2000
"""Characters of a text to say or of a transcript; about two minutes of speech."""


class Steering:
    """Implements ``Controls``. All calls on the event loop."""

    def __init__(self, settings: PadsSettings, clock: Clock, trace: Trace, inbox: int) -> None:
        self._settings, self._clock, self._trace = settings, clock, trace
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(inbox)
        self._quit_asked = asyncio.Event()
        self.muted = False
        """Whether the microphone counts as silent."""
        self.last_said = ""
        """The last reply or spoken text, whole where it is known."""

    def emit(self, kind: str, **fields: Any) -> None:
        """Something happened now."""
        self._trace.emit(kind, self._clock.now(), **fields)

    def mute(self, muted: bool) -> None:
        """Stop or go on listening: ``muted`` or ``unmuted`` in the trace."""
        if muted is not self.muted:
            self.muted = muted
            self.emit("muted" if muted else "unmuted")

    def stop_speaking(self) -> None:
        """Interrupt the agent, and forget what waits to be said: ``stop_asked``."""
        self._ask("stop", m.StopAsked(self._clock.now()))

    def say(self, text: str) -> None:
        """Speak ``text`` when nobody speaks: ``say_asked``, then ``say_started`` and ``say_finished``."""
        self._ask("say", m.SayAsked(self._clock.now(), " ".join(text.split())), text)

    def repeat(self) -> None:
        """Say the last reply again, whole where it was cut: ``repeat_asked``."""
        if self.last_said:
            self._ask("repeat", m.SayAsked(self._clock.now(), self.last_said), self.last_said)

    def hear(self, text: str, final: bool) -> None:
        """Words of an outside recogniser: ``transcript_updated``. Refused unless ``asr.kind`` is external."""
        if self._settings.asr.kind != "external":
            self.emit("hear_refused", reason="asr.kind is not external")
        elif len(text) > MAX_TEXT:
            self.emit("hear_refused", reason=f"longer than {MAX_TEXT} characters")
        elif self._crowded():
            self.emit("hear_refused", reason="too much at once")
        else:
            self._inbox.put_nowait(m.WordsGiven(self._clock.now(), text, final))

    def quit(self) -> None:
        """End the talk in good order: ``quit_asked``."""
        if not self._quit_asked.is_set():
            self._quit_asked.set()
            self.emit("quit_asked")

    def _ask(self, what: str, event: m.Event, text: str | None = None) -> None:
        if text is not None and not text.strip():
            self.emit(f"{what}_refused", reason="no words in it")
        elif text is not None and len(text) > MAX_TEXT:
            self.emit(f"{what}_refused", reason=f"longer than {MAX_TEXT} characters")
        elif self._crowded():
            self.emit(f"{what}_refused", reason="too much at once")
        else:
            self.emit(f"{what}_asked", **({} if text is None else {"text": text}))
            self._inbox.put_nowait(event)

    def _crowded(self) -> bool:
        return self._inbox.qsize() >= self._inbox.maxsize - SPARE
