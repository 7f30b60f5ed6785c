"""Which numbers of a document are claims of performance, and whether each carries its tag and its run. Pure.

The rule stands in bench/README.md. A block is a paragraph, a list item or a table; a claim's tag is the next one behind
it in its block (in its row, in a table), else the last one before it there, else, for a table, the last one of the
block above it, else that of the nearest heading that has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .read import DEV_HOST, SUPERSEDED, TAGS, TARGET

UNITS = (
    r"(?:ms|µs|us|ns|s|min|minutes|seconds|kB|MB|GB|GiB|MiB|GB/s|MB/s|tokens/s|tok/s|words/s|x|J|W|MHz|GHz|°C|%|points)"
)
_NUMBER = r"[-+±~<>≥≤]?\d[\d,]*(?:\.\d+)?"
_WITH_UNIT = re.compile(rf"(?<![\w.`-])({_NUMBER}(?:\s*(?:/|,|to|and|or|-)\s*{_NUMBER})*\s?{UNITS})(?![\w/])")
_DECIMAL = re.compile(r"(?<![\w.`/-])(\d[\d,]*\.\d+)(?![\w.]*\.\d|\w)")
_NO_CLAIM_BEFORE = re.compile(r"(?:Python|arXiv|version|release|CUDA|GGUF|llama\.cpp|licence|[A-Z]{2,}-)\s*$", re.I)
_TAG = re.compile(rf"\[({'|'.join(TAGS)})([^\]]*)\]")
_RUN = re.compile(r"\b\d{8}T\d{6}Z-[\w.-]*\w")
_CODE = re.compile(r"`[^`]*`")
_GIVEN = re.compile(r"<!--\s*given:(.*?)-->", re.DOTALL)
_LINK = re.compile(r"\]\([^)]*\)|https?://\S+|<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"(#{1,6}) ")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.) ")


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of a document that does not hold."""

    line: int
    told: str


@dataclass(frozen=True, slots=True)
class _Block:
    line: int
    kind: str
    """heading, table or text"""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tag:
    kind: str
    text: str


def faults(text: str, evidence: Mapping[str, Mapping[str, Any]], published: bool = True) -> list[Fault]:
    """What is wrong with a document: untagged claims, tags that do not hold, runs of which there is no evidence.

    A document that is not ``published`` describes a method: only the numbers of its tables are claims, and its tags
    need not name a run. ``<!-- given: 200 MB; 30 s -->`` lists quantities that were chosen and not measured; one that
    stands nowhere is a fault.
    """
    text, found = _without_given(text)
    section: list[tuple[int, _Tag | None]] = []
    above: _Tag | None = None
    for block in _blocks(text):
        if block.kind == "heading":
            match = _HEADING.match(block.lines[0])
            depth = len(match[1]) if match else 1
            section = [(d, t) for d, t in section if d < depth]
            section.append((depth, _last_tag(block.lines[0])))
            above = None
        inherited = next((tag for _, tag in reversed(section) if tag), None)
        outer = above if block.kind == "table" and above else inherited
        if published or block.kind == "table":
            found += _claims(block, outer)
        found += _tags(block, evidence, published)
        if block.kind != "heading":
            above = _last_tag("\n".join(block.lines)) or (above if block.kind == "table" else None)
    found += _runs(text, evidence)
    return sorted(found, key=lambda fault: fault.line)


def _without_given(text: str) -> tuple[str, list[Fault]]:
    """The text with its given quantities blanked, and a fault for each that is not there."""
    found = []
    uncoded = _CODE.sub(lambda match: " " * len(match[0]), text)
    for comment in list(_GIVEN.finditer(uncoded)):
        for given in filter(None, (part.strip() for part in comment[1].split(";"))):
            wanted = re.compile(rf"(?<![\w.]){re.escape(given)}(?!\w)")
            bare = _GIVEN.sub(lambda match: " " * len(match[0]), text)
            places = [match.span() for match in wanted.finditer(bare)]
            if not places:
                found.append(Fault(text.count("\n", 0, comment.start()) + 1, f"given '{given}' stands nowhere"))
            for start, end in places:
                text = text[:start] + " " * (end - start) + text[end:]
    return text, found


