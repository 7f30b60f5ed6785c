"""What holds for all tests of the session."""

from __future__ import annotations

import pytest

from pads_runtime import session


@pytest.fixture(autouse=True)
def time_enough_to_close_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread may not be woken within the product's limit, and then the engine is not closed."""
    monkeypatch.setattr(session, "ENGINE_ENDS_WITHIN_S", 30.0)
