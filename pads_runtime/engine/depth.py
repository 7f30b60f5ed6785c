"""How deep and how far ahead the next round drafts: the seam between the engine and whoever decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MAX_DRAFT = 8
"""Most tokens drafted in one round."""


@dataclass(frozen=True, slots=True)
class DepthPlan:
    """One round of decoding. ``exit_layer`` None, or ``draft_len`` 0, is a plain pass through all layers."""

    exit_layer: int | None
    draft_len: int
    reason: str
    """Why, in a few words, for the trace."""

    @property
    def plain(self) -> bool:
        """Whether this round drafts nothing."""
        return self.exit_layer is None or self.draft_len < 1

    def __str__(self) -> str:
        return "plain" if self.plain else f"exit {self.exit_layer}, draft {self.draft_len}"


class DepthController(Protocol):
    """Chooses each round. Called by the engine's thread only.

    No choice may change what is served, so a controller is free to measure and to be wrong.
    """

    def plan(self) -> DepthPlan:
        """The next round. Between rounds every token is deep, so the exit may change each time."""
        ...

    def learn(self, plan: DepthPlan, drafted: int, accepted: int) -> None:
        """What came of ``plan``: ``accepted`` of ``drafted`` tokens. Not called for a round that failed."""
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
