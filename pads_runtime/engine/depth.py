"""How deep and how far ahead the next round drafts: the seam between the engine and whoever decides it."""

from __future__ import annotations

from typing import Protocol

from ..frames import DepthPlan

__all__ = ["MAX_DRAFT", "DepthController", "DepthPlan", "FixedDepth"]

MAX_DRAFT = 8
"""Most tokens drafted in one round."""


class DepthController(Protocol):
    """Chooses each round. Called by the engine's thread only.

    No choice may change what is served, so a controller is free to measure and to be wrong.
    """

    def plan(self) -> DepthPlan:
        """The next round. Between rounds every token is deep, so the exit may change each time."""
        ...

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        """What came of ``plan``: ``accepted`` of ``drafted`` tokens, and one more was served.

        ``drafted`` may be less than was planned, at the end of a reply, and is 0 after a plain round. Not called for a
        round that failed.
        """
        ...


class FixedDepth:
    """The same plan each round, as set by the user."""

    def __init__(self, exit_layer: int | None, draft_len: int) -> None:
        self._plan = DepthPlan(exit_layer, draft_len, "as set" if exit_layer is not None else "one depth")

    def plan(self) -> DepthPlan:
        """The plan given at construction."""
        return self._plan

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        """Nothing to learn."""
