"""What is compared: ways from the user's voice to a reply. All share models and endpointing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pads_runtime.config import PadsSettings, validate
from pads_runtime.errors import UsageError


@dataclass(frozen=True)
class Strategy:
    """A name, what it does, and the settings that make it so."""

    name: str
    meaning: str
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def applied(self, base: PadsSettings) -> PadsSettings:
        """``base`` with this strategy's settings."""
        tree = base.model_dump()
        for section, changes in self.settings.items():
            tree[section] |= changes
        return validate(PadsSettings, tree)


def _gate(mode: str) -> dict[str, Any]:
    return {"mode": mode}


_NO_FOLLOW = {"follow": "none"}

STRATEGIES = (
    Strategy(
        "sequential",
        "waits for the confirmed end, then reads the whole turn, then thinks, then speaks",
        {"gate": _gate("never"), "engine": _NO_FOLLOW, "asr": {"begin": "confirm"}},
    ),
    Strategy(
        "streaming",
        "reads the words while they come, thinks and speaks after the confirmed end",
        {"gate": _gate("never"), "engine": _NO_FOLLOW},
    ),
    Strategy(
        "preemptive",
        "the whole reply is generated at every pause whose words are known, and cancelled when the user goes on; "
        "sound is made after the confirmed end (as LiveKit Agents and Pipecat do)",
        {"gate": _gate("always"), "engine": _NO_FOLLOW, "speech": {"ahead": False}},
    ),
    Strategy("pads", "both signals must agree; follows the words in full depth; speech is made ahead"),
    Strategy("pads_turn_only", "the turn-end predictor alone opens the gate", {"gate": _gate("turn_only")}),
    Strategy("pads_act_only", "the dialogue act alone opens the gate", {"gate": _gate("act_only")}),
    Strategy("pads_always", "every pause opens the gate", {"gate": _gate("always")}),
    Strategy("pads_never", "follows the words and prepares nothing", {"gate": _gate("never")}),
    Strategy("pads_follow_none", "both signals; follows nothing", {"engine": _NO_FOLLOW}),
    Strategy(
        "pads_follow_shallow",
        "both signals; follows through half of the layers",
        {"engine": {"follow": "shallow", "exit_layer": 15, "draft_len": 1}},
    ),
)
MAIN = ("sequential", "preemptive", "pads")


def chosen(names: Sequence[str]) -> list[Strategy]:
    """By name, in the given order; none is all. Raises UsageError for an unknown one."""
    known = {strategy.name: strategy for strategy in STRATEGIES}
    for name in names:
        if name not in known:
            raise UsageError(f"--strategies {name}: there is no such strategy; use some of {', '.join(known)}")
    return [known[name] for name in names] or list(STRATEGIES)
