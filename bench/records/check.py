"""``python -m bench.records.check``: the documents that publish figures, against the committed evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pads_runtime.config import ROOT
from pads_runtime.errors import PadsError

from .claims import faults
from .evidence import load_evidence

STRICT = ("README.md", "bench/RESULTS.md")
"""These publish figures: every number in them counts, and every tag names its run."""


def documents(root: Path) -> Iterator[tuple[Path, bool]]:
    """Each document, and whether it publishes figures; the others describe methods beside their tables of results."""
    yield from ((root / name, True) for name in STRICT)
    yield from ((path, False) for path in sorted((root / "bench").rglob("README.md")))


def main(root: Path = ROOT) -> int:
    """Print what does not hold, one line each. Returns the exit code."""
    try:
        evidence = load_evidence(root / "bench" / "evidence")
    except PadsError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return exc.exit_code
    bad = 0
    for path, published in documents(root):
        if not path.is_file():
            print(f"{path.relative_to(root)}: missing", file=sys.stderr)
            bad += 1
            continue
        for fault in faults(path.read_text(encoding="utf-8"), evidence, published):
            print(f"{path.relative_to(root)}:{fault.line}: {fault.told}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
