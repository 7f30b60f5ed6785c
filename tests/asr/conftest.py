"""The embedded recogniser, loaded once, and a voice to hear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soxr
from hibari import Hibari

from pads_runtime.asr.whisper import WhisperRecognizer
from pads_runtime.errors import PadsError
from pads_runtime.frames import Samples
from pads_runtime.models import Registry


@pytest.fixture(scope="session")
def whisper_folder() -> Path:
    try:
        return Registry.load().resolve("whisper-tiny.en")
    except PadsError as exc:
        pytest.skip(f"the recogniser's model is not on this machine: {exc}")


@pytest.fixture(scope="session")
def whisper(whisper_folder: Path) -> WhisperRecognizer:
    return WhisperRecognizer(whisper_folder)


@pytest.fixture(scope="session")
def say() -> Callable[[str], Samples]:
    voice = Hibari()

    def spoken(text: str) -> Samples:
        samples = soxr.resample(voice(text, seed=0), 24_000, 16_000)
        return np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)

    return spoken
