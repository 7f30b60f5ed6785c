"""A sink that keeps the agent's timeline, and the stereo recording of a talk."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from ..errors import InputError
from ..frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, Samples
from .files import to_int16

_MARGIN_FRAMES = 2
_BLOCK_S = 10


@dataclass(slots=True)
class _Piece:
    """Samples that begin at index ``start`` of the timeline; those written since the last flush are ``open``."""

    start: int
    samples: Samples
    open: bool = True

    @property
    def end(self) -> int:
        return self.start + len(self.samples)


class WavSink:
    """Plays into memory: what was written sounds at the time given, and a flush cuts what has not sounded yet.

    ``keep_s`` bounds memory for long talks that nobody renders: audio that ended longer ago is forgotten. None keeps
    all of it (48 kB for each second of agent speech at 24 kHz; silence costs nothing).
    """

    def __init__(self, sample_rate: int, keep_s: float | None = None) -> None:
        if sample_rate <= 0 or sample_rate % round(1 / FRAME_S):
            raise InputError(f"a sink cannot run at {sample_rate} Hz: 20 ms must be a whole number of samples")
        self.sample_rate = sample_rate
        self._keep = None if keep_s is None else round(keep_s * sample_rate)
        self._pieces: deque[_Piece] = deque()
        self._cursor = 0
        self._forgotten_open = 0

    def write(self, samples: Samples, now_s: float) -> float:
        """Queue int16 mono samples behind what is queued, at ``now_s`` if nothing is; returns when the last ends."""
        start = max(self._at(now_s), self._cursor)
        if len(samples):
            self._pieces.append(_Piece(start, np.array(samples, dtype=np.int16)))
            self._cursor = start + len(samples)
            self._forget(self._at(now_s))
        return self._cursor / self.sample_rate

    def flush(self, now_s: float) -> int:
        """Cut everything after ``now_s``; returns how many samples written since the last flush were played."""
        now = self._at(now_s)
        played = self._forgotten_open
        kept: deque[_Piece] = deque()
        for piece in self._pieces:
            if piece.open:
                piece.samples = piece.samples[: max(0, now - piece.start)].copy()
                piece.open = False
                played += len(piece.samples)
            if len(piece.samples):
                kept.append(piece)
        self._pieces = kept
        self._cursor = min(self._cursor, now)
        self._forgotten_open = 0
        return played

    def close(self, now_s: float) -> None:
        """Stop playing at ``now_s``. Idempotent; what was played stays available."""
        self.flush(now_s)

    def window(self, start_s: float, end_s: float) -> Samples:
        """What the agent played from ``start_s`` to ``end_s``, int16 mono at 16 kHz, zeros where it was silent.

        Rounded to samples of 16 kHz; windows that touch join without a seam (to a unit of the last place).
        """
        first, last = round(start_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE)
        # Resample whole 20 ms frames with a margin, so that the result does not depend on where the window begins.
        frame = first // FRAME_SAMPLES - _MARGIN_FRAMES
        frames = -(-last // FRAME_SAMPLES) + _MARGIN_FRAMES - frame
        native_frame = round(self.sample_rate * FRAME_S)
        native = self._span(frame * native_frame, frames * native_frame)
        if not native.any():
            return np.zeros(max(0, last - first), dtype=np.int16)
        if self.sample_rate != SAMPLE_RATE:
            native = to_int16(soxr.resample(_to_float(native), self.sample_rate, SAMPLE_RATE, quality="HQ"))
        offset = first - frame * FRAME_SAMPLES
        return native[offset : offset + last - first]

    def render(self, total_s: float) -> Samples:
        """The whole timeline from 0 to ``total_s``, int16 mono at ``sample_rate``."""
        return self._span(0, self._at(total_s))

    @property
    def end_s(self) -> float:
        """When the last queued sample ends."""
        return self._cursor / self.sample_rate

    def _at(self, t_s: float) -> int:
        return round(t_s * self.sample_rate)

    def _span(self, start: int, length: int) -> Samples:
        out = np.zeros(max(0, length), dtype=np.int16)
        for piece in self._pieces:
            low, high = max(piece.start, start), min(piece.end, start + length)
            if low < high:
                out[low - start : high - start] = piece.samples[low - piece.start : high - piece.start]
        return out

    def _forget(self, now: int) -> None:
        while self._keep is not None and self._pieces and self._pieces[0].end < now - self._keep:
            piece = self._pieces.popleft()
            if piece.open:
                self._forgotten_open += len(piece.samples)


def write_conversation(path: str | Path, user: Samples, agent: Samples, sample_rate: int) -> None:
    """Write both sides as one stereo 16-bit WAV at ``sample_rate``: user left, agent right, the shorter side padded.

    ``user`` is int16 mono at 16 kHz, ``agent`` int16 mono at ``sample_rate``; both begin at session time 0. Written
    beside and renamed, so a reader never sees half a file. Raises InputError when it cannot be written.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.part")
    try:
        with soundfile.SoundFile(str(beside), "w", sample_rate, 2, "PCM_16", format="WAV") as file:
            _write_blocks(file, user, agent, sample_rate)
        os.replace(beside, path)  # noqa: PTH105
    except (soundfile.SoundFileError, OSError) as exc:
        beside.unlink(missing_ok=True)
        reason = getattr(exc, "strerror", None) or getattr(exc, "error_string", None) or exc
        raise InputError(f"recording '{path}' cannot be written: {' '.join(str(reason).split())}") from None


def _write_blocks(file: soundfile.SoundFile, user: Samples, agent: Samples, sample_rate: int) -> None:
    length = max(len(agent), -(-len(user) * sample_rate // SAMPLE_RATE))
    resampler = soxr.ResampleStream(SAMPLE_RATE, sample_rate, 1, dtype="float32", quality="HQ")
    step = SAMPLE_RATE * _BLOCK_S
    waiting = np.zeros(0, dtype=np.int16)
    written = 0
    for first in range(0, max(len(user), 1), step):
        block = user[first : first + step]
        last = first + step >= len(user)
        left = block if sample_rate == SAMPLE_RATE else to_int16(resampler.resample_chunk(_to_float(block), last=last))
        waiting = np.concatenate([waiting, left])
        count = length - written if last else min(len(waiting), length - written)
        file.write(np.stack([_fit(waiting, count), _fit(agent[written:], count)], axis=1))
        waiting, written = waiting[count:], written + count


def _fit(samples: Samples, count: int) -> Samples:
    return np.pad(samples[:count], (0, max(0, count - len(samples))))


def _to_float(samples: Samples) -> NDArray[np.float32]:
    return (samples.astype(np.float32)) / np.float32(32768.0)
