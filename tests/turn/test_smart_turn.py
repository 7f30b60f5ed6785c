"""The smart-turn predictor: its features, its memory, its schedule and its refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soxr
from hibari import Hibari

from pads_runtime.audio.files import read_audio
from pads_runtime.errors import InputError, ModelCorrupt, ModelError, ModelMissing
from pads_runtime.frames import Samples
from pads_runtime.turn.smart_turn import WINDOW_SAMPLES, SampleRing, SmartTurnPredictor, features
from training.turn.fit_silence import stretches

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "spokenwoz_sample"
NOTHING = np.zeros(0, dtype=np.int16)


@pytest.fixture(scope="module")
def predictor(smart_turn_file: Path) -> SmartTurnPredictor:
    return SmartTurnPredictor(smart_turn_file, (0.2, 0.6))


def spoken(text: str) -> Samples:
    voice = soxr.resample(Hibari()(text, seed=0), 24_000, 16_000)
    return np.clip(np.rint(voice * 32768), -32768, 32767).astype(np.int16)


def fed(predictor: SmartTurnPredictor, audio: Samples, step: int) -> float:
    predictor.reset()
    p_end = 0.0
    for first in range(0, len(audio), step):
        block = audio[first : first + step]
        p_end = predictor.update(block, np.zeros_like(block), (first + len(block)) / 16_000, 0.2).p_end
    return p_end


def test_the_ring_keeps_the_last_samples_whatever_the_pieces() -> None:
    rng = np.random.default_rng(0)
    audio = rng.integers(-1000, 1000, 5_000).astype(np.int16)
    ring, first = SampleRing(700), 0
    while first < len(audio):
        step = int(rng.choice([0, 1, 13, 699, 700, 701, 1_500]))
        ring.append(audio[first : first + step])
        first += step
        heard = np.concatenate([np.zeros(700, dtype=np.int16), audio[: min(first, len(audio))]])[-700:]
        np.testing.assert_array_equal(ring.read(), heard)
    ring.clear()
    assert not ring.read().any()


def test_features_are_right_aligned_and_do_not_depend_on_loudness() -> None:
    rng = np.random.default_rng(1)
    short = (rng.normal(0, 3_000, 32_000)).astype(np.int16)
    whole = features(np.pad(short, (WINDOW_SAMPLES - len(short), 0)))
    assert whole.shape == (1, 80, 800)
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(features(short), whole)
    assert whole[0, :, :595].max() < whole[0, :, 605:].min()
    np.testing.assert_allclose(features(short * 2), whole, atol=1e-3)


def test_features_of_more_than_8_s_are_those_of_the_last_8_s() -> None:
    audio = np.random.default_rng(2).normal(0, 3_000, 20 * 16_000).astype(np.int16)
    np.testing.assert_array_equal(features(audio), features(audio[-WINDOW_SAMPLES:]))


def test_a_finished_sentence_is_likelier_to_be_the_end_than_its_first_half(predictor: SmartTurnPredictor) -> None:
    voice = spoken("Could you book a table for two people please?")
    assert predictor.completeness(voice) > 0.5 > predictor.completeness(voice[: len(voice) // 2])


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the SpokenWOZ sample is not on this machine")
def test_on_recorded_talk_turn_ends_score_above_holds(predictor: SmartTurnPredictor) -> None:
    ends, holds = [], []
    path = SAMPLE / "SNG0480.flac"
    audio = {side: read_audio(path, side) for side in ("left", "right")}  # type: ignore[arg-type]
    speech = sorted((s for side in audio for s in stretches(audio[side], side)), key=lambda s: s.start_s)
    for before, after in zip(speech[:-1], speech[1:], strict=True):  # noqa: RUF007
        if after.start_s - before.end_s >= 0.2:
            scored = predictor.completeness(audio[before.side][: round((before.end_s + 0.2) * 16_000)])
            (holds if after.side == before.side else ends).append(scored)
    assert len(ends) > 10
    assert len(holds) > 3
    assert np.mean(np.array(ends)[:, None] > np.array(holds)) > 0.7


@pytest.mark.slow
def test_fed_in_pieces_the_answer_equals_that_for_the_whole(predictor: SmartTurnPredictor) -> None:
    audio = np.random.default_rng(3).normal(0, 2_000, 10 * 16_000).astype(np.int16)
    whole = predictor.completeness(audio)
    assert fed(predictor, audio, 20_000) == whole
    assert fed(predictor, audio, 160_000) == whole


def test_the_same_audio_gives_the_same_answer_and_reset_forgets(predictor: SmartTurnPredictor) -> None:
    audio = spoken("Yes, please.")
    first = fed(predictor, audio, len(audio))
    assert fed(predictor, audio, len(audio)) == first
    predictor.reset()
    empty = predictor.update(NOTHING, NOTHING, 0.0, None)
    assert 0.0 <= empty.p_end <= 1.0
    assert empty.p_end == predictor.completeness(NOTHING)


def test_it_wants_to_be_asked_once_per_moment(predictor: SmartTurnPredictor) -> None:
    predictor.reset()
    assert [s for s in (None, 0.1, 0.2, 0.22, 0.6, 0.7) if predictor.wants(s)] == [0.2, 0.6]


def test_samples_of_another_kind_are_refused(predictor: SmartTurnPredictor) -> None:
    with pytest.raises(InputError):
        predictor.update(np.array([0.1, np.nan]), NOTHING, 1.0, 0.2)  # type: ignore[arg-type]


def test_an_answer_that_is_no_number_is_an_error(smart_turn_file: Path) -> None:
    class Broken:
        def run(self, outputs: object, inputs: object) -> list[np.ndarray]:
            return [np.array([[np.nan]], dtype=np.float32)]

    predictor = SmartTurnPredictor(smart_turn_file, ())
    predictor._session = Broken()
    with pytest.raises(ModelError, match="nan"):
        predictor.completeness(NOTHING)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"none\.onnx"):
        SmartTurnPredictor(tmp_path / "none.onnx", ())


def test_a_file_that_is_no_network_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"no network at all" * 100)
    with pytest.raises(ModelCorrupt) as caught:
        SmartTurnPredictor(tmp_path / "a.onnx", ())
    assert "\n" not in str(caught.value)


def test_a_network_cut_short_is_corrupt(smart_turn_file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(smart_turn_file.read_bytes()[:1_000_000])
    with pytest.raises(ModelCorrupt):
        SmartTurnPredictor(tmp_path / "a.onnx", ())


def test_once_it_is_sure_it_leaves_the_rest_of_the_pause_alone(smart_turn_file: Path) -> None:
    asked = []
    for enough in (0.0, 1.1):
        predictor = SmartTurnPredictor(smart_turn_file, (0.2, 0.5), enough)
        assert predictor.wants(0.2)
        predictor.update(np.zeros(16_000, np.int16), np.zeros(16_000, np.int16), 1.0, 0.2)
        asked.append(predictor.wants(0.5))
        assert not predictor.wants(None)
        assert predictor.wants(0.2)
    assert asked == [False, True]
