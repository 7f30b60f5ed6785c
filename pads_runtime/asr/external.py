"""A recogniser outside: its transcripts come through ``Controls.hear`` whenever it likes, not when it is asked.

So the ears do not ask the one inside, which has nothing to say: a turn waits for the words from outside, for
``turn.transcript_wait_s`` after its confirm. They may come early (before the pause is declared),
late (after the turn was given up: a turn of their own then), twice, or in pieces; the turn machine sorts it out.
"""

from __future__ import annotations

from ..frames import Samples, TranscriptUpdated


class ExternalRecognizer:
    """Reads nothing itself."""

    def begin(self, start_s: float) -> None:
        """A new turn; nothing to forget."""

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        """No words, and none of it final."""
        return TranscriptUpdated(audio_end_s, "", "", False, audio_end_s)
