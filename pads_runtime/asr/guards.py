"""Guards against what Whisper invents: words on silence and noise, and loops. Pure."""

from __future__ import annotations

from .agreement import Words, plain

_LONGEST_PATTERN = 16
_P_NO_SPEECH = 0.65
_MEAN_LOG_P = -0.7


def is_speechless(p_no_speech: float, mean_log_p: float) -> bool:
    """Whether a reading is to be dropped: the model says there is no speech and does not trust its own words.

    The rule of arXiv 2212.04356, section 4.5, with thresholds for tiny.en on short windows: of 112 telephone
    utterances the highest P(no speech) is 0.62, at a log probability of -0.4; what is invented on noise, claps and
    far chatter ("Thank you.") has at least 0.74 and at most -0.75.
    """
    return p_no_speech > _P_NO_SPEECH and mean_log_p < _MEAN_LOG_P


def collapse_repeats(words: Words, runaway: bool) -> Words:
    """Cut loops: one word said more than four times in a row, or a longer pattern more than twice, is kept once.

    People repeat a word ("no no no") and a phrase once; a decoder that cannot stop repeats until its limit. With
    ``runaway`` (the limit was reached) a phrase said twice is a loop too, and so is the piece of a third at the end.
    """
    kept = list(words)
    for size in range(1, _LONGEST_PATTERN + 1):
        allowed = 4 if size == 1 else 1 if runaway else 2
        start = 0
        while start + size <= len(kept):
            times = _repeats(kept, start, size)
            if times > allowed:
                del kept[start + size : start + size * times]
                rest = [plain(word) for word in kept[start + size :]]
                if runaway and rest == [plain(word) for word in kept[start : start + len(rest)]]:
                    del kept[start + size :]
            start += 1
    return tuple(kept)


def _repeats(words: list[str], start: int, size: int) -> int:
    pattern = [plain(word) for word in words[start : start + size]]
    times = 1
    while [plain(word) for word in words[start + size * times : start + size * (times + 1)]] == pattern:
        times += 1
    return times
