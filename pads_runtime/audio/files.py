"""Recordings from disk: any libsndfile format, rate and channel count, as mono int16 at 16 kHz.

Read, downmixed and resampled (soxr, high quality) block by block, so memory follows the result and not the file.
Everything that would give a talk of silence or rubbish is refused in one line.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from ..errors import InputError
from ..frames import SAMPLE_RATE, Samples

Channel = Literal["mix", "left", "right"]

_BLOCK_FRAMES = 1 << 18
_UNKNOWN_SIZES = (0, 0x7FFFFFFF, 0xFFFFFFFF)
_MAX_RATE = 768_000


def read_audio(path: str | Path, channel: Channel = "mix") -> Samples:
    """The recording at ``path`` as int16 mono, 16 kHz, shape (n,); a 16 kHz mono int16 file comes back unchanged.

    ``channel`` picks one side of a stereo recording or the mean of all channels. Raises InputError when the file is
    missing, unreadable, not audio, shorter than it says, empty, all zero, or not made of finite numbers.
    """
    path = Path(path)
    _check_readable(path)
    try:
        with soundfile.SoundFile(str(path)) as file:
            return _read(file, path, channel)
    except soundfile.SoundFileError as exc:
        raise InputError(f"audio file '{path}' is not audio that can be read: {_reason(exc)}") from None
    except OSError as exc:
        raise InputError(f"audio file '{path}' cannot be read: {exc.strerror or exc}") from None


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise InputError(f"audio file '{path}' not found")
    if not path.is_file():
        raise InputError(f"'{path}' is not a file; give the path of a recording")
    if path.stat().st_size == 0:
        raise InputError(f"audio file '{path}' is empty (0 bytes)")
    if not os.access(path, os.R_OK):
        raise InputError(f"audio file '{path}' cannot be read: permission denied")


def _read(file: soundfile.SoundFile, path: Path, channel: Channel) -> Samples:
    announced = max(file.frames, _frames_in_wav_header(path, file))
    if announced == 0:
        raise InputError(f"audio file '{path}' has no samples")
    if not 0 < file.samplerate <= _MAX_RATE:
        raise InputError(f"audio file '{path}' has an impossible sample rate ({file.samplerate} Hz)")
    picked = _channel_index(path, channel, file.channels)
    resampler = soxr.ResampleStream(file.samplerate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
    pieces: list[Samples] = []
    done, heard = 0, False
    while done < announced:
        block = _read_block(file)
        if len(block) == 0:
            raise InputError(
                f"audio file '{path}' is cut short: {done / file.samplerate:.2f} s of "
                f"{announced / file.samplerate:.2f} s are readable; copy it again or trim it"
            )
        mono = block.mean(axis=1) if picked is None else np.ascontiguousarray(block[:, picked])
        if not np.isfinite(mono).all():
            raise InputError(f"audio file '{path}' holds samples that are not numbers (NaN or infinite)")
        done += len(block)
        heard = heard or bool(mono.any())
        if file.samplerate != SAMPLE_RATE:
            mono = resampler.resample_chunk(mono, last=done >= announced)
        pieces.append(to_int16(mono))
    if not heard:
        side = "" if picked is None else f" in its {channel} channel"
        raise InputError(f"audio file '{path}' is digital silence{side}: all {announced} samples are zero")
    samples = np.concatenate(pieces)
    if len(samples) == 0:
        raise InputError(f"audio file '{path}' is too short to hold speech ({announced} samples)")
    return samples


def _read_block(file: soundfile.SoundFile) -> NDArray[np.float32]:
    """The next block, shape (frames, channels); empty where a damaged stream gives no more."""
    before = file.tell()
    try:
        block: NDArray[np.float32] = file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)
    except soundfile.SoundFileError:
        # A decoder that meets the damage in mid-block refuses the whole block; salvage what comes before it, so that
        # the message can say how much is readable.
        return _salvage(file, before)
    return block


def _salvage(file: soundfile.SoundFile, start: int) -> NDArray[np.float32]:
    empty = np.zeros((0, file.channels), dtype=np.float32)
    pieces = [empty]
    try:
        file.seek(start)
        while len(piece := file.read(1024, dtype="float32", always_2d=True)):
            pieces.append(piece)
    except soundfile.SoundFileError:
        pass
    return np.concatenate(pieces)


def _channel_index(path: Path, channel: Channel, channels: int) -> int | None:
    if channel == "mix":
        return 0 if channels == 1 else None
    index = 0 if channel == "left" else 1
    if index >= channels:
        raise InputError(f"audio file '{path}' has one channel only, so no {channel} one; use audio.channel=mix")
    return index


def _frames_in_wav_header(path: Path, file: soundfile.SoundFile) -> int:
    """What a RIFF header promises; libsndfile silently believes the file's length instead. 0 if it says nothing."""
    if file.format != "WAV" or file.subtype not in ("PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT", "DOUBLE"):
        return 0
    width = {"PCM_U8": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4, "DOUBLE": 8}[file.subtype]
    with path.open("rb") as raw:
        raw.seek(12)
        while len(head := raw.read(8)) == 8:
            name, size = struct.unpack("<4sI", head)
            if name == b"data":
                return 0 if size in _UNKNOWN_SIZES else int(size) // (width * file.channels)
            raw.seek(size + (size & 1), os.SEEK_CUR)
    return 0


def to_int16(samples: NDArray[np.float32]) -> Samples:
    """Floats in [-1, 1) to int16: rounded, and clipped where a resampler overshoots."""
    clipped: Samples = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
    return clipped


def _reason(exc: Exception) -> str:
    text = str(getattr(exc, "error_string", "") or exc)
    return " ".join(text.split()).rstrip(".") or "unknown format"
