"""Word times of Switchboard, side by side: the Mississippi State alignments as one table.

Columns ``conversation side utt start_ms end_ms token``, tab-separated, plain or xz. A silence is a gap between rows.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError

SOUNDS = frozenset(("[noise]", "[vocalized-noise]", "[laughter]"))
"""Tokens that are no words; a word that is laughed (``[laughter-yes]``) is one."""
_COLUMNS = ("conversation", "side", "utt", "start_ms", "end_ms", "token")


@dataclass(frozen=True)
class Conversation:
    """One call: start and end of each word, ms, in order of their start, by side."""

    name: str
    sides: dict[str, list[tuple[int, int]]]


def conversations(path: Path) -> Iterator[Conversation]:
    """The calls in the order of the table at ``path`` (a file, or the folder of ``words.tsv.xz``), one in memory.

    Raises DataError if it is missing or not such a table.
    """
    file = path / "words.tsv.xz" if path.is_dir() else path
    try:
        with lzma.open(file, "rt", encoding="utf-8") if file.suffix == ".xz" else file.open(encoding="utf-8") as lines:
            if tuple(lines.readline().rstrip("\n").split("\t")) != _COLUMNS:
                raise DataError(f"'{file}' is not a table of {', '.join(_COLUMNS)}")
            yield from _conversations(lines)
    except FileNotFoundError:
        raise DataError(
            f"Switchboard words '{file}' not found; give words.tsv.xz or the folder that holds it"
        ) from None
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as exc:
        raise DataError(f"Switchboard words '{file}' cannot be read: {exc}") from None
    except ValueError as exc:
        raise DataError(f"Switchboard words '{file}': {exc}") from None


def _conversations(lines: Iterator[str]) -> Iterator[Conversation]:
    name, sides = "", dict[str, list[tuple[int, int]]]()
    for line in lines:
        conversation, side, _, start_ms, end_ms, token = line.rstrip("\n").split("\t", 5)
        if conversation != name:
            if sides:
                yield _sorted(name, sides)
            name, sides = conversation, {}
        spans = sides.setdefault(side, [])
        if token not in SOUNDS:
            spans.append((int(start_ms), int(end_ms)))
    if sides:
        yield _sorted(name, sides)


def _sorted(name: str, sides: dict[str, list[tuple[int, int]]]) -> Conversation:
    return Conversation(name, {side: sorted(spans) for side, spans in sorted(sides.items())})
