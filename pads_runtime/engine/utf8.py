"""Bytes of a token stream to text, whole characters only."""

from __future__ import annotations

import codecs


def take_text(pending: bytes, new: bytes) -> tuple[str, bytes]:
    """Text of ``pending + new`` up to the last whole character, and the bytes of a character still unfinished.

    A token may end inside a character. Bytes that can never become one turn into U+FFFD.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(pending + new)
    return text, decoder.getstate()[0]
