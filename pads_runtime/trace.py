"""The timeline of a session: every event, one JSON object a line, nothing in it that depends on the machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from .errors import InputError
from .frames import TraceEvent

Listener = Callable[[TraceEvent], None]


class Trace:
    """Collects events; writes each line as it happens when given a file, and tells listeners.

    ``keep`` bounds how many events stay in memory for a long talk (None: all; the file always has all).
    """

    def __init__(self, path: Path | None = None, keep: int | None = None) -> None:
        self.events: list[TraceEvent] = []
        self._keep = keep
        self._listeners: list[Listener] = []
        # Line buffered: a killed process loses nothing that had happened. A lone surrogate is written as JSON's escape.
        self._file: TextIO | None = (
            path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n", buffering=1) if path else None
        )

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every event from now on, on the event loop; it must not block."""
        self._listeners.append(listener)

    def emit(self, kind: str, t_s: float, /, **fields: Any) -> None:
        """Record that ``kind`` happened at ``t_s``."""
        event = TraceEvent(round(t_s, 6), kind, {key: _plain(value) for key, value in fields.items()})
        self.events.append(event)
        if self._keep is not None and len(self.events) > self._keep:
            del self.events[: len(self.events) - self._keep]
        if self._file is not None:
            self._file.write(to_line(event) + "\n")
        for listener in self._listeners:
            listener(event)

    def close(self) -> None:
        """Flush and close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def to_line(event: TraceEvent) -> str:
    """One event as a line of JSON."""
    return json.dumps({"t": event.t_s, "event": event.kind, **event.fields}, ensure_ascii=False)


def parse_line(line: bytes | str) -> TraceEvent:
    """The event of one line. Raises ValueError if it is none."""
    row = json.loads(line)
    if not isinstance(row, dict) or not {"t", "event"} <= row.keys():
        raise ValueError("not an object with 't' and 'event'")
    return TraceEvent(row.pop("t"), row.pop("event"), row)


def stream(path: Path) -> Iterator[TraceEvent]:
    """The events of a trace file one by one, for a talk of hours; a line that is no event is left out."""
    try:
        with path.open("rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    yield parse_line(line)
    except OSError as exc:
        raise InputError(f"trace '{path}' cannot be read: {exc.strerror}") from None


def read(path: Path) -> list[TraceEvent]:
    """Read a trace file; a last line that was cut off is left out. Raises InputError."""
    try:
        *whole, cut = path.read_bytes().split(b"\n")  # only this ends a line: JSON text may hold other separators
    except OSError as exc:
        raise InputError(f"trace '{path}' cannot be read: {exc.strerror}") from None
    events = []
    for number, line in enumerate(whole, 1):
        try:
            events.append(parse_line(line))
        except ValueError:
            raise InputError(f"trace '{path}' line {number} is not a trace event") from None
    with contextlib.suppress(ValueError):
        events.append(parse_line(cut))
    return events


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
