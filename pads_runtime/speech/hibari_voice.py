"""Speech from hibari-tts (Apache-2.0): one American English voice, 24 kHz, inside its wheel.

The word ends are the model's own: it settles how many 25 ms frames each phoneme lasts before it makes a sound, and
that number is read out (see voice_model). Punctuation has frames too; they count as pause, not as part of the word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..config import SpeechSettings
from ..errors import ModelCorrupt, SetupError
from ..frames import PhraseSynthesized, Samples
from .text import speakable
from .voice_model import open_session, pause_after, place_words, read_model, snap_to_sound, to_int16, trim

_DURATIONS = "/CumSum_output_0"
"""Frames up to the end of each phoneme, cumulated, shape (L,)."""
_OUTPUTS = ["lh", "theta", "ln", "lr", "phi", "f0", _DURATIONS]
_PUNCTUATION = frozenset(';:,.!?—…"()“”')
_SEED = 0
_WARM_UP = ("Well, that is a Zworkle, all right.", "Sure.", "I would say it is about five minutes from here.")
"""Load what is loaded late (the reading of unknown words) and let the runtime plan its memory for a few lengths."""


class HibariVoice:
    """A Synthesizer. The same text gives the same samples on one machine with one thread count."""

    def __init__(self, settings: SpeechSettings | None = None) -> None:
        settings = settings or SpeechSettings()
        self._speed = settings.speed
        self._dsp, self._tts = _load(settings.threads)
        self.sample_rate: int = self._tts.sample_rate
        for text in _WARM_UP:
            self.synthesize(text)

    def synthesize(self, text: str) -> PhraseSynthesized:
        """One phrase as int16 mono at 24 kHz; text without a speakable character gives no samples.

        ``words`` are the blank-separated words of ``text`` as they stand in it.
        """
        said = speakable(text)
        rng = np.random.default_rng(_SEED)
        pieces: list[Samples] = []
        ends: list[int] = []
        total = 0
        for phonemes in self._tts.phonemize(said):
            samples, stops = self._speak(phonemes, rng)
            pieces.append(samples)
            ends += [total + stop for stop in stops]
            total += len(samples)
        whole = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
        samples, cut = trim(whole, self.sample_rate, pause_after(said))
        words = place_words(text.split(), [max(0, end - cut) for end in ends], self._spoken_words, len(samples))
        return PhraseSynthesized(text, samples, self.sample_rate, words)

    def _speak(self, phonemes: str, rng: np.random.Generator) -> tuple[Samples, list[int]]:
        """Sound of one phoneme string, and the sample at which each of its blank-separated words ends."""
        known = [c for c in phonemes if c in self._tts.vocab]
        ids = np.asarray([self._tts.ids(phonemes)], np.int64)
        speed = np.asarray([self._speed], np.float32)
        *spectra, frames = self._tts.sess.run(_OUTPUTS, {"ids": ids, "speed": speed})
        wave = self._dsp.synth(*(part[0] for part in spectra), rng)
        # ids are 0, the phonemes, 0: frames[i + 1] is where phoneme i ends.
        per_frame = len(wave) / float(frames[-1])
        ends: list[int] = []
        inside = False
        for i, c in enumerate(known):
            if c == " ":
                inside = False
            elif c not in _PUNCTUATION:
                end = round(float(frames[i + 1]) * per_frame)
                if inside:
                    ends[-1] = end
                else:
                    ends.append(end)
                inside = True
        samples = to_int16(wave)
        return samples, snap_to_sound(ends, samples)

    def _spoken_words(self, word: str) -> int:
        said = speakable(word)
        if not said:
            return 0
        if said.isalpha():
            return 1
        groups = self._tts.g2p(said).split()
        return sum(1 for group in groups if any(c not in _PUNCTUATION for c in group))


def _load(threads: int) -> tuple[Any, Any]:
    try:
        from hibari import Hibari, dsp
        from hibari.voices import voice_path
    except ImportError:
        raise SetupError("hibari-tts is not installed; run: pip install hibari-tts") from None
    path = Path(voice_path("heart"))
    session = open_session(read_model(path, _DURATIONS), threads, path)
    try:
        tts = Hibari(threads=threads)
    except Exception as exc:  # whatever json, gzip or onnxruntime make of a damaged file
        raise ModelCorrupt(f"hibari-tts in '{path.parent}' is damaged ({exc}); reinstall it") from None
    tts.sess = session
    return dsp, tts
