"""``bench report``: run records as one page of HTML with inline SVG. No script, nothing fetched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pads_runtime.errors import InputError

from ..records.read import Run
from .document import document

__all__ = ["write"]


def write(path: Path, runs: Sequence[Run], base: Path, superseded: Mapping[str, str]) -> None:
    """Write the page of ``runs`` (folders in ``base``) and rename it into place. Raises InputError where it cannot.

    ``superseded`` names runs that another one replaces.
    """
    links = {run.name: _link(path, base / run.name) for run in runs}
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(document(runs, links, superseded), encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise InputError(f"report '{path}' cannot be written: {exc.strerror or exc}; choose another place") from None


def _link(page: Path, folder: Path) -> str:
    return Path(os.path.relpath(folder.resolve(), page.resolve().parent)).as_posix() + "/"
