"""What the two speech models share: opening one with an extra output, and reading word ends off its durations.

Both models decide for each phoneme how many frames it lasts and do not hand that number out. It can be had without
touching the file: an ONNX model is a protobuf message (onnx.proto: ModelProto.graph is field 7, GraphProto.output is
field 12, ValueInfoProto.name is field 1), messages that are appended to one another merge, so a few bytes behind the
model add one output to its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelCorrupt, ModelMissing
from ..frames import Samples, SpokenWord

SILENCE = 33
"""Samples at or below this are no sound: -60 dB of full scale."""
LEAD_S = 0.02
"""Silence kept before the first sound. The models begin with 0.3 s of it, which a person would wait through."""
SENTENCE_PAUSE_S = 0.25
CLAUSE_PAUSE_S = 0.12
"""Silence kept after the last sound, as far as the model made any."""

Floats = NDArray[np.float32]


def read_model(path: Path, tensor: str) -> bytes:
    """The model in ``path`` with the inner ``tensor`` as one more output. Raises ModelMissing or ModelCorrupt."""
    try:
        model = path.read_bytes()
    except FileNotFoundError:
        raise ModelMissing(f"voice '{path}' not found; fetch it with: pads models pull") from None
    except OSError as exc:
        raise ModelCorrupt(f"voice '{path}' cannot be read: {exc.strerror}") from None
    return model + with_output(tensor)


def with_output(tensor: str) -> bytes:
    """Bytes that, appended to an ONNX model, add ``tensor`` to its graph's outputs."""
    return _field(7, _field(12, _field(1, tensor.encode("ascii"))))


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    head, rest = value & 0x7F, value >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def open_session(model: bytes, threads: int, where: Path) -> Any:
    """An onnxruntime session on the CPU whose threads sleep while they wait. Raises ModelCorrupt."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A spinning pool takes the cores that the language model decodes on.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime's own exception types share no base class
        raise ModelCorrupt(f"voice '{where}' is refused by onnxruntime: {' '.join(str(exc).split())[:120]}") from None


def place_words(
    words: Sequence[str], ends: Sequence[int], units: Callable[[str], int], total: int
) -> tuple[SpokenWord, ...]:
    """Give each written word the end of the spoken words it was read as.

    ``ends`` are the end samples of the spoken words in order, ``units(word)`` says how many spoken words one written
    word makes ("$9.99": five) and 0 for one without a sound, which ends with the word before it. Where the counts do
    not add up, because the reading depended on the context, the ends are shared out in proportion.
    """
    counts = [units(word) for word in words]
    written, spoken = sum(counts), len(ends)
    placed: list[SpokenWord] = []
    done = end = 0
    for word, count in zip(words, counts, strict=True):
        done += count
        if count and spoken:
            index = max(1, round(done * spoken / written))
            end = min(total, max(end, ends[index - 1]))
        placed.append(SpokenWord(word, end))
    return tuple(placed)


def trim(samples: Samples, rate: int, pause_s: float) -> tuple[Samples, int]:
    """Cut the silence at both ends down to LEAD_S and ``pause_s``; also returns how many samples went in front."""
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > SILENCE)
    if not loud.size:
        return samples[:0], 0
    first = max(0, int(loud[0]) - round(LEAD_S * rate))
    last = min(len(samples), int(loud[-1]) + 1 + round(pause_s * rate))
    return samples[first:last], first


def snap_to_sound(ends: Sequence[int], samples: Samples) -> list[int]:
    """Move each end back to the last sound before it, and the last one to the end of all sound.

    The models count the silence after a word as part of its last phoneme, and the last word's fading as silence.
    """
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > SILENCE)
    if not loud.size or not ends:
        return list(ends)
    last = np.searchsorted(loud, np.asarray(ends, np.int64), side="left") - 1
    snapped = [int(loud[i]) + 1 if i >= 0 else end for i, end in zip(last, ends, strict=True)]
    return [*snapped[:-1], int(loud[-1]) + 1]


def pause_after(text: str) -> float:
    """Silence that should follow this phrase, in seconds."""
    return SENTENCE_PAUSE_S if text.rstrip("\"')]}*_ ").endswith((".", "!", "?", "…")) else CLAUSE_PAUSE_S


def to_int16(wave: Floats) -> Samples:
    """Floats in [-1, 1] as int16; what lies beyond is clipped."""
    samples: Samples = np.rint(np.clip(wave, -1.0, 1.0) * 32767.0).astype(np.int16)
    return samples
