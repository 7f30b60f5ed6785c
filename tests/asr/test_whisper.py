"""Whisper on short windows: the words, their stability, and what it makes of noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pads_runtime.asr.agreement import plain
from pads_runtime.asr.whisper import WhisperRecognizer
from pads_runtime.audio.files import read_audio
from pads_runtime.errors import InputError, ModelCorrupt, ModelMissing
from pads_runtime.frames import Samples, TranscriptUpdated

AMI = Path(__file__).resolve().parents[3] / "shared" / "data" / "ami_audio"
SHORT = "What is the weather like in Paris tomorrow?"
LONG = (
    "I am looking for a train to Cambridge that leaves on Friday.",
    "It should arrive before nine in the morning.",
    "Could you also book a table for two people in the evening?",
    "We would like to eat Italian food in the centre of the town.",
)
Say = Callable[[str], Samples]


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * 16_000), dtype=np.int16)


def partials(whisper: WhisperRecognizer, audio: Samples, every_s: float = 0.5) -> list[TranscriptUpdated]:
    whisper.begin(0.0)
    ends = range(round(every_s * 16_000), len(audio), round(every_s * 16_000))
    return [whisper.transcribe(audio[:end], end / 16_000, final=False) for end in ends]


def final(whisper: WhisperRecognizer, audio: Samples) -> str:
    heard = whisper.transcribe(audio, len(audio) / 16_000, final=True)
    assert heard.final
    assert heard.unstable == ""
    return heard.stable


def plain_words(text: str) -> list[str]:
    return [plain(word) for word in text.split()]


def test_a_clear_sentence_is_heard_word_for_word(whisper: WhisperRecognizer, say: Say) -> None:
    whisper.begin(0.0)
    assert plain_words(final(whisper, say(SHORT))) == plain_words(SHORT)


@pytest.mark.slow
def test_a_stable_word_never_changes_and_the_unstable_ones_follow_it(whisper: WhisperRecognizer, say: Say) -> None:
    audio = np.concatenate([say(LONG[0]), say(LONG[1]), silence(0.4)])
    before: list[str] = []
    for heard in partials(whisper, audio):
        stable = heard.stable.split()
        assert stable[: len(before)] == before
        before = stable
    assert len(before) >= 8


@pytest.mark.slow
def test_the_final_text_depends_on_the_audio_alone(whisper: WhisperRecognizer, say: Say, whisper_folder: Path) -> None:
    audio = np.concatenate([say(LONG[0]), silence(0.3), say(LONG[1]), silence(0.3)])
    fresh = WhisperRecognizer(whisper_folder)
    fresh.begin(0.0)
    alone = final(fresh, audio)
    partials(whisper, audio, 0.7)
    assert final(whisper, audio) == alone
    partials(whisper, audio, 1.1)
    final(whisper, audio[: len(audio) // 2])
    assert final(whisper, audio) == alone


@pytest.mark.slow
def test_a_turn_longer_than_the_window_keeps_all_its_words(whisper: WhisperRecognizer, say: Say) -> None:
    audio = np.concatenate([piece for text in LONG for piece in (say(text), silence(0.25))])
    assert len(audio) > 12 * 16_000
    said = plain_words(" ".join(LONG))
    updates = partials(whisper, audio, 1.0)
    streamed = plain_words(updates[-1].text)
    heard = plain_words(final(whisper, audio))
    assert errors(said, heard) <= 3
    assert errors(said, streamed) <= 5
    stables = [update.stable.split() for update in updates]
    assert all(b[: len(a)] == a for a, b in zip(stables[:-1], stables[1:], strict=True))  # noqa: RUF007


def test_after_a_final_answer_its_words_stay_while_the_turn_goes_on(whisper: WhisperRecognizer, say: Say) -> None:
    first = np.concatenate([say(LONG[1]), silence(0.3)])
    whisper.begin(0.0)
    settled = final(whisper, first)
    audio = np.concatenate([first, say("Thank you.")])
    heard = whisper.transcribe(audio, len(audio) / 16_000, final=False)
    assert heard.stable.startswith(settled)


def test_begin_forgets_the_last_turn(whisper: WhisperRecognizer, say: Say) -> None:
    whisper.begin(0.0)
    final(whisper, say(SHORT))
    whisper.begin(10.0)
    heard = whisper.transcribe(silence(0.5), 10.5, final=False)
    assert (heard.stable, heard.unstable) == ("", "")


@pytest.mark.parametrize("level", [0.0, 1e-4, 1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("seconds", [0.5, 2.0, 6.0])
def test_silence_and_steady_noise_have_no_words(whisper: WhisperRecognizer, level: float, seconds: float) -> None:
    noise = np.random.default_rng(7).normal(0, level * 32768, round(seconds * 16_000))
    assert whisper.read(np.clip(np.rint(noise), -32768, 32767).astype(np.int16)).words == ()


def test_a_clap_has_no_words(whisper: WhisperRecognizer) -> None:
    n = np.arange(16_000)
    clap = np.random.default_rng(1).normal(0, 9_000, 16_000) * 10 ** (-3 * n / 16_000 / 0.3)
    audio = np.random.default_rng(2).normal(0, 60, 32_000)
    audio[8_000:24_000] += clap
    assert whisper.read(np.clip(audio, -32768, 32767).astype(np.int16)).words == ()


@pytest.mark.skipif(not AMI.is_dir(), reason="the AMI clips are not on this machine")
def test_a_room_with_far_chatter_has_no_words(whisper: WhisperRecognizer) -> None:
    room = read_audio(AMI / "EN2001d_0000000_trn02.flac")
    assert [whisper.read(room[: seconds * 16_000]).words for seconds in range(1, 9)] == [()] * 8


def test_an_empty_turn_has_no_words(whisper: WhisperRecognizer) -> None:
    whisper.begin(0.0)
    assert final(whisper, silence(0.0)) == ""


def test_memory_for_read_stretches_is_bounded(whisper: WhisperRecognizer) -> None:
    for seed in range(70):
        whisper.begin(0.0)
        whisper.transcribe(np.zeros(1_600 + seed, dtype=np.int16), 0.1, final=False)
    assert len(whisper._memo) <= 64


def test_samples_of_another_kind_are_refused(whisper: WhisperRecognizer) -> None:
    with pytest.raises(InputError):
        whisper.transcribe(np.zeros(100), 0.1, final=False)  # type: ignore[arg-type]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"model\.bin"):
        WhisperRecognizer(tmp_path)


def test_a_damaged_model_is_corrupt_in_one_line(whisper_folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (tmp_path / name).write_bytes((whisper_folder / name).read_bytes())
    (tmp_path / "model.bin").write_bytes((whisper_folder / "model.bin").read_bytes()[:100_000])
    with pytest.raises(ModelCorrupt) as caught:
        WhisperRecognizer(tmp_path)
    assert "\n" not in str(caught.value)


def errors(said: list[str], heard: list[str]) -> int:
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        above, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
    return row[-1]
