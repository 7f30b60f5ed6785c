"""What the session asks of a dialogue-act classifier."""

from __future__ import annotations

from typing import Protocol


class ActClassifier(Protocol):
    """Says from the words alone whether an utterance wants the deep model."""

    def p_deep(self, text: str) -> float:
        """P(question or directive). Empty text gives 0. About a millisecond."""
        ...
