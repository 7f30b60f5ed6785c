"""The sound of one reply at the sink: where it was cut, which words were heard, and the rest of it.

What was really played is the sink's to say, in samples (``flush``). A word counts as heard when its last sample was
played; a reply that goes on after a cut begins at the end of the last word that was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .audio.protocol import AudioSink, LateSink
from .clock import Clock
from .frames import PhraseSynthesized

_EPSILON_S = 1e-9
_RECHECK_S = 0.01
_ROUNDING_S = 0.1
"""A device counts in its own rate and blocks; less than this of a reply that ran to its end is not missed."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A phrase from sample ``first`` on."""

    phrase: PhraseSynthesized
    first: int = 0

    def heard(self, played: int) -> tuple[list[str], _Piece | None]:
        """The words of it that end within ``played`` samples, and the piece that is left."""
        whole = self.first + played >= len(self.phrase.samples)
        upto = max(self.first + played, self.phrase.words[-1].end_sample if whole and self.phrase.words else 0)
        done = [w for w in self.phrase.words if self.first < w.end_sample <= upto]
        if whole:
            return [word.text for word in done], None
        return [word.text for word in done], _Piece(self.phrase, done[-1].end_sample if done else self.first)


class Playback:
    """Hands phrases to ``sink``; can be held, cut and resumed. All of it on the event loop."""

    def __init__(self, sink: AudioSink, clock: Clock) -> None:
        self._sink, self._clock = sink, clock
        self._queued: list[_Piece] = []
        self._waiting: list[_Piece] = []
        self._heard: list[str] = []
        self._played = 0
        self._end_s = 0.0
        self._running = asyncio.Event()
        self._running.set()
        self.started = False
        """Whether a sample was ever handed to the sink."""

    @property
    def heard(self) -> str:
        """The words that were played whole, up to the last cut."""
        return " ".join(self._heard)

    @property
    def rest(self) -> str:
        """The words that a held reply has still to say, as far as they were synthesised."""
        words = [w.text for piece in self._waiting for w in piece.phrase.words if w.end_sample > piece.first]
        return " ".join(words)

    @property
    def complete(self) -> bool:
        """Whether all that was written had been played at the last cut, but for a sink's rounding."""
        left = sum(len(piece.phrase.samples) - piece.first for piece in self._waiting)
        return left < _ROUNDING_S * self._sink.sample_rate

    @property
    def played_s(self) -> float:
        """Seconds of it that were played, up to the last cut."""
        return self._played / self._sink.sample_rate

    @property
    def held(self) -> bool:
        """Whether it was cut and may go on."""
        return not self._running.is_set()

    def write(self, phrase: PhraseSynthesized) -> None:
        """Say ``phrase`` after what was written before; a held reply keeps it for later."""
        self.started = True
        if self.held:
            self._waiting.append(_Piece(phrase))
        else:
            self._play(_Piece(phrase))

    def cut(self) -> None:
        """Be silent now; what was not heard is kept for ``resume``."""
        played = self._sink.flush(self._clock.now())
        self._played += played
        rest: list[_Piece] = []
        for piece in self._queued:
            words, left = piece.heard(played)
            self._heard += words
            played = max(0, played - (len(piece.phrase.samples) - piece.first))
            if left is not None:
                rest.append(left)
        self._queued.clear()
        self._waiting = rest + self._waiting

    def hold(self) -> None:
        """Cut, and wait for ``resume``."""
        self._running.clear()
        self.cut()

    def resume(self) -> None:
        """Go on where the hold cut it, from the last whole word."""
        waiting, self._waiting = self._waiting, []
        for piece in waiting:
            self._play(piece)
        self._running.set()

    async def finished(self) -> None:
        """Return when everything written has been played; never while held."""
        while True:
            await self._running.wait()
            await self._clock.sleep_until(self._end_s)
            now_s = self._clock.now()
            if self.held or now_s < self._end_s - _EPSILON_S:
                continue
            late_s = self._sink.pending_s(now_s) if isinstance(self._sink, LateSink) else 0.0
            if late_s <= 0.0:
                return
            self._end_s = now_s + max(late_s, _RECHECK_S)

    def _play(self, piece: _Piece) -> None:
        self._queued.append(piece)
        self._end_s = self._sink.write(piece.phrase.samples[piece.first :], self._clock.now())
