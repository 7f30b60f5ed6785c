"""The words of the AMI Meeting Corpus, out of its NXT files ``words/<meeting>.<speaker>.words.xml``.

They may lie in a folder (the unpacked package, or above it) or in a tar archive of it.
"""

from __future__ import annotations

import re
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.errors import DataError

_FILE = re.compile(r"(?:^|/)words/([A-Z]{2}\d{4}[a-z]?)\.([A-Z])\.words\.xml$")
_HINT = "give the corpus's own package (its folder, or the tar archive of it) with --ami"


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word with the punctuation that the transcriber put after it; seconds of the meeting."""

    speaker: str
    start_s: float
    end_s: float
    text: str


def read_words(source: Path, wanted: Callable[[str], bool] = lambda meeting: True) -> dict[str, tuple[Word, ...]]:
    """The words of every meeting that ``wanted`` agrees to, by name, each meeting's in order of their start.

    Words cut short (``trunc``), sounds and untimed words are left out; ``X_M_L_`` is written XML. Raises DataError
    naming the file if ``source`` is missing, holds no words files, or one of them is not NXT.
    """
    found: dict[str, list[Word]] = {}
    for meeting, speaker, name, raw in _files(source, wanted):
        found.setdefault(meeting, []).extend(_parse(raw, speaker, name))
    return {
        meeting: tuple(sorted(words, key=lambda w: (w.start_s, w.speaker, w.end_s)))
        for meeting, words in sorted(found.items())
    }


def meetings(source: Path) -> tuple[str, ...]:
    """The names of all meetings with words, in order. Raises DataError as :func:`read_words` does."""
    names = {match[1] for name, _ in _members(source) if (match := _FILE.search(name))}
    if not names:
        raise DataError(_none_in(source))
    return tuple(sorted(names))


def _files(source: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, str, bytes]]:
    """Meeting, speaker, file name and content of each words file; archives are read in one pass."""
    seen = False
    for name, read in _members(source):
        match = _FILE.search(name)
        if match:
            seen = True
            if wanted(match[1]):
                yield match[1], match[2], name, read()
    if not seen:
        raise DataError(_none_in(source))


def _none_in(source: Path) -> str:
    return f"AMI: no words/<meeting>.<speaker>.words.xml in '{source}'; {_HINT}"


def _members(source: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if source.is_dir():
        for path in sorted(source.rglob("*.words.xml")):
            yield path.as_posix(), path.read_bytes
        return
    if not source.is_file():
        raise DataError(f"AMI: '{source}' not found; {_HINT}")
    try:
        with tarfile.open(source, "r:*") as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, lambda member=member: _content(archive, member)  # type: ignore[misc]
    except (tarfile.TarError, OSError, EOFError) as exc:
        raise DataError(f"AMI: '{source}' cannot be read as a tar archive: {exc}") from None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def _parse(raw: bytes, speaker: str, name: str) -> list[Word]:
    try:
        root = ET.fromstring(raw)
    except ET.ParseError as exc:
        raise DataError(f"AMI: '{name}' is no NXT words file: {exc}") from None
    words: list[Word] = []
    for node in root:
        text = (node.text or "").strip()
        if node.tag != "w" or not text or node.get("trunc") == "true":
            continue
        if node.get("punc") == "true":
            if words and not words[-1].text.endswith(text):
                words[-1] = Word(speaker, words[-1].start_s, words[-1].end_s, words[-1].text + text)
            continue
        start, end = node.get("starttime"), node.get("endtime")
        if start and end:
            words.append(Word(speaker, float(start), float(end), text.replace("_", "")))
    return [word for word in words if word.text]
