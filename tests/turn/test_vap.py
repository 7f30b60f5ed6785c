"""The streaming predictor: a function of the last 4 s of audio, and of nothing after them."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from pads_runtime.audio.files import read_audio
from pads_runtime.errors import InputError, ModelCorrupt, ModelError, ModelMissing, PadsError
from pads_runtime.frames import Samples
from pads_runtime.models import Registry
from pads_runtime.turn.vap import (
    WINDOW_SAMPLES,
    VapPredictor,
    agent_shares,
    class_bits,
    comparisons,
    context,
)

NOTHING = np.zeros(0, np.int16)


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        return Registry.load().resolve("vap-turn")
    except PadsError as exc:
        pytest.skip(f"the turn model is not on this machine: {exc}")


@pytest.fixture(scope="module")
def predictor(model: Path) -> VapPredictor:
    return VapPredictor(model, (0.2, 0.5), 0.1)


def speechlike(seconds: float, seed: int) -> Samples:
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * 16_000)) / 16_000
    voice = np.sin(2 * np.pi * 140 * t + 3 * np.sin(2 * np.pi * 3 * t)) * (np.sin(2 * np.pi * 2.5 * t) > -0.4)
    return ((voice * 0.3 + rng.standard_normal(len(t)) * 0.01) * 20_000).astype(np.int16)


USER, AGENT = speechlike(7.0, 1), speechlike(7.0, 2)


def streamed(predictor: VapPredictor, cuts_s: list[float], silence_s: float | None = 0.2) -> list[float]:
    predictor.reset()
    bounds = [0, *(round(cut * 16_000) for cut in cuts_s)]
    return [predictor.update(USER[a:b], AGENT[a:b], b / 16_000, silence_s).p_end for a, b in pairwise(bounds)]


def test_streaming_equals_the_whole_file(predictor: VapPredictor) -> None:
    times = [0.5, 1.3, 3.9, 4.6, 6.98]
    whole = [predictor.answer(USER[: round(t * 16_000)], AGENT[: round(t * 16_000)], 0.2)[0] for t in times]
    assert streamed(predictor, times) == pytest.approx(whole, abs=1e-4)


def test_any_chunking_gives_the_same_prediction(predictor: VapPredictor) -> None:
    ends = [streamed(predictor, [*cuts, 6.0])[-1] for cuts in ([], [5.98], [0.02, 1.0, 3.33, 5.0])]
    assert ends[0] == ends[1] == ends[2]


def test_a_prediction_knows_nothing_of_what_comes_after(predictor: VapPredictor) -> None:
    end = 5 * 16_000
    predictor.reset()
    before = predictor.update(USER[:end], AGENT[:end], 5.0, None)
    predictor.reset()
    altered = USER.copy()
    altered[end:] = 30_000
    assert predictor.update(altered[:end], AGENT[:end], 5.0, None) == before
    assert before.audio_end_s == before.t_s == 5.0


def test_only_the_last_four_seconds_matter_so_memory_is_bounded(predictor: VapPredictor) -> None:
    predictor.reset()
    predictor.update(speechlike(3.0, 9), speechlike(3.0, 9), 3.0, None)
    predictor.update(USER[-WINDOW_SAMPLES:], AGENT[-WINDOW_SAMPLES:], 7.0, 0.2)
    p_end = predictor.update(NOTHING, NOTHING, 7.0, 0.2).p_end
    assert p_end == predictor.answer(USER[-WINDOW_SAMPLES:], AGENT[-WINDOW_SAMPLES:], 0.2)[0]


def test_reset_in_the_middle_of_speech_is_like_a_fresh_start(model: Path, predictor: VapPredictor) -> None:
    predictor.update(USER, AGENT, 7.0, None)
    predictor.reset()
    fresh = VapPredictor(model, (), 0.0)
    part, quiet = USER[:32_000], AGENT[:32_000]
    assert predictor.update(part, quiet, 2.0, None) == fresh.update(part, quiet, 2.0, None)


def test_a_gap_in_the_audio_empties_the_memory_and_is_said(
    predictor: VapPredictor, caplog: pytest.LogCaptureFixture
) -> None:
    predictor.reset()
    predictor.update(USER[:32_000], AGENT[:32_000], 2.0, None)
    with caplog.at_level(logging.INFO, "pads_runtime.turn.vap"):
        after = predictor.update(USER[:16_000], AGENT[:16_000], 9.0, None)
    assert after.p_end == predictor.answer(USER[:16_000], AGENT[:16_000], None)[0]
    assert "missed 6.00 s" in caplog.text


def test_a_missing_agent_channel_counts_as_silence_and_is_said_once(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    predictor = VapPredictor(model, ())
    with caplog.at_level(logging.WARNING, "pads_runtime.turn.vap"):
        first = predictor.update(USER[:16_000], NOTHING, 1.0, None)
        predictor.update(USER[16_000:32_000], NOTHING, 2.0, None)
    assert first.p_end == predictor.answer(USER[:16_000], np.zeros(16_000, np.int16), None)[0]
    assert caplog.text.count("no agent channel") == 1


@pytest.mark.parametrize("samples", [np.zeros(32_000, np.int16), np.full(32_000, 32_767, np.int16)])
def test_silent_and_clipped_audio_give_a_probability(predictor: VapPredictor, samples: Samples) -> None:
    predictor.reset()
    told = predictor.update(samples, samples, 2.0, 0.2)
    assert 0.0 <= told.p_end <= 1.0
    assert told.p_now is not None and 0.0 <= told.p_now <= 1.0
    assert told.p_future is not None and 0.0 <= told.p_future <= 1.0


def test_samples_of_another_kind_or_unequal_length_are_refused(predictor: VapPredictor) -> None:
    with pytest.raises(InputError, match="int16"):
        predictor.update(np.array([0.1, np.nan]), NOTHING, 1.0, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="320 user samples but 100"):
        predictor.update(np.zeros(320, np.int16), np.zeros(100, np.int16), 1.0, None)


def test_an_answer_that_is_no_number_is_an_error(model: Path) -> None:
    class Broken:
        def run(self, outputs: object, inputs: object) -> list[np.ndarray]:
            return [np.array([[np.nan]], np.float32), np.zeros((1, 256), np.float32), np.zeros((1, 1157), np.float32)]

    predictor = VapPredictor(model, ())
    predictor._session = Broken()
    with pytest.raises(ModelError, match="nan"):
        predictor.update(USER, AGENT, 7.0, None)


def test_a_missing_file_and_a_network_of_another_version_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"scripts/train vap"):
        VapPredictor(tmp_path / "none.onnx", ())
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(b"not a network")
    with pytest.raises(ModelCorrupt, match="cannot be loaded"):
        VapPredictor(torn, ())


def test_another_turn_network_is_refused_by_its_version(smart_turn_file: Path) -> None:
    with pytest.raises(ModelCorrupt, match="version unknown, not pads-vap-1"):
        VapPredictor(smart_turn_file, ())


def test_it_wants_ten_answers_a_second_of_speech_and_the_moments_of_a_pause(predictor: VapPredictor) -> None:
    predictor.reset()
    assert sum(predictor.wants(None) for _ in range(50)) == 10
    assert [s for s in (0.1, 0.2, 0.22, 0.6, 0.7) if predictor.wants(s)] == [0.2, 0.6]


def test_it_can_be_kept_quiet_during_speech(model: Path) -> None:
    predictor = VapPredictor(model, (0.2,), 0.0)
    assert not any(predictor.wants(None) for _ in range(100))


def test_the_agents_shares_count_loud_blocks_of_the_last_moments() -> None:
    agent = np.concatenate([np.zeros(3 * 16_000, np.int16), speechlike(1.0, 3) * 0 + 9_000])
    agent[3 * 16_000 :: 2] = -9_000
    assert agent_shares(agent.astype(np.int16)) == pytest.approx((1.0, 1.0, 0.25))
    assert agent_shares(NOTHING) == (0.0, 0.0, 0.0)
    assert context(NOTHING, None).tolist() == [[0.0, 0.0, 0.0, 0.0]]
    assert context(NOTHING, 3.0)[0, 0] == 1.0


def test_the_comparisons_weigh_the_bins_of_both_speakers() -> None:
    bits = class_bits()
    assert bits.shape == (256, 8)
    assert bits[0b10000000].tolist() == [True] + [False] * 7
    user_now = np.eye(256)[0b11000000]
    agent_later = np.eye(256)[0b00000011]
    assert comparisons(user_now)[0] == 1.0
    assert comparisons(agent_later)[1] == 0.0
    assert comparisons((user_now + np.eye(256)[0b00001100]) / 2)[0] == pytest.approx(0.5)


def test_a_sure_answer_in_speech_ends_no_questions_and_one_in_a_pause_does(model: Path) -> None:
    predictor = VapPredictor(model, (0.2, 0.5), 0.0, enough=0.0)
    predictor.update(USER[:16_000], AGENT[:16_000], 1.0, None)
    assert predictor.wants(0.2)
    predictor.update(USER[16_000:32_000], AGENT[16_000:32_000], 2.0, 0.2)
    assert not predictor.wants(0.5)


def test_telephone_audio_of_8_khz_is_heard_like_the_same_voice_at_16_khz(
    predictor: VapPredictor, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "call.wav", soxr.resample(USER.astype(np.float64) / 32_768, 16_000, 8_000), 8_000)
    narrow = read_audio(tmp_path / "call.wav")
    assert len(narrow) == len(USER)
    assert predictor.answer(narrow, NOTHING, 0.2)[0] == pytest.approx(predictor.answer(USER, NOTHING, 0.2)[0], abs=0.1)
