"""The recogniser benchmark: how it counts errors and cuts utterances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.recognizer import main, utterances, word_errors


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a x c", 1), ("a b c", "b c", 1), ("", "a b", 2), ("a b", "", 2)],
)
def test_errors_are_the_least_edits(said: str, heard: str, errors: int) -> None:
    assert word_errors(said.split(), heard.split()) == errors


def test_utterances_are_split_at_gaps_and_long_ones_are_left_out(tmp_path: Path) -> None:
    rows = ["d\tA\t1.0\t1.5\tHi,", "d\tA\t1.6\t2.0\tthere!", "d\tA\t3.0\t3.5\tbye", "d\tB\t1.0\t11.0\tlong"]
    (tmp_path / "words.tsv").write_text("\n".join(["dialogue\tchannel\tstart\tend\tword", *rows]) + "\n")
    noise = np.random.default_rng(0).normal(0, 0.1, (12 * 8_000, 2))
    soundfile.write(tmp_path / "d.flac", noise, 8_000)
    found = list(utterances(tmp_path))
    assert [words for _, words in found] == [["hi", "there"], ["bye"]]
    assert [len(samples) / 16_000 for samples, _ in found] == pytest.approx([1.6, 1.1], abs=0.001)


def test_a_folder_without_words_is_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    assert main(["--data", str(tmp_path), "--model", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("FATAL:")
