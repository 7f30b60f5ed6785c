"""The loudspeaker as the session knows it: an AudioSink over a Player that can be exchanged."""

from __future__ import annotations

from collections.abc import Callable

import soxr

from ..frames import Samples
from .player import Player
from .reference import Reference


class LiveSink:
    """Plays mono int16 at ``sample_rate``, whatever the device's rate. For the event loop.

    ``flush`` counts what was heard to the sample where the device holds back 20 ms or less: what it has been given
    will sound, and nothing after it. Where it holds back more, ``ask_restart`` makes it drop that, and the count comes
    from the device's own account of its delay.
    """

    def __init__(self, sample_rate: int, player: Player, reference: Reference, ask_restart: Callable[[], None]) -> None:
        self.sample_rate = sample_rate
        self._player, self._reference = player, reference
        self._ask_restart = ask_restart
        self._heard_before = 0.0
        self._away = False
        self._silent_until_s = 0.0

    def write(self, samples: Samples, now_s: float) -> float:
        """Queue samples behind what is queued; returns when the last one sounds, as far as can be told now.

        While the speaker is away they count as never heard, and take their time. Raises DeviceError when more than
        five minutes wait.
        """
        if self._away:
            self._silent_until_s = max(self._silent_until_s, now_s) + len(samples) / self.sample_rate
            return self._silent_until_s
        self._player.add(self._to_device(samples))
        return self._player.ends_s(now_s)

    def flush(self, now_s: float) -> int:
        """Silence within 20 ms; returns how many samples written since the last flush were heard."""
        heard, restart = self._player.cut()
        if restart:
            self._ask_restart()
        self._silent_until_s = now_s
        total = self._heard_before + heard * self.sample_rate / self._player.rate
        self._heard_before = 0.0
        return round(total)

    def pending_s(self, now_s: float) -> float:
        """Seconds until the last queued sample will have sounded; 0 when all of it has."""
        if self._away:
            return max(0.0, self._silent_until_s - now_s)
        return max(0.0, self._player.ends_s(now_s) - now_s)

    def window(self, start_s: float, end_s: float) -> Samples:
        """What sounded in [start_s, end_s), int16 mono at 16 kHz, shape (round((end_s - start_s) * 16000),)."""
        return self._reference.window(start_s, end_s)

    def close(self, now_s: float) -> None:
        """Be silent. The device is closed with its LiveAudio."""
        self._player.cut()

    def exchange(self, player: Player, reference: Reference) -> None:
        """From the watching thread: the speaker was opened anew at another rate."""
        heard, _ = self._player.cut()
        self._heard_before += heard * self.sample_rate / self._player.rate
        self._player, self._reference = player, reference

    def away(self, gone: bool) -> None:
        """From the watching thread: there is no speaker for now, or there is one again."""
        self._away = gone
        if gone:
            self._player.discard()

    def _to_device(self, samples: Samples) -> Samples:
        if self._player.rate == self.sample_rate or not len(samples):
            return samples
        # Phrase by phrase: each begins and ends in silence, and a stream would hold back the end of each.
        converted: Samples = soxr.resample(samples, self.sample_rate, self._player.rate, quality="HQ")
        return converted
