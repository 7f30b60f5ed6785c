"""DailyDialog (Li et al. 2017) as a table: one utterance a row, official split."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.errors import DataError

FILE_NAME = "dailydialog.tsv.gz"
COLUMNS = ("split", "dialogue", "turn", "act", "emotion", "text")
ACTS = {"1": "inform", "2": "question", "3": "directive", "4": "commissive"}
DEEP_ACTS = frozenset({"question", "directive"})


@dataclass(frozen=True, slots=True)
class Utterance:
    """One labelled utterance; ``dialogue`` counts within its split."""

    split: str
    dialogue: int
    act: str
    text: str

    @property
    def deep(self) -> bool:
        """Whether it wants the deep model: a question or a directive."""
        return self.act in DEEP_ACTS


@dataclass(frozen=True, slots=True)
class TrainSet:
    """Training utterances, and what was taken out because the test split holds the very same text."""

    kept: tuple[Utterance, ...]
    dropped: int
    distinct: int
    """Different texts among the dropped ones."""


def read_corpus(folder: Path) -> list[Utterance]:
    """All utterances of ``folder``/dailydialog.tsv.gz in file order.

    Raises DataError, naming file and line, if the file is missing, damaged or laid out in another way.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise DataError(f"DailyDialog: '{path}' not found; give the folder that holds {FILE_NAME} with --data")
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error) as exc:
        raise DataError(f"DailyDialog: '{path}' cannot be read: {exc}") from None
    except UnicodeDecodeError:
        raise DataError(f"DailyDialog: '{path}' is not UTF-8 text") from None
    if tuple(lines[0].split("\t")) != COLUMNS:
        raise DataError(f"DailyDialog: '{path}' line 1: expected the columns {', '.join(COLUMNS)}")
    rows = lines[1:-1] if not lines[-1] else lines[1:]
    utterances = [_parse(row, f"'{path}' line {number}") for number, row in enumerate(rows, start=2)]
    for name in ("train", "test"):
        if not any(u.split == name for u in utterances):
            raise DataError(f"DailyDialog: '{path}' has no {name} utterances")
    return utterances


def split_of(utterances: Iterable[Utterance], name: str) -> list[Utterance]:
    """The utterances of one split: train, validation or test."""
    return [u for u in utterances if u.split == name]


def without_test_texts(train: Iterable[Utterance], test: Iterable[Utterance]) -> TrainSet:
    """Leave out each training utterance whose exact text is in the test split."""
    texts = {u.text for u in test}
    rows = list(train)
    dropped = [u for u in rows if u.text in texts]
    return TrainSet(
        kept=tuple(u for u in rows if u.text not in texts),
        dropped=len(dropped),
        distinct=len({u.text for u in dropped}),
    )


def shared_dialogues(train: Iterable[Utterance], test: Iterable[Utterance]) -> frozenset[int]:
    """Numbers of the test dialogues whose every text, in order, is also a training dialogue."""
    seen = set(_dialogues(train).values())
    return frozenset(number for number, texts in _dialogues(test).items() if texts in seen)


def _dialogues(utterances: Iterable[Utterance]) -> dict[int, tuple[str, ...]]:
    texts: dict[int, list[str]] = defaultdict(list)
    for u in utterances:
        texts[u.dialogue].append(u.text)
    return {number: tuple(rows) for number, rows in texts.items()}


def _parse(row: str, where: str) -> Utterance:
    fields: Sequence[str] = row.split("\t")
    if len(fields) != len(COLUMNS):
        raise DataError(f"DailyDialog: {where}: {len(fields)} columns instead of {len(COLUMNS)}")
    split, dialogue, _, act, _, text = fields
    if act not in ACTS or not dialogue.isdigit() or split not in ("train", "validation", "test"):
        raise DataError(f"DailyDialog: {where}: unknown split, dialogue number or act ({split}, {dialogue}, {act})")
    return Utterance(split, int(dialogue), ACTS[act], text)
