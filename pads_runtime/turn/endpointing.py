"""How long a silence must last before the turn counts as over. Pure: numbers in, numbers out."""

from __future__ import annotations

from ..config import TurnSettings


def confirm_after_s(p_end: float | None, settings: TurnSettings) -> float:
    """Silence, from the last voiced frame, that confirms the turn.

    Short when the predictor is sure, long when it is not, linear in between; without a prediction the longest.
    """
    if p_end is None:
        return settings.confirm_max_s
    doubt = (settings.sure - p_end) / (settings.sure - settings.unsure)
    doubt = min(1.0, max(0.0, doubt))
    return settings.confirm_min_s + doubt * (settings.confirm_max_s - settings.confirm_min_s)
