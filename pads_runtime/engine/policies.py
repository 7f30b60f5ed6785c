"""When a token may leave at the exit: the decisions that ``engine.serve: confident`` can be told to take. Pure.

Two families. *Token confidence* looks at the exit's own scores: the probability of its likeliest token, or how far that
is ahead of the second (Schuster et al., arXiv 2207.07061, section 3.3). *Dialogue act* looks at what was said: the
reply to a question or a request goes through all layers, the reply to a remark does not, whatever the scores are.

Each compares with a threshold in [0, 1]; a higher one lets fewer tokens leave. ``python -m bench policies`` measures
what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .sampling import Logits


@dataclass(frozen=True, slots=True)
class ExitView:
    """What is known where a token may leave at the exit."""

    top: float
    """Probability of the exit's likeliest token, among the tokens that its head scores, at temperature 1."""
    margin: float
    """How far that is ahead of the second likeliest's."""
    p_deep: float
    """P(question or directive) of the user's last turn; 1 where nobody classified it."""

    @classmethod
    def of(cls, logits: Logits, p_deep: float) -> ExitView:
        """From the exit's logits (n,), n >= 2. Logits that are not all numbers make the exit sure of nothing."""
        second, best = (float(x) for x in np.partition(logits, -2)[-2:])
        if not np.isfinite(best):
            return cls(0.0, 0.0, p_deep)
        top = 1.0 / float(np.exp(logits.astype(np.float64) - best).sum())
        return cls(top, top * (1.0 - float(np.exp(second - best))), p_deep)


ExitPolicy = Callable[[ExitView], bool]
"""Whether a token may leave at the exit. Must depend on the view alone."""


def top_reaches(threshold: float) -> ExitPolicy:
    """The exit's likeliest token is at least so likely."""
    return lambda view: view.top >= threshold


def margin_reaches(threshold: float) -> ExitPolicy:
    """The exit's likeliest token is at least so far ahead of the second."""
    return lambda view: view.margin >= threshold


def remark_reaches(threshold: float) -> ExitPolicy:
    """The user's turn is at least so likely to be neither question nor request, and the exit's scores are numbers."""
    return lambda view: 1.0 - view.p_deep >= threshold and view.top > 0.0


POLICIES: dict[str, Callable[[float], ExitPolicy]] = {
    "top": top_reaches,
    "margin": margin_reaches,
    "act": remark_reaches,
}
"""By the names of ``engine.exit_policy``; each takes ``engine.confident_threshold``."""