def claims(text: str) -> list[str]:
    """The claims of one piece of text, as written."""
    return [claim for _, claim in _numbers(text)]


def _numbers(text: str) -> list[tuple[int, str]]:
    """Place and wording of each claim; what stands in code, in a link or in a tag is none."""
    bare = text
    for pattern in (_CODE, _LINK, _TAG):
        bare = pattern.sub(lambda match: " " * len(match[0]), bare)
    found = {match.start(): match[1] for match in _WITH_UNIT.finditer(bare)}
    ends = [(start, start + len(word)) for start, word in found.items()]
    for match in _DECIMAL.finditer(bare):
        inside = any(start <= match.start() < end for start, end in ends)
        if not inside and not _NO_CLAIM_BEFORE.search(bare[: match.start()]):
            found[match.start()] = match[1]
    return sorted(found.items())


def _claims(block: _Block, outer: _Tag | None) -> Iterator[Fault]:
    if block.kind == "table":
        pieces = [(block.line + i, line) for i, line in enumerate(block.lines)]
    else:
        pieces = [(block.line, "\n".join(block.lines))]
    for line, text in pieces:
        tags = [match.start() for match in _TAG.finditer(text)]
        if tags or outer:
            continue
        for at, claim in _numbers(text):
            yield Fault(line + text.count("\n", 0, at), f"'{claim}' carries no tag")


def _tags(block: _Block, evidence: Mapping[str, Mapping[str, Any]], need_runs: bool) -> Iterator[Fault]:
    text = "\n".join(block.lines)
    for match in _TAG.finditer(text):
        line = block.line + text.count("\n", 0, match.start())
        kind, inside = match[1], match[2]
        if any(other in inside for other in TAGS):
            yield Fault(line, f"[{kind} ...] holds a second tag; a number carries exactly one")
        named = _RUN.findall(inside)
        if need_runs and not named and not _RUN.search(text):
            yield Fault(line, f"[{kind}] names no run")
        for run in named:
            yield from (Fault(line, told) for told in _against(kind, run, evidence.get(run)))


def _against(kind: str, run: str, kept: Mapping[str, Any] | None) -> Iterator[str]:
    if kept is None:
        return  # told once for the whole text
    if kind == TARGET and not kept.get("reportable_as_target_hardware"):
        yield f"run {run} was not made on the target and cannot be [{TARGET}]"
    elif kept.get("tag") == SUPERSEDED and kind != SUPERSEDED:
        yield f"run {run} is superseded by {kept.get('superseded_by')}"
    elif kind in (TARGET, DEV_HOST) and kept.get("tag") not in (TARGET, DEV_HOST):
        yield f"run {run} is {kept.get('tag')} ({kept.get('why_no_measurement', '')}) and cannot be [{kind}]"


def _runs(text: str, evidence: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    told: set[str] = set()
    for match in _RUN.finditer(text):
        if match[0] not in evidence and match[0] not in told:
            told.add(match[0])
            line = text.count("\n", 0, match.start()) + 1
            yield Fault(line, f"no evidence of run {match[0]}; make it with: ./scripts/bench cite {match[0]}")


def _last_tag(text: str) -> _Tag | None:
    found = [_Tag(match[1], match[2]) for match in _TAG.finditer(text)]
    return found[-1] if found else None


def _blocks(text: str) -> Iterator[_Block]:
    """Headings, tables, paragraphs and list items with their first line; fenced code is none."""
    held: list[str] = []
    begin, kind, fenced = 1, "text", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        elif fenced:
            line = ""
        now = "table" if line.lstrip().startswith("|") else "heading" if _HEADING.match(line) else "text"
        if held and (not line.strip() or now != kind or now == "heading" or _ITEM.match(line)):
            yield _Block(begin, kind, tuple(held))
            held = []
        if line.strip():
            if not held:
                begin, kind = number, now
            held.append(line)
