"""Guards against what Whisper invents: words on silence and noise, and loops. Pure."""

from __future__ import annotations

from .agreement import Words, plain

_LONGEST_PATTERN = 12
_P_NO_SPEECH = 0.6
_MEAN_LOG_P = -1.0


def is_speechless(p_no_speech: float, mean_log_p: float) -> bool:
    """Whether a reading is to be dropped: the model says there is no speech and does not trust its own words.

    The thresholds of arXiv 2212.04356, section 4.5.
    """
    return p_no_speech > _P_NO_SPEECH and mean_log_p < _MEAN_LOG_P


def collapse_repeats(words: Words) -> Words:
    """Cut loops: one word said more than four times in a row, or a longer pattern more than twice, is kept once.

    People repeat a word ("no no no") and a phrase once; a decoder that cannot stop repeats until its limit.
    """
    kept = list(words)
    for size in range(1, _LONGEST_PATTERN + 1):
        allowed = 4 if size == 1 else 2
        start = 0
        while start + size <= len(kept):
            times = _repeats(kept, start, size)
            if times > allowed:
                del kept[start + size : start + size * times]
            start += 1
    return tuple(kept)


def _repeats(words: list[str], start: int, size: int) -> int:
    pattern = [plain(word) for word in words[start : start + size]]
    times = 1
    while [plain(word) for word in words[start + size * times : start + size * (times + 1)]] == pattern:
        times += 1
    return times
