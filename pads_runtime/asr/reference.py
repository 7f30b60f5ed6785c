"""A recogniser that reads nothing: it plays the word timings of a corpus, for replay without a model.

The file is TSV with a header. ``start`` and ``end`` are seconds from the beginning of the recording, the text is
``word``, ``text`` or ``token``; files of several recordings or speakers are narrowed by column filters, for example
``{"dialogue": "MUL1423", "channel": "A"}``. Rows whose ``kind`` is not ``w`` (punctuation, noises) and rows without
duration or letters are left out. ``.gz`` files are read as they are.
"""

from __future__ import annotations

import gzip
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..errors import InputError
from ..frames import Samples, TranscriptUpdated, Word

_TEXT_COLUMNS = ("word", "text", "token")


class ReferenceRecognizer:
    """Words of the open turn whose end has been heard; all of them are stable."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._words = sorted(words, key=lambda word: (word.end_s, word.start_s))
        self._ends = [word.end_s for word in self._words]
        self._first = 0

    @classmethod
    def from_file(cls, path: Path, only: Mapping[str, str] | None = None) -> ReferenceRecognizer:
        """Read word timings. Raises InputError, with the line number where a line is wrong."""
        return cls(read_words(path, only or {}))

    def begin(self, start_s: float) -> None:
        """A new turn: words that ended before ``start_s`` belong to earlier ones."""
        self._first = bisect_right(self._ends, start_s)

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        """The turn's words that end by ``audio_end_s``; the samples are not looked at."""
        last = bisect_right(self._ends, audio_end_s + 1e-9)
        text = " ".join(word.text for word in self._words[self._first : last])
        return TranscriptUpdated(audio_end_s, text, "", final, audio_end_s)


def read_words(path: Path, only: Mapping[str, str]) -> list[Word]:
    """The words of a TSV file that match ``only``, in order of time. Raises InputError."""
    lines = _lines(path)
    header = next(lines, (0, []))[1]
    text_column = next((name for name in _TEXT_COLUMNS if name in header), None)
    for needed in ("start", "end", *only):
        if needed not in header:
            raise InputError(f"word timings '{path}', line 1: no column '{needed}'; there are: {', '.join(header)}")
    if text_column is None:
        raise InputError(f"word timings '{path}', line 1: no column named word, text or token")
    words: list[Word] = []
    for number, cells in lines:
        if len(cells) != len(header):
            raise InputError(f"word timings '{path}', line {number}: {len(cells)} columns instead of {len(header)}")
        row = dict(zip(header, cells, strict=True))
        if any(row[name] != value for name, value in only.items()) or row.get("kind", "w") != "w":
            continue
        word = _word(path, number, row, row[text_column])
        if word.end_s > word.start_s and any(c.isalnum() for c in word.text):
            words.append(word)
    if not words:
        chosen = ", ".join(f"{k}={v}" for k, v in only.items()) or "any filter"
        raise InputError(f"word timings '{path}' hold no words for {chosen}")
    return sorted(words, key=lambda word: (word.start_s, word.end_s))


def _word(path: Path, number: int, row: Mapping[str, str], text: str) -> Word:
    try:
        start_s, end_s = float(row["start"]), float(row["end"])
    except ValueError:
        raise InputError(
            f"word timings '{path}', line {number}: start '{row['start']}' or end '{row['end']}' is not a number"
        ) from None
    if not (math.isfinite(start_s) and math.isfinite(end_s)):
        raise InputError(f"word timings '{path}', line {number}: start or end is not finite")
    if end_s < start_s:
        raise InputError(f"word timings '{path}', line {number}: the word ends ({end_s}) before it starts ({start_s})")
    return Word(" ".join(text.split()), start_s, end_s)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except FileNotFoundError:
        raise InputError(f"word timings '{path}' not found") from None
    except (OSError, EOFError, ValueError) as exc:
        raise InputError(f"word timings '{path}' cannot be read: {' '.join(str(exc).split())}") from None
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise InputError(f"word timings '{path}', line {number}: not UTF-8 text") from None
        if text.strip():
            yield number, text.split("\t")
