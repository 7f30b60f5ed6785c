"""The fit of the silence law: what counts as a hold, what as a turn end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pads_runtime.errors import DataError
from pads_runtime.turn.silence import SilenceLaw
from training.turn.fit_silence import Speech, fit, fit_folder, main, silences

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "spokenwoz_sample"


def test_the_same_side_next_is_a_hold_and_the_other_a_turn_end() -> None:
    speech = [Speech(0, 1, "a"), Speech(1.5, 2, "a"), Speech(2.6, 3, "b"), Speech(3.1, 4, "a")]
    holds, ends = silences(speech, 0.2)
    assert holds == pytest.approx([0.5])
    assert ends == pytest.approx([0.6])


def test_silence_inside_the_other_sides_speech_is_not_mutual() -> None:
    speech = [Speech(0, 1, "a"), Speech(0.5, 3, "b"), Speech(1.4, 2, "a"), Speech(3.3, 4, "b")]
    holds, ends = silences(speech, 0.2)
    assert holds == pytest.approx([0.3])
    assert ends == []


def test_the_fit_recovers_the_law_that_made_the_data() -> None:
    rng = np.random.default_rng(1)
    holds = list(0.2 + rng.exponential(0.5, 20_000))
    result = fit(holds, [1.0] * 60_000, 0.2)
    assert result.hold_s == pytest.approx(0.5, rel=0.03)
    assert result.turn_share == pytest.approx(0.75)


def test_no_recordings_is_fatal_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("FATAL: no recordings")
    with pytest.raises(DataError):
        fit([], [], 0.2)


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the SpokenWOZ sample is not on this machine")
def test_the_shipped_constants_are_what_the_recordings_give() -> None:
    result = fit_folder(SAMPLE, 0.2)
    law = SilenceLaw()
    assert (result.holds, result.turn_ends) == (41, 105)
    assert law.turn_share == pytest.approx(result.turn_share, abs=0.001)
    assert law.hold_s == pytest.approx(result.hold_s, abs=0.001)
