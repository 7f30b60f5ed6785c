"""The recogniser that is not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pads_runtime import assemble
from pads_runtime.asr.external import ExternalRecognizer
from pads_runtime.config import PadsSettings, load
from pads_runtime.models import Registry


def test_it_reads_nothing_and_calls_nothing_final() -> None:
    recognizer = ExternalRecognizer()
    recognizer.begin(1.0)
    heard = recognizer.transcribe(np.ones(16_000, np.int16), 2.0, True)
    assert (heard.text, heard.final, heard.audio_end_s) == ("", False, 2.0)


def test_the_setting_brings_it_and_needs_no_model(tmp_path: Path) -> None:
    settings: PadsSettings = load(overrides=["asr.kind=external"])
    registry = Registry({}, tmp_path)
    assert isinstance(assemble.recognizer(settings.asr, registry), ExternalRecognizer)
