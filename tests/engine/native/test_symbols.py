"""The binding says what the library can do, and which command builds what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from pads_runtime.engine.native import symbols
from pads_runtime.errors import SetupError


class Unpatched:
    """A llama_cpp module whose library has none of our functions."""

    class llama_cpp:
        _lib = object()


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(symbols, "library", Unpatched)
    symbols.capabilities.cache_clear()
    symbols._function.cache_clear()
    yield
    symbols.capabilities.cache_clear()
    symbols._function.cache_clear()


def test_a_library_without_the_patches_is_seen_as_such(unpatched: None) -> None:
    assert symbols.capabilities() == symbols.Capabilities(layer_range=False, draft_head=False, no_split_kv=False)


def test_a_missing_function_names_the_command_that_builds_it(unpatched: None) -> None:
    with pytest.raises(SetupError, match=r"no ggml_cpu_set_row_exact.*run \./scripts/setup"):
        symbols.set_row_exact(True)
    with pytest.raises(SetupError, match=r"run \./scripts/setup"):
        symbols.set_layer_range(None, 0)
