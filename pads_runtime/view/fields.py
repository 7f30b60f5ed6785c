"""Careful access to an event's fields: a trace may come from a later version, and text from anywhere."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any


def number(fields: Mapping[str, Any], key: str) -> float | None:
    """A finite number, else None."""
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def text_of(fields: Mapping[str, Any], key: str) -> str:
    """The field as one line of printable text; empty if there is none.

    What came over a network or out of a model must not steer a terminal: control characters become U+FFFD, invisible
    ones (Unicode's Cf, among them those that reverse the direction) are left out.
    """
    value = fields.get(key)
    text = "" if value is None else " ".join(str(value).split())
    return text if text.isprintable() else "".join(_printable(character) for character in text)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else "\ufffd"
