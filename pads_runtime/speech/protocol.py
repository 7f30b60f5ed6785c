"""What the session asks of a synthesiser. One worker thread owns it."""

from __future__ import annotations

from typing import Protocol

from ..frames import PhraseSynthesized


class Synthesizer(Protocol):
    """Text in, speech out."""

    sample_rate: int

    def synthesize(self, text: str) -> PhraseSynthesized:
        """One phrase as int16 mono at ``sample_rate``, the same for the same text every time."""
        ...
