"""A session as one page: every lane of its timeline, the turns in words, no script and nothing fetched.

::

    trace ──story──> facts ──lanes, axis, marks──> drawing ──page──> HTML

Same trace, same page, to the byte.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..frames import TraceEvent
from .facts import number
from .lanes import Look
from .page import page
from .story import tell

__all__ = ["render", "write"]

Loudness = Mapping[str, Sequence[float]]


def render(
    events: Sequence[TraceEvent], summary: Mapping[str, Any], title: str, loudness: Loudness | None = None
) -> str:
    """The page of a session as HTML with inline SVG.

    ``summary`` may have ``turns`` (a list with ``turn``, ``user``, ``agent``, ``prepared``, ``committed``,
    ``discarded``, ``post_confirm_ttft_ms``, ``dead_air_ms`` each), the same counts and figures as totals (figures as a
    number or with a ``p50``), and ``theta_end`` and ``theta_deep``; what it lacks is taken from the trace or left out.
    ``loudness`` has one value per 50 ms from the session's start for ``user`` and ``agent``, of any common scale.
    """
    heard = {
        who: tuple(float(v) if math.isfinite(v) and v > 0 else 0.0 for v in values)
        for who, values in (loudness or {}).items()
    }
    look = Look(_theta(summary, "theta_end"), _theta(summary, "theta_deep"), heard)
    return page(tell(events), summary, title, look)


def write(
    path: Path,
    events: Sequence[TraceEvent],
    summary: Mapping[str, Any],
    title: str,
    loudness: Loudness | None = None,
) -> None:
    """Write the page beside ``path`` and rename it into place. Raises InputError where that cannot be done."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(render(events, summary, title, loudness), encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise InputError(f"timeline '{path}' cannot be written: {exc.strerror or exc}; choose another place") from None


def _theta(summary: Mapping[str, Any], key: str) -> float | None:
    """A threshold, from the summary itself or from settings inside it."""
    settings = summary.get("settings")
    gate = settings.get("gate") if isinstance(settings, Mapping) else None
    for place in (summary, summary.get("gate"), gate):
        if isinstance(place, Mapping):
            theta = number(place, key, math.nan)
            if 0.0 <= theta <= 1.0:
                return theta
    return None
