"""Word ends, trimming and the extra model output, on plain numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pads_runtime.errors import ModelCorrupt, ModelMissing
from pads_runtime.speech.voice_model import (
    open_session,
    pause_after,
    place_words,
    read_model,
    snap_to_sound,
    to_int16,
    trim,
    with_output,
)

RATE = 1000


def ends(words: str, spoken: list[int], units: dict[str, int], total: int = 10_000) -> list[int]:
    return [w.end_sample for w in place_words(words.split(), spoken, lambda w: units.get(w, 1), total)]


def test_as_many_written_as_spoken_words_pair_off() -> None:
    assert ends("it is late", [10, 20, 30], {}) == [10, 20, 30]


def test_a_written_word_read_as_several_ends_with_the_last_of_them() -> None:
    assert ends("costs $9.99 now", [10, 20, 30, 40, 50, 60, 70], {"$9.99": 5}) == [10, 60, 70]


def test_a_word_without_a_sound_ends_with_the_word_before_it() -> None:
    assert ends("- well 😀 yes", [10, 20], {"-": 0, "😀": 0}) == [0, 10, 10, 20]


def test_counts_that_do_not_add_up_share_the_ends_in_order_and_reach_the_last() -> None:
    shared = ends("a b c d", [10, 20, 30], {})
    assert shared == sorted(shared)
    assert shared[-1] == 30


def test_no_word_ends_behind_the_phrase() -> None:
    assert ends("a b", [10, 99], {}, total=50) == [10, 50]


def test_silence_at_both_ends_is_cut_to_the_lead_and_the_pause() -> None:
    sound = np.concatenate([np.zeros(300), np.full(100, 5000), np.zeros(400)]).astype(np.int16)
    samples, cut = trim(sound, RATE, 0.25)
    assert cut == 280
    assert len(samples) == 20 + 100 + 250
    assert trim(sound[250:450], RATE, 0.25)[0].size == 20 + 100 + 50, "no silence is made up"


def test_silence_alone_becomes_nothing() -> None:
    assert trim(np.zeros(500, np.int16), RATE, 0.25)[0].size == 0


def test_the_loudest_negative_sample_counts_as_sound() -> None:
    sound = np.zeros(100, np.int16)
    sound[50] = -32768
    assert trim(sound, RATE, 0.0)[0].size == 21


def test_an_end_in_silence_moves_back_to_the_sound_before_it_and_the_last_end_to_the_last_sound() -> None:
    sound = np.concatenate([np.zeros(10), np.full(10, 900), np.zeros(10), np.full(5, 900)]).astype(np.int16)
    assert snap_to_sound([5, 15, 28, 33], sound) == [5, 15, 20, 35]


def test_a_sentence_is_followed_by_a_longer_pause_than_a_clause() -> None:
    assert pause_after('He said "yes."') > pause_after("Well,")


def test_floats_beyond_full_scale_are_clipped() -> None:
    assert to_int16(np.array([-2.0, -1.0, 0.0, 1.0, 2.0], np.float32)).tolist() == [-32767, -32767, 0, 32767, 32767]


def test_the_appended_bytes_spell_one_graph_output() -> None:
    assert with_output("ab") == bytes([0x3A, 6, 0x62, 4, 0x0A, 2]) + b"ab"
    long = with_output("x" * 200)
    assert long[:3] == bytes([0x3A, 0xCE, 0x01]), "lengths above 127 take two bytes"


def test_a_missing_voice_and_a_broken_one_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    with pytest.raises(ModelMissing, match=r"voice\.onnx"):
        read_model(path, "x")
    path.write_bytes(b"not a model at all")
    with pytest.raises(ModelCorrupt) as caught:
        open_session(read_model(path, "x"), 1, path)
    assert "\n" not in str(caught.value)
