"""The rig itself: what is said into the room is what a microphone there would record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def _noise(seconds: float, rate: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.random.default_rng(7).integers(-8000, 8000, round(seconds * rate), dtype=np.int16)


def test_what_is_said_into_the_room_is_recorded_there_bit_for_bit(rig: Any) -> None:
    said = _noise(0.5, 16_000)
    with rig.record("room") as recording:
        assert rig.play(said).wait(10) == 0
        recording.wait_to_hear(said)


def test_the_rigs_devices_are_all_that_portaudio_finds(rig_here: Any) -> None:
    import sounddevice

    assert [device["name"] for device in sounddevice.query_devices()] == ["pads_mic", "pads_speaker", "default"]


def test_with_an_echo_the_room_hears_the_speaker_softer(rig: Any) -> None:
    loud = _noise(0.6, 24_000)
    with rig.echo(-20.0), rig.record("speaker", 16_000) as speaker, rig.record("room") as room:
        assert rig.play(loud, 24_000, "speaker").wait(10) == 0
        room.wait_for(1.4)
        heard = 20 * np.log10(np.std(room.samples[room.samples != 0]) / np.std(speaker.samples[speaker.samples != 0]))
    assert -23.0 < heard < -17.0
