"""The labels of ``labels/completeness.tsv``: whether the words before a silence make a complete turn (RULE.md)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

from pads_runtime.errors import DataError

from .activity import Span

LABELS = Path(__file__).parent / "labels" / "completeness.tsv"


class Label(str, Enum):
    """Could the other side take the turn here?"""

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    AMBIGUOUS = "ambiguous"


Labels = Mapping[tuple[str, str, float], Label]
"""By talk, channel and the end of the speech in seconds, as the file writes it (two decimals)."""


def read_labels(path: Path = LABELS) -> Labels:
    """All labels. Raises DataError if the file is missing or a row is not of its form."""
    if not path.is_file():
        raise DataError(f"label file '{path}' not found")
    labels: dict[tuple[str, str, float], Label] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=2):
            try:
                key = (row["dialogue"], row["channel"], round(float(row["time_s"]), 2))
                labels[key] = Label(row["label"])
            except (KeyError, TypeError, ValueError):
                raise DataError(f"'{path}' line {number} is not dialogue, channel, time_s, label") from None
    return labels


def label_of(labels: Labels, span: Span) -> Label | None:
    """The label of one silence, None where it has none."""
    return labels.get((span.talk, span.channel, span.start_s))


def require_all(labels: Labels, spans: Iterable[Span]) -> None:
    """Raises DataError, with the first silence that has no label."""
    missing = [span for span in spans if label_of(labels, span) is None]
    if missing:
        first = missing[0]
        raise DataError(
            f"{len(missing)} silences have no completeness label, the first in '{first.talk}' channel {first.channel} "
            f"at {first.start_s:.2f} s; label them by bench/turn_end/labels/RULE.md"
        )
