"""Whisper (arXiv 2212.04356) through CTranslate2, made cheap enough to be asked again and again while a turn grows.

Whisper's encoder is built for 30 s of input. Given only the audio there is, it is some ten times faster, but the
decoder then never sees the silence it learned to stop at: it repeats itself, and words are lost. So the encoder gets
the audio and at least ``_PAD_S`` of zeros, rounded up to whole seconds, and its output is lengthened by ``_SUFFIX_S``
of the states that pure silence has at the same positions, computed once when the model loads. That keeps the words:
on 112 telephone utterances the word error rate is 0.293 against 0.298 with the 30 s window, for a sixth of the time
[MEASURED dev-host] ``python -m bench.recognizer --data <SpokenWOZ sample>``.

Decoding is greedy and without timestamps: the same audio gives the same words.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import numpy as np
import tokenizers

from ..errors import InputError, ModelCorrupt, ModelError, ModelMissing
from ..frames import SAMPLE_RATE, Samples, TranscriptUpdated
from ..logmel import N_MELS, FloatArray, log_mel
from .agreement import Agreement, Words, split_words
from .guards import collapse_repeats, is_speechless
from .windows import Chunk, chunks

MAX_WINDOW_S = 30
_PAD_S = 1.0
_SUFFIX_S = 3
_STATES_PER_S = 50
_TOKENS_PER_S = 8
_SPARE_TOKENS = 8
_MEMO_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One reading of one stretch: its words, the mean log probability of a token, and P(no speech at all)."""

    words: Words
    mean_log_p: float
    p_no_speech: float


