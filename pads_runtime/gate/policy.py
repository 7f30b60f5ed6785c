"""When is a reply worth preparing? A pure function of the two signals."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import GateSettings
from ..frames import GateMode


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known in a pause. None: the signal has not arrived for this pause and these words."""

    has_words: bool
    p_end: float | None
    p_deep: float | None


def should_prepare(evidence: Evidence, settings: GateSettings) -> bool:
    """True if the mode's signals are all there and pass their thresholds. Never without words."""
    if not evidence.has_words:
        return False
    ends = evidence.p_end is not None and evidence.p_end >= settings.theta_end
    deep = evidence.p_deep is not None and evidence.p_deep >= settings.theta_deep
    match settings.mode:
        case GateMode.AND:
            return ends and deep
        case GateMode.TURN_ONLY:
            return ends
        case GateMode.ACT_ONLY:
            return deep
        case GateMode.ALWAYS:
            return True
        case GateMode.NEVER:
            return False
