"""Speech from piper-tts (GPL-3.0, an optional extra): voices in many languages, each a file of its own.

The word ends come from the voice's own durations (see voice_model). espeak-ng joins small words ("of the") into one, so
written words are matched to sounds by the number of phonemes that each makes when it is read alone; an end may be
wrong by a phoneme or two where the reading depends on the neighbours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..config import SpeechSettings
from ..errors import ModelCorrupt, ModelMissing, SetupError
from ..frames import PhraseSynthesized, Samples
from .text import speakable
from .voice_model import open_session, pause_after, place_words, read_model, snap_to_sound, to_int16, trim

_DURATIONS = "/Ceil_output_0"
"""Frames that each phoneme id lasts, shape (1, 1, L)."""
_NO_SOUND = frozenset(" .,;:!?_^$ˈˌ")
_WARM_UP = ("Well, that is all right.", "Sure.")


class PiperVoice:
    """A Synthesizer for the voice in ``path`` (its ``.onnx.json`` beside it).

    The voice's two random draws (rhythm and timbre) are switched off, so that the same text gives the same samples.
    """

    def __init__(self, path: Path, settings: SpeechSettings | None = None) -> None:
        settings = settings or SpeechSettings()
        self._piper, self._voice = _load(path, settings.threads)
        self._config = self._voice.config
        self._scales = np.array([0.0, self._config.length_scale / settings.speed, 0.0], np.float32)
        self._silent_ids = {i for c in _NO_SOUND for i in self._config.phoneme_id_map.get(c, ())}
        self.sample_rate: int = self._config.sample_rate
        for text in _WARM_UP:
            self.synthesize(text)

    def synthesize(self, text: str) -> PhraseSynthesized:
        """One phrase as int16 mono at the voice's rate; text without a speakable character gives no samples.

        ``words`` are the blank-separated words of ``text`` as they stand in it.
        """
        said = speakable(text)
        pieces: list[Samples] = []
        ends: list[int] = []
        total = 0
        for phonemes in self._voice.phonemize(said) if said else ():
            if phonemes:
                samples, stops = self._speak(phonemes)
                pieces.append(samples)
                ends += [total + stop for stop in stops]
                total += len(samples)
        whole = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
        samples, cut = trim(whole, self.sample_rate, pause_after(said))
        words = place_words(text.split(), [max(0, end - cut) for end in ends], self._sounds, len(samples))
        return PhraseSynthesized(text, samples, self.sample_rate, words)

    def _speak(self, phonemes: list[str]) -> tuple[Samples, list[int]]:
        """Sound of one sentence, and the sample at which each of its sounding phonemes ends."""
        ids = self._voice.phonemes_to_ids(phonemes)
        feeds: dict[str, Any] = {
            "input": np.asarray([ids], np.int64),
            "input_lengths": np.asarray([len(ids)], np.int64),
            "scales": self._scales,
        }
        if self._config.num_speakers > 1:
            feeds["sid"] = np.asarray([self._config.default_speaker_id or 0], np.int64)
        audio, frames = self._voice.session.run(["output", _DURATIONS], feeds)
        wave = audio.reshape(-1)
        reached = np.cumsum(frames.reshape(-1))
        per_frame = len(wave) / float(reached[-1])
        ends = [round(float(at) * per_frame) for i, at in zip(ids, reached, strict=True) if i not in self._silent_ids]
        samples = to_int16(wave)
        return samples, snap_to_sound(ends, samples)

    def _sounds(self, word: str) -> int:
        said = speakable(word)
        if not said:
            return 0
        return sum(1 for sentence in self._voice.phonemize(said) for c in sentence if c not in _NO_SOUND)


def _load(path: Path, threads: int) -> tuple[Any, Any]:
    try:
        import piper
        from piper.config import PiperConfig
    except ImportError:
        raise SetupError("piper-tts is not installed; run: pip install 'pads[piper]' (GPL-3.0)") from None
    described = path.with_name(path.name + ".json")
    if not described.is_file():
        raise ModelMissing(f"voice '{path}': its description '{described.name}' is not beside it")
    try:
        config = PiperConfig.from_dict(json.loads(described.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelCorrupt(f"voice description '{described}' is not usable: {exc!r}") from None
    return piper, piper.PiperVoice(config=config, session=open_session(read_model(path, _DURATIONS), threads, path))
