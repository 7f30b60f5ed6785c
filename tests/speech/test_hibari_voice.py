"""The embedded voice, for real."""

from __future__ import annotations

import numpy as np
import pytest
from hibari import Hibari

from pads_runtime.config import SpeechSettings
from pads_runtime.speech.hibari_voice import HibariVoice
from pads_runtime.speech.text import speakable
from pads_runtime.speech.voice_model import SILENCE, to_int16

TEXTS = [
    "Sure, I can help you.",
    "Let's meet at 3:30 p.m., it costs $9.99.",
    "**Zworkly** is 50% off 😀 - really!",
    "Hello there. How are you?",
    "I",
]


@pytest.fixture(scope="module")
def voice() -> HibariVoice:
    return HibariVoice()


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_text_gives_the_same_samples_whatever_was_said_before(voice: HibariVoice, text: str) -> None:
    first = voice.synthesize(text)
    voice.synthesize("Something else in between.")
    again = voice.synthesize(text)
    assert np.array_equal(first.samples, again.samples)
    assert first.words == again.words


@pytest.mark.parametrize("text", TEXTS)
def test_reading_the_durations_out_changes_no_sample(voice: HibariVoice, text: str) -> None:
    ours = voice.synthesize(text).samples
    theirs = to_int16(Hibari(threads=1)(speakable(text), seed=0))
    assert any(np.array_equal(theirs[i : i + len(ours)], ours) for i in range(len(theirs) - len(ours) + 1))


@pytest.mark.parametrize("text", TEXTS)
def test_every_written_word_has_an_end_in_order_inside_the_sound(voice: HibariVoice, text: str) -> None:
    phrase = voice.synthesize(text)
    ends = [word.end_sample for word in phrase.words]
    assert [word.text for word in phrase.words] == text.split()
    assert ends == sorted(ends)
    assert 0 < ends[-1] <= len(phrase.samples)
    loud = np.flatnonzero(np.abs(phrase.samples.astype(int)) > SILENCE)
    assert ends[-1] == int(loud[-1]) + 1, "the last word ends with the last sound"


def test_a_word_ends_where_the_same_beginning_alone_ends(voice: HibariVoice) -> None:
    """A comma's silence shows where "Sure" is over: no sound lies between its end and the next word."""
    phrase = voice.synthesize("Sure. I can help you.")
    end = phrase.words[0].end_sample
    gap = phrase.samples[end : end + round(0.1 * phrase.sample_rate)]
    assert np.abs(gap.astype(int)).max() <= SILENCE


def test_sound_begins_at_once(voice: HibariVoice) -> None:
    phrase = voice.synthesize("Sure, I can help you.")
    assert np.abs(phrase.samples[: round(0.025 * phrase.sample_rate)].astype(int)).max() > SILENCE


@pytest.mark.parametrize("text", ["", "   ", "😀", "***", "...", "—"])
def test_text_without_a_sound_gives_no_samples(voice: HibariVoice, text: str) -> None:
    phrase = voice.synthesize(text)
    assert phrase.samples.size == 0
    assert phrase.samples.dtype == np.int16
    assert all(word.end_sample == 0 for word in phrase.words)


def test_speech_is_loud_enough_to_hear_and_not_clipped(voice: HibariVoice) -> None:
    peak = int(np.abs(voice.synthesize("Sure, I can help you.").samples.astype(int)).max())
    assert 3000 < peak < 32767


def test_a_higher_speed_speaks_faster(voice: HibariVoice) -> None:
    text = "It is about five minutes from here."
    fast = HibariVoice(SpeechSettings(speed=1.5)).synthesize(text)
    assert len(fast.samples) < 0.85 * len(voice.synthesize(text).samples)


def test_a_text_of_several_hundred_words_is_spoken_to_its_end(voice: HibariVoice) -> None:
    text = "and so it goes on and on " * 40
    phrase = voice.synthesize(text)
    assert len(phrase.words) == len(text.split())
    assert phrase.words[-1].end_sample > 45 * phrase.sample_rate
