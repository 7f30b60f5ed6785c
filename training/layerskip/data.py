"""The token streams of a run, made once and kept in its work folder, and the leak check on them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pads_runtime.config import EngineSettings
from pads_runtime.errors import DataError

from ..acts.corpus import FILE_NAME
from ..corpora.ami_items import Item, read_items
from ..corpora.ami_words import read_words
from ..corpora.leak import Leaks, check_no_leaks
from ..corpora.sources import check_excluded, read_corpora
from ..corpora.stream import Stream, Tokenizer, stream_of

Say = Callable[[str], None]
_FORMAT = 1


@dataclass(frozen=True)
class Corpus:
    """Where the dialogues come from."""

    dailydialog: Path
    ami: Path
    excluded: tuple[str, ...]
    every: int = 1
    """Takes each so-many-th dialogue; 1 takes all."""


@dataclass(frozen=True)
class Streams:
    """What a run reads: to train on, and to validate on by source."""

    train: Stream
    validation: dict[str, Stream]
    items: tuple[Item, ...]

    def check(self, tokenizer: Tokenizer, when: str) -> Leaks:
        """The leak check on the training stream as it is now. Raises DataError if an item is in it."""
        return check_no_leaks(self.items, self.train.tokens, tokenizer, when)


def read_streams(corpus: Corpus, tokenizer: Tokenizer, model_sha256: str, cache: Path, say: Say) -> Streams:
    """The streams, from ``cache`` if these very ones were made before. Raises DataError for data that is missing,
    laid out otherwise, or an exclusion that names no meeting."""
    path = cache / f"streams-{_key(corpus, model_sha256)}.npz"
    items = read_items(corpus.ami)
    if not path.is_file():
        say("reading DailyDialog and AMI")
        _make(corpus, tokenizer, path)
    try:
        with np.load(path, allow_pickle=False) as file:
            prefix = tuple(file["prefix"].tolist())
            streams = {name: Stream(prefix, file[name]) for name in file.files if name != "prefix"}
    except (OSError, ValueError, zipfile.BadZipFile) as exc:
        raise DataError(f"'{path}' cannot be read ({exc}); remove it and run the same command again") from None
    return Streams(streams.pop("train"), streams, items)


def _make(corpus: Corpus, tokenizer: Tokenizer, path: Path) -> None:
    found = read_corpora(corpus.dailydialog, corpus.ami, corpus.excluded)
    prompt = EngineSettings().system_prompt
    train = stream_of(found.train[:: corpus.every], tokenizer, prompt)
    arrays = {"prefix": np.array(train.prefix, np.int32), "train": train.tokens}
    for source in sorted({dialogue.source for dialogue in found.validation}):
        part = [dialogue for dialogue in found.validation if dialogue.source == source][:: corpus.every]
        arrays[source] = stream_of(part, tokenizer, prompt).tokens
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as out:
        np.savez(out, allow_pickle=False, **arrays)
    beside.replace(path)


def _check_dailydialog(folder: Path) -> None:
    if not (folder / FILE_NAME).is_file():
        where = folder / FILE_NAME
        raise DataError(f"DailyDialog: '{where}' not found; give the folder that holds {FILE_NAME} with --data")


def _key(corpus: Corpus, model_sha256: str) -> str:
    hashes = [hashlib.sha256((corpus.dailydialog / FILE_NAME).read_bytes()).hexdigest(), _hash_ami(corpus.ami)]
    key = [_FORMAT, model_sha256, hashes, sorted(corpus.excluded), corpus.every, EngineSettings().system_prompt]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]


def _hash_ami(ami: Path) -> str:
    if ami.is_file():
        with ami.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(ami.rglob("*.words.xml")) if ami.is_dir() else []
    return json.dumps([[path.relative_to(ami).as_posix(), path.stat().st_size] for path in files])


def validation_rows(stream: Stream, length: int, count: int) -> Sequence[int]:
    """``count`` rows with equal steps between, from all over the stream; fewer if it has fewer."""
    rows = stream.rows(length)
    return sorted({round(i * (rows - 1) / max(count - 1, 1)) for i in range(min(count, rows))})


def check_corpus(corpus: Corpus) -> None:
    """Refuse missing data and an exclusion that names no meeting, before anything else is done. Raises DataError."""
    _check_dailydialog(corpus.dailydialog)
    names: set[str] = set()

    def note(meeting: str) -> bool:
        names.add(meeting)
        return False

    read_words(corpus.ami, note)
    check_excluded(corpus.excluded, sorted(names))
