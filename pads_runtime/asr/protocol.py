"""What the session asks of a recogniser. One worker thread owns it."""

from __future__ import annotations

from typing import Protocol

from ..frames import Samples, TranscriptUpdated


class Recognizer(Protocol):
    """Reads the open turn again and again while it grows."""

    def begin(self, start_s: float) -> None:
        """A new turn: its audio starts at ``start_s`` on the session's clock. Forgets the last one."""
        ...

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        """Read the whole turn so far (from ``start_s`` to ``audio_end_s``).

        With ``final`` all words count as stable, and the result depends on the audio alone, not on earlier calls.
        The returned ``t_s`` equals ``audio_end_s``; the session restamps it when the answer arrives.
        """
        ...
