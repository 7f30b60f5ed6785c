"""The rig as fixtures. One daemon serves a test module; where PulseAudio is missing its tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.live import rig as rig_module
from bench.live.rig import Rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A running rig; give ``{**os.environ, **rig.env}`` to a child process that shall hear and speak through it."""
    reason = rig_module.missing()
    if reason is not None:
        pytest.skip(reason)
    made = Rig(tmp_path_factory.mktemp("rig"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def rig_here(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
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
