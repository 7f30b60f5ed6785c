"""Which words only say "I am listening" (Yngve, CLS 6, 1970): they neither stop the agent nor want an answer. Pure.

The list is short on purpose and never decides alone: a backchannel is also short (``barge_in.backchannel_max_s``), so
"okay okay okay, listen" is an interruption as soon as "listen" is read, and three seconds of "yeah" stop the sound.
"yes", "no" and "stop" are not in it: they answer or ask for something. "Huh" alone asks for a repetition.

The second list is of words that mean to stop the other even when they are short and stand alone.
"""

from __future__ import annotations

import re

from .premise import normalise

WORDS = frozenset({"yeah", "yep", "right", "okay", "ok", "ah", "uhhuh", "ooh", "wow"})
CALLS = frozenset(
    {"stop", "wait", "no", "hold", "pause", "quiet", "enough", "hey", "what", "why", "sorry", "pardon", "huh"}
)
_HUMMED = re.compile(r"m+h*m*|h+m+|a?(?:h+a+)+h?")
"""mm, mhm, mmhmm, hm, hmmm, aha, haha: recognisers spell them as they like."""


def is_backchannel(text: str) -> bool:
    """Whether ``text`` has words and all of them are backchannels, whatever their case and punctuation."""
    words = _words(text)
    return bool(words) and all(word in WORDS or _HUMMED.fullmatch(word) for word in words)


def calls(text: str) -> bool:
    """Whether ``text`` calls for silence or attention."""
    return any(word in CALLS for word in _words(text))


def _words(text: str) -> list[str]:
    return normalise(text).replace("-", " ").replace(",", " ").replace("uh huh", "uhhuh").split()