class WhisperRecognizer:
    """Reads the open turn. One thread owns it; CTranslate2 uses ``threads`` of its own inside a call.

    A turn longer than ``window_s`` is cut at its quietest points (see ``windows``); what lies before a cut is read
    once. Memory: the model, and the words of the last 64 stretches.
    """

    def __init__(self, model: Path, threads: int = 2, window_s: float = 8.0) -> None:
        """Load the CTranslate2 folder ``model``. Raises ModelMissing, or ModelCorrupt if it is not a Whisper."""
        self._model = model
        self._network, self._tokenizer = _load(model, threads)
        self._prompt = self._prompt_tokens()
        self._window_s = min(window_s, MAX_WINDOW_S - _PAD_S)
        longest_s = min(MAX_WINDOW_S, int(np.ceil(self._window_s + _PAD_S)) + _SUFFIX_S)
        self._silence = self._encode(np.zeros(longest_s * SAMPLE_RATE, dtype=np.float32))
        self._memo: OrderedDict[bytes, Hypothesis] = OrderedDict()
        self._start_s = 0.0
        self._settled: Words = ()
        self._closed = 0
        self._agreement = Agreement()

    def begin(self, start_s: float) -> None:
        """A new turn; forgets the last one's words."""
        self._start_s = start_s
        self._settled = ()
        self._closed = 0
        self._agreement = Agreement()

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        """Read the whole turn so far, int16 of shape (n,). Raises ModelError if the network fails.

        Stable words are never changed by a later call that is not final. A final answer is the text of the audio
        alone; all of it is stable from then on, until the next final answer.
        """
        if turn_audio.ndim != 1 or turn_audio.dtype != np.int16:
            raise InputError(f"the recogniser takes int16 mono samples, not {turn_audio.dtype}, {turn_audio.shape}")
        parts = chunks(turn_audio, self._window_s)
        readings = [self._read_part(turn_audio, part).words for part in (parts if final else parts[self._closed :])]
        if final:
            self._settled = sum(readings[:-1], ())
            self._agreement = Agreement(readings[-1])
        else:
            for closed in readings[:-1]:
                settled, self._agreement = self._agreement.split(closed)
                self._settled += settled
            self._agreement = self._agreement.heard(readings[-1])
        self._closed = len(parts) - 1
        return TranscriptUpdated(
            t_s=audio_end_s,
            stable=" ".join(self._settled + self._agreement.stable),
            unstable=" ".join(self._agreement.tail),
            final=final,
            audio_end_s=audio_end_s,
        )

    def read(self, samples: Samples) -> Hypothesis:
        """The words of at most 30 s of audio, without any state; nothing for silence and noise."""
        if not samples.any():
            return Hypothesis((), 0.0, 1.0)
        limit = _SPARE_TOKENS + round(_TOKENS_PER_S * len(samples) / SAMPLE_RATE)
        try:
            states = self._states(samples)
            result = self._network.generate(
                ctranslate2.StorageView.from_array(states),
                [self._prompt],
                beam_size=1,
                # CTranslate2 halves the limit it is given.
                max_length=2 * limit,
                return_scores=True,
                return_no_speech_prob=True,
            )[0]
        except (RuntimeError, ValueError) as exc:
            raise ModelError(f"recogniser '{self._model.name}' failed: {' '.join(str(exc).split())}") from None
        tokens = result.sequences_ids[0]
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        words = collapse_repeats(split_words(text), runaway=len(tokens) >= limit)
        if is_speechless(result.no_speech_prob, result.scores[0]):
            words = ()
        return Hypothesis(words, float(result.scores[0]), float(result.no_speech_prob))

    def _read_part(self, audio: Samples, part: Chunk) -> Hypothesis:
        """A stretch that was read before is not read again: its words depend on its samples alone."""
        samples = audio[part.start : part.end]
        key = hashlib.blake2b(samples.tobytes(), digest_size=16).digest()
        if key in self._memo:
            self._memo.move_to_end(key)
            return self._memo[key]
        reading = self.read(samples)
        self._memo[key] = reading
        if len(self._memo) > _MEMO_ENTRIES:
            self._memo.popitem(last=False)
        return reading

    def _states(self, samples: Samples) -> FloatArray:
        """Encoder output for the audio in its short window, lengthened by silence: float32 (1, states, width)."""
        seconds = min(MAX_WINDOW_S, int(np.ceil(len(samples) / SAMPLE_RATE + _PAD_S)))
        padded = np.zeros(seconds * SAMPLE_RATE, dtype=np.float32)
        padded[: len(samples)] = samples[: len(padded)] / np.float32(32768.0)
        states = self._encode(padded)
        suffix = self._silence[:, states.shape[1] : states.shape[1] + _SUFFIX_S * _STATES_PER_S]
        return np.concatenate([states, suffix], axis=1)

    def _encode(self, samples: FloatArray) -> FloatArray:
        features = log_mel(samples)[None]
        return np.array(self._network.encode(ctranslate2.StorageView.from_array(features)), dtype=np.float32)

    def _prompt_tokens(self) -> list[int]:
        names = ["<|startoftranscript|>", "<|notimestamps|>"]
        if self._network.is_multilingual:
            names[1:1] = ["<|en|>", "<|transcribe|>"]
        ids = [token for name in names if (token := self._tokenizer.token_to_id(name)) is not None]
        if len(ids) < len(names):
            raise ModelCorrupt(f"recogniser '{self._model}' has a tokenizer without Whisper's control tokens")
        return ids


def _load(model: Path, threads: int) -> tuple[ctranslate2.models.Whisper, tokenizers.Tokenizer]:
    for name in ("model.bin", "config.json", "tokenizer.json"):
        if not (model / name).is_file():
            raise ModelMissing(f"recogniser folder '{model}' has no {name}; fetch it: pads models pull whisper-tiny.en")
    try:
        network = ctranslate2.models.Whisper(
            str(model), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=1
        )
        tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    except Exception as exc:
        raise ModelCorrupt(f"recogniser '{model}' cannot be loaded: {' '.join(str(exc).split())[:200]}") from None
    if network.n_mels != N_MELS:
        raise ModelCorrupt(
            f"recogniser '{model}' wants {network.n_mels} mel bands; only models with {N_MELS} are supported"
        )
    return network, tokenizer
