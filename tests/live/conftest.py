"""The rig as fixtures. One daemon serves a test module; where PulseAudio is missing its tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def _load_rig() -> Any:
    """The tests are no package, so the module is loaded from its file, once."""
    name = "pads_tests_rig"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / "rig.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


rig_module = _load_rig()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running rig; give ``{**os.environ, **rig.env}`` to a child process that shall hear and speak through it."""
    reason = rig_module.missing()
    if reason is not None:
        pytest.skip(reason)
    made = rig_module.Rig(tmp_path_factory.mktemp("rig"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def rig_here(rig: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The rig, with this very process's PortAudio looking at it."""
    sounddevice = pytest.importorskip(
        "sounddevice", reason="no PortAudio: apt-get install libportaudio2", exc_type=OSError
    )
    before = {name: os.environ.get(name) for name in rig.env}
    for name, value in rig.env.items():
        monkeypatch.setenv(name, value)
    sounddevice._terminate()
    sounddevice._initialize()
    yield rig
    sounddevice._terminate()
    for name, value in before.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    sounddevice._initialize()
