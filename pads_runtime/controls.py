"""What a person or another program may tell a running talk: the seam between the session and keys, bus and page."""

from __future__ import annotations

from typing import Protocol


class Controls(Protocol):
    """Each call returns at once and is made on the event loop; what it did is in the trace."""

    def mute(self, muted: bool) -> None:
        """Stop or go on listening. What was said before counts; while muted, the microphone is silence."""
        ...

    def stop_speaking(self) -> None:
        """Interrupt the agent now, as if the user had; the history keeps what was played. Nothing if it is silent."""
        ...

    def say(self, text: str) -> None:
        """Speak ``text`` as soon as nobody speaks. It enters the history as what the agent said, as far as played."""
        ...

    def repeat(self) -> None:
        """Say the last reply again. Nothing if there was none."""
        ...

    def hear(self, text: str, final: bool) -> None:
        """Words of the user from an external recogniser (``asr.kind: external``): the whole open turn so far."""
        ...

    def quit(self) -> None:
        """End the talk in good order: what is being said is cut, the record is complete."""
        ...
