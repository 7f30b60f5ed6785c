"""A ring of samples between one writer and one reader, for audio callbacks: no lock, no allocation, never full."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..frames import Samples


class Ring:
    """Holds the last ``capacity`` frames of ``channels`` int16 samples.

    The writer always succeeds: when the reader is too slow the oldest frames are overwritten, and the reader learns
    how many. ``written`` only grows, so a frame's number is its place in the stream.
    """

    def __init__(self, capacity: int, channels: int) -> None:
        self._data: NDArray[np.int16] = np.zeros((capacity, channels), dtype=np.int16)
        self._capacity = capacity
        self.written = 0
        self._read = 0

    def write(self, block: Samples) -> None:
        """Copy a block of shape (frames, channels), at most ``capacity`` long."""
        start = self.written % self._capacity
        room = self._capacity - start
        if len(block) <= room:
            self._data[start : start + len(block)] = block
        else:
            self._data[start:] = block[:room]
            self._data[: len(block) - room] = block[room:]
        self.written += len(block)  # only now may the reader look

    def read(self) -> tuple[Samples, int]:
        """What came since the last call, shape (frames, channels), and how many frames before it were lost."""
        written = self.written
        start = max(self._read, written - self._capacity)
        places = np.arange(start, written) % self._capacity
        block: Samples = self._data[places]
        # While this copied, the writer may have come round; what it may have touched is not trusted.
        torn = max(0, min(len(block), self.written - self._capacity - start))
        lost = start + torn - self._read
        self._read = written
        return block[torn:], lost
