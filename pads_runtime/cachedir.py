"""Where PADS keeps what it can fetch or build again. Standard library only: set-up imports it first."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """``$PADS_CACHE``, else ``$XDG_CACHE_HOME/pads``, else ``~/.cache/pads``. Not created here."""
    own = os.environ.get("PADS_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says a relative value must be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "pads"
    return Path("~/.cache").expanduser() / "pads"
