"""The hash by which files are known here."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import ModelError


def sha256_of(path: Path) -> str:
    """Hexadecimal sha256 of a file. Raises ModelError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise ModelError(f"file '{path}' cannot be read: {exc.strerror}") from None
