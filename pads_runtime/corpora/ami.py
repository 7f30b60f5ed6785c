"""The AMI Meeting Corpus in its own layout: NXT words files and who took part, from a folder, a tar or a zip.

Carletta et al., "The AMI meeting corpus" (MLMI 2005); manual annotations, releases 1.6 and 1.7.
"""

from __future__ import annotations

import re
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import DataError

Kind = Literal["w", "trunc", "punc", "vocalsound", "disfmarker", "gap", "transformerror"]
KINDS: frozenset[Kind] = frozenset(("w", "trunc", "punc", "vocalsound", "disfmarker", "gap", "transformerror"))

MISTIMED: Mapping[str, frozenset[str] | None] = {
    "EN2002a": None,
    "EN2002c": None,
    "EN2003a": None,
    "TS3009c": frozenset("3"),
}
"""Meetings whose times the corpus's own readme calls incomplete or wrong: all headset channels (None), or these."""

_WORDS = re.compile(r"(?:^|/)words/([^/.]+)\.([^/.]+)\.words\.xml$")
_PEOPLE = re.compile(r"(?:^|/)corpusResources/meetings\.xml$")
_HINT = "give the corpus's own package: its folder, or the tar or zip of it"


@dataclass(frozen=True, slots=True)
class Element:
    """One annotated element; seconds of the meeting, None where the corpus gives no time."""

    kind: Kind
    start_s: float | None
    end_s: float | None
    text: str
    """The word, or the type of a vocal sound."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a speaker's letter stands for in one meeting."""

    name: str
    channel: str
    """Number of the headset: ``<meeting>.Headset-<channel>.wav``."""


@dataclass(frozen=True)
class Meeting:
    """One meeting: each speaker's elements in the order of the file."""

    name: str
    elements: Mapping[str, tuple[Element, ...]]

    def spans(self, speaker: str, kinds: frozenset[Kind]) -> list[tuple[float, float]]:
        """Start and end in seconds of the speaker's timed elements of ``kinds``, in order of their start."""
        return sorted(
            (e.start_s, e.end_s)
            for e in self.elements[speaker]
            if e.kind in kinds and e.start_s is not None and e.end_s is not None
        )


class AmiCorpus:
    """The corpus at ``path``. Raises DataError if it is missing or holds no words files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = dict(_read(path, lambda name: bool(_WORDS.search(name) or _PEOPLE.search(name))))
        self._words: dict[str, dict[str, str]] = {}
        for name in sorted(self._files):
            match = _WORDS.search(name)
            if match:
                self._words.setdefault(match[1], {})[match[2]] = name
        if not self._words:
            raise DataError(f"no words/<meeting>.<speaker>.words.xml in '{path}'; {_HINT}")

    @property
    def meetings(self) -> tuple[str, ...]:
        """Names of all meetings that have words, in order."""
        return tuple(sorted(self._words))

    def meeting(self, name: str) -> Meeting:
        """One meeting. Raises DataError for an unknown name or a file that is not NXT."""
        if name not in self._words:
            raise DataError(
                f"meeting '{name}' has no words in '{self.path}'; it has {', '.join(self.meetings[:5])} ..."
            )
        files = self._words[name]
        return Meeting(name, {speaker: parse_words(self._files[f](), f) for speaker, f in files.items()})

    def people(self) -> dict[str, dict[str, Person]]:
        """By meeting and speaker's letter; empty where ``meetings.xml`` is absent. Raises DataError if it is no XML."""
        name = next((f for f in self._files if _PEOPLE.search(f)), None)
        if name is None:
            return {}
        found: dict[str, dict[str, Person]] = {}
        for meeting in _parsed(self._files[name](), name).iter("meeting"):
            for speaker in meeting.iter("speaker"):
                letter, person, channel = (speaker.get(key, "") for key in ("nxt_agent", "global_name", "channel"))
                found.setdefault(meeting.get("observation", ""), {})[letter] = Person(person, channel)
        return found


def _read(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name and content of the wanted files. An archive is gone through once, and what is wanted of it kept."""
    if path.is_dir():
        for file in sorted(path.rglob("*.xml")):
            if wanted(file.as_posix()):
                yield file.relative_to(path.parent).as_posix(), lambda file=file: _bytes(file)  # type: ignore[misc]
        return
    if not path.is_file():
        raise DataError(f"AMI corpus '{path}' not found; {_HINT}")
    try:
        for name, data in _zipped(path, wanted) if zipfile.is_zipfile(path) else _tarred(path, wanted):
            yield name, lambda data=data: data  # type: ignore[misc]
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as exc:
        raise DataError(f"AMI corpus '{path}' cannot be unpacked: {exc or type(exc).__name__}; {_HINT}") from None


def _tarred(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            opened = archive.extractfile(member) if wanted(member.name) else None
            if opened is not None:
                yield member.name, opened.read()


def _zipped(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if wanted(name):
                yield name, archive.read(name)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise DataError(f"'{file}' cannot be read: {exc.strerror}") from None


def parse_words(raw: bytes, name: str) -> tuple[Element, ...]:
    """The elements of one words file in its order. Raises DataError, naming it, if it is none."""
    return tuple(element for node in _parsed(raw, name) if (element := _element(node, name)) is not None)


def _element(node: ET.Element, name: str) -> Element | None:
    kind = node.tag
    if kind == "w":
        kind = "punc" if node.get("punc") == "true" else "trunc" if node.get("trunc") == "true" else "w"
    if kind not in KINDS:
        return None
    try:
        start_s, end_s = (float(text) if (text := node.get(key)) else None for key in ("starttime", "endtime"))
    except ValueError as exc:
        raise DataError(f"'{name}' is no NXT words file: {exc}") from None
    return Element(kind, start_s, end_s, node.text or node.get("type") or "")


def _parsed(raw: bytes, name: str) -> ET.Element:
    try:
        return ET.fromstring(raw)
    except ET.ParseError as exc:
        what = "NXT file" if _PEOPLE.search(name) else "NXT words file"
        raise DataError(f"'{name}' is no {what}: {exc}") from None
