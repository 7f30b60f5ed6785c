"""English abbreviations, as far as a full stop after them matters."""

from __future__ import annotations

import re

_TITLES = "mr mrs ms mx messrs dr prof st mt gen sen rep gov capt lt col sgt rev hon"
_CONNECTIVES = "e.g i.e eg ie vs cf viz approx ca"
_COUNTED = "no nos fig figs vol vols p pp ch sec art eq jan feb mar apr jun jul aug sep sept oct nov dec"
_TRAILING = "etc inc ltd co corp jr sr a.m p.m am pm ph.d dept ave blvd est ext al"

_NEVER_LAST = frozenset(_TITLES.split() + _CONNECTIVES.split())
"""Something always follows these."""
_BEFORE_NUMBER = frozenset(_COUNTED.split())
"""Abbreviations only before a number: "No. 5", but "No. I don't"."""
_MAY_BE_LAST = frozenset(_TRAILING.split())
"""These may end a sentence; then a capital letter follows."""
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_OPENERS = "\"'([{“‘«*_`"  # noqa: RUF001


def is_abbreviation(word: str, following: str) -> bool:
    """Whether a full stop after ``word`` belongs to the word.

    ``word`` stands without that stop; ``following`` is the next visible character after it and a blank.
    """
    bare = word.lstrip(_OPENERS)
    low = bare.lower()
    if low in _NEVER_LAST:
        return True
    if low in _BEFORE_NUMBER:
        return following.isdigit()
    if low in _MAY_BE_LAST:
        return following.islower() or following.isdigit()
    if len(bare) == 1:
        return bare.isupper() and bare != "I"
    return _INITIALS.fullmatch(bare) is not None
