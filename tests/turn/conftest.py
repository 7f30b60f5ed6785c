"""The embedded turn model, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pads_runtime.errors import PadsError
from pads_runtime.models import Registry


@pytest.fixture(scope="session")
def smart_turn_file() -> Path:
    try:
        return Registry.load().resolve("smart-turn-v3.2")
    except PadsError as exc:
        pytest.skip(f"the turn model is not on this machine: {exc}")
