"""LocalAgreement (Liu et al., Interspeech 2020): words on which two successive hypotheses agree are stable. Pure.

Words are compared without case and punctuation. A stable word is never taken back: where a later hypothesis
disagrees with what is stable, only the part of it that goes on from there is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Words = tuple[str, ...]


def split_words(text: str) -> Words:
    """The words of a text, punctuation attached; marks that stand alone are dropped."""
    return tuple(word for word in text.split() if plain(word))


def plain(word: str) -> str:
    """What is compared: lower case, letters, digits and inner apostrophes only."""
    kept = "".join(c for c in word.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") if c.isalnum() or c == "'")
    return kept.strip("'")


def aligned_prefix(words: Sequence[str], text: Sequence[str]) -> int:
    """How many leading words of ``text`` stand for all of ``words``: least edits, then the most equal length."""
    left, right = [plain(w) for w in words], [plain(w) for w in text]
    row = list(range(len(right) + 1))
    for i, word in enumerate(left, 1):
        above, row = row, [i]
        for j, other in enumerate(right, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
    return min(range(len(row)), key=lambda j: (row[j], abs(j - len(left)), -j))


def agreed(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the common prefix."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if plain(a) != plain(b):
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Agreement:
    """What is stable of an open stretch of audio, and the part of the last hypothesis that is not."""

    stable: Words = ()
    tail: Words = ()

    def heard(self, hypothesis: Words) -> Agreement:
        """The next hypothesis for the same stretch, which has grown at its end."""
        tail = hypothesis[aligned_prefix(self.stable, hypothesis) :]
        count = agreed(self.tail, tail)
        return Agreement(self.stable + tail[:count], tail[count:])

    def split(self, closed: Words) -> tuple[Words, Agreement]:
        """The stretch is cut and ``closed`` is what its first part says: (words settled there, what is carried on).

        Settled and carried together begin with all that was stable.
        """
        covered = aligned_prefix(closed, self.stable)
        if covered < len(self.stable):
            return self.stable[:covered], Agreement(self.stable[covered:])
        return self.stable + closed[aligned_prefix(self.stable, closed) :], Agreement()
