"""Written text made sayable: a language model's Markdown, bullets and emoji say nothing aloud."""

from __future__ import annotations

import re
import unicodedata

_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s\"[^\"]*\")?\)")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:(?:#{1,6}|[-*+>•·‣▪–])[ \t]+)+", re.MULTILINE)  # noqa: RUF001
_NUMBER_MARK = re.compile(r"^([ \t]*\d{1,3})[.)](?=[ \t]+\S)", re.MULTILINE)
_HASHTAG = re.compile(r"(?<!\w)#+(?=[^\W\d])")
_INNER_UNDERSCORE = re.compile(r"(?<=\w)_+(?=\w)")
_MARKS = re.compile(r"[*_`~\[\]{}|\\]")
_BLANK_BEFORE_STOP = re.compile(r"\s+(?=[,.;:!?…](?:\s|$))")

_SILENT_CATEGORIES = frozenset({"So", "Sk", "Cc", "Cf", "Cs", "Co", "Cn", "Me"})
_SAID_SYMBOLS = frozenset("°")
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3]")


def speakable(text: str) -> str:
    """The text without what cannot be said: Markdown marks, bullets, tags, emoji; one blank between words.

    Pure, and idempotent. A link keeps its text and loses its address; a list number keeps its number. Returns "" if
    nothing is left that has a sound (no letter and no digit).
    """
    while (stripped := _strip_once(text)) != text:
        text = stripped
    return text if any(map(str.isalnum, text)) else ""


def _strip_once(text: str) -> str:
    for pattern, keep in (
        (_FENCE, ""),
        (_IMAGE_OR_LINK, r"\1"),
        (_TAG, " "),
        (_RULE, ""),
        (_LINE_MARK, ""),
        (_NUMBER_MARK, r"\1,"),
        (_HASHTAG, ""),
        (_INNER_UNDERSCORE, " "),
        (_MARKS, ""),
        (_VARIATION_SELECTORS, ""),
    ):
        text = pattern.sub(keep, text)
    text = "".join(" " if _is_silent(c) else c for c in text)
    return _BLANK_BEFORE_STOP.sub("", " ".join(text.split()))


def _is_silent(c: str) -> bool:
    return c not in _SAID_SYMBOLS and not c.isspace() and unicodedata.category(c) in _SILENT_CATEGORIES
