"""Follows a trace that another process writes: only whole lines, never more than a bounded piece of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..frames import TraceEvent
from ..trace import parse_line

PIECE_BYTES = 1 << 19
"""Of a trace that is longer than this, only the end is read at first: some ten minutes of talk."""
LINE_BYTES = 1 << 16
"""A longer line is no event of ours and is passed over."""


class Tail:
    """The events of the trace ``path`` in the order in which they were written, as far as it has been written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None
        self._rest = b""
        self._skipping = False

    def read(self) -> Iterator[TraceEvent]:
        """What came since the last call, a bounded piece at most; nothing if the file cannot be read now."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if self._offset is None or size < self._offset:  # the first time, or written anew
                    self._offset = max(0, size - PIECE_BYTES)
                    self._rest, self._skipping = b"", self._offset > 0
                file.seek(self._offset)
                piece = file.read(PIECE_BYTES)
        except OSError:
            return
        self._offset += len(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if self._skipping and lines:  # the first line began before what was read
            lines, self._skipping = lines[1:], False
        if len(self._rest) > LINE_BYTES:
            self._rest, self._skipping = b"", True
        for line in lines:
            event = _event(line)
            if event is not None:
                yield event


def _event(line: bytes) -> TraceEvent | None:
    if not line or len(line) > LINE_BYTES:
        return None
    try:
        event = parse_line(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(event.kind, str) and isinstance(event.t_s, int | float) and not isinstance(event.t_s, bool)
    return event if known and abs(event.t_s) < 1e9 else None
