"""What a live talk keeps of its sound: how loud both sides were, and, only if asked for, the sound itself.

Both are rings: a talk of a day takes no more memory than one of the ring's length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from .audio.protocol import AudioSink, AudioSource
from .frames import FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples

BLOCK_FRAMES = 50
"""One second: how often the sink is asked what it played."""
LEVEL_S = 0.05
"""One level is the loudness of this long."""
_LEVEL_SAMPLES = round(LEVEL_S * SAMPLE_RATE)


@dataclass(frozen=True, slots=True)
class _Block:
    """A second of the talk that begins at ``start_s``: both sides' levels, and their sound if it is kept."""

    start_s: float
    user_levels: tuple[float, ...]
    agent_levels: tuple[float, ...]
    user: Samples | None
    agent: Samples | None


@dataclass(frozen=True, slots=True)
class Sound:
    """Both sides from ``start_s`` on, int16 mono at SAMPLE_RATE, equally long."""

    start_s: float
    user: Samples
    agent: Samples


class Recording:
    """An audio source that passes ``source`` on and keeps the last seconds of it, with what ``sink`` played meanwhile.

    ``levels_s`` and ``sound_s`` are the lengths of the rings; no sound is kept where ``sound_s`` is 0.
    """

    def __init__(self, source: AudioSource, sink: AudioSink, levels_s: float, sound_s: float) -> None:
        self._source, self._sink = source, sink
        self._levels_s, self._sound_s = levels_s, sound_s
        self._frames: list[AudioFrame] = []
        self._blocks: deque[_Block] = deque()

    async def frames(self) -> AsyncIterator[AudioFrame]:
        """The source's frames, as they come."""
        async for frame in self._source.frames():
            self._frames.append(frame)
            if len(self._frames) >= BLOCK_FRAMES:
                self._close_block()
            yield frame

    def _close_block(self) -> None:
        """Called within a second of the sound it asks for, so that the sink still knows it."""
        frames, self._frames = self._frames, []
        if not frames:
            return
        user = np.concatenate([frame.samples for frame in frames])
        start_s = frames[0].end_s - FRAME_SAMPLES / SAMPLE_RATE
        agent = self._sink.window(start_s, start_s + len(user) / SAMPLE_RATE)
        kept = (user, agent) if self._sound_s else (None, None)
        self._blocks.append(_Block(start_s, _levels(user), _levels(agent), *kept))
        longest_s = max(self._levels_s, self._sound_s)
        while self._blocks[0].start_s < start_s - longest_s:
            self._blocks.popleft()

    def levels(self, from_s: float, to_s: float) -> dict[str, list[float]]:
        """Root mean square as a share of full scale for each LEVEL_S of [from_s, to_s), 0 where nothing is known."""
        self._close_block()
        count = max(0, round((to_s - from_s) / LEVEL_S))
        levels = {"user": [0.0] * count, "agent": [0.0] * count}
        for block in self._blocks:
            first = round((block.start_s - from_s) / LEVEL_S)
            for who, values in (("user", block.user_levels), ("agent", block.agent_levels)):
                for i, value in enumerate(values, first):
                    if 0 <= i < count:
                        levels[who][i] = value
        return levels

    def sound(self, to_s: float) -> Sound | None:
        """What the ring holds up to ``to_s``; None where no sound is kept or none came."""
        self._close_block()
        blocks = [block for block in self._blocks if block.start_s >= to_s - self._sound_s and block.user is not None]
        if not blocks:
            return None
        start_s = blocks[0].start_s
        last = blocks[-1]
        assert last.user is not None
        length = round((last.start_s - start_s) * SAMPLE_RATE) + len(last.user)
        sides = [np.zeros(length, np.int16), np.zeros(length, np.int16)]
        for block in blocks:
            first = round((block.start_s - start_s) * SAMPLE_RATE)
            for side, samples in zip(sides, (block.user, block.agent), strict=True):
                if samples is not None:
                    part = samples[: length - first]
                    side[first : first + len(part)] = part
        return Sound(start_s, *sides)


def _levels(samples: Samples) -> tuple[float, ...]:
    blocks = samples[: len(samples) // _LEVEL_SAMPLES * _LEVEL_SAMPLES].reshape(-1, _LEVEL_SAMPLES)
    levels: list[float] = np.sqrt(((blocks.astype(np.float64) / 32768) ** 2).mean(axis=1)).round(4).tolist()
    return tuple(levels)
