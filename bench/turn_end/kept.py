"""Answers of the networks kept between runs: the same audio and the same models give the same ones.

A stopped run goes on where it was, and a change of what is scored needs no second listening. Files are named by
the hash of everything that the answers depend on; a file that cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .corpora import Talk


@dataclass(frozen=True)
class Kept:
    """``folder`` None keeps nothing; ``models`` are the files that answer."""

    folder: Path | None
    models: tuple[Path, ...] = ()

    def get(self, talk: Talk, what: str, make: Callable[[], Any]) -> Any:
        """What ``make`` answered for ``talk``, as plain JSON data."""
        if self.folder is None:
            return make()
        path = self.folder / f"{talk.name}-{what.split()[0]}-{self._digest(talk, what)[:16]}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            pass
        answers = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(answers), encoding="utf-8")
        beside.replace(path)
        return answers

    def _digest(self, talk: Talk, what: str) -> str:
        digest = hashlib.sha256(f"{what} {talk.name} {talk.spans}".encode())
        for channel in talk.channels:
            digest.update(talk.samples[channel].tobytes())
        for model in self.models:
            digest.update(model.read_bytes())
        return digest.hexdigest()
