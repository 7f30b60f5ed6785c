"""Word timings as a recogniser: what has been said so far, and files that cannot be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pads_runtime.asr.reference import ReferenceRecognizer, read_words
from pads_runtime.errors import InputError
from pads_runtime.frames import Word

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NOTHING = np.zeros(0, dtype=np.int16)
TABLE = "dialogue\tchannel\tstart\tend\tword\nd1\tA\t0.5\t0.8\thi\nd1\tB\t0.9\t1.2\thello\nd1\tA\t1.5\t2.0\tthere\n"


def write(folder: Path, text: str | bytes, name: str = "words.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path: Path, only: dict[str, str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        ReferenceRecognizer.from_file(path, only)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_a_word_is_stable_once_its_end_has_been_heard() -> None:
    recognizer = ReferenceRecognizer([Word("I", 0.1, 0.3), Word("want", 0.3, 0.7), Word("tea", 0.7, 1.0)])
    recognizer.begin(0.0)
    texts = [recognizer.transcribe(NOTHING, t, final=False).stable for t in (0.2, 0.3, 0.69, 0.7, 1.0)]
    assert texts == ["", "I", "I", "I want", "I want tea"]
    final = recognizer.transcribe(NOTHING, 1.0, final=True)
    assert (final.text, final.unstable, final.final, final.t_s, final.audio_end_s) == ("I want tea", "", True, 1.0, 1.0)


def test_a_new_turn_begins_without_the_words_of_earlier_ones() -> None:
    recognizer = ReferenceRecognizer([Word("one", 0.0, 1.0), Word("two", 2.0, 3.0)])
    recognizer.begin(1.5)
    assert recognizer.transcribe(NOTHING, 3.0, final=True).text == "two"
    recognizer.begin(0.0)
    assert recognizer.transcribe(NOTHING, 3.0, final=True).text == "one two"


def test_filters_pick_a_speaker(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    assert [w.text for w in read_words(path, {"channel": "A"})] == ["hi", "there"]
    assert [w.text for w in read_words(path, {})] == ["hi", "hello", "there"]


def test_compressed_files_and_other_text_columns_are_read(tmp_path: Path) -> None:
    table = "start\tend\tkind\ttext\n0\t1\tw\tyes\n1\t1\tpunc\t.\n2\t2\tw\tzero\n1\t2\tw\tplease\r\n\n"
    path = write(tmp_path, gzip.compress(table.encode()), "words.tsv.gz")
    assert [w.text for w in read_words(path, {})] == ["yes", "please"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("d1\tA\tx\t0.8\thi", "not a number"),
        ("d1\tA\t0.9\t0.8\thi", "before it starts"),
        ("d1\tA\t0.9\tnan\thi", "not finite"),
        ("d1\tA\t0.9", "columns instead of 5"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    message = refusal(write(tmp_path, TABLE + line + "\n"))
    assert "line 5" in message
    assert complaint in message


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    assert "not found" in refusal(tmp_path / "none.tsv")
    assert "no column 'start'" in refusal(write(tmp_path, ""))
    assert "no column 'speaker'" in refusal(write(tmp_path, TABLE), {"speaker": "A"})
    assert "no words for channel=C" in refusal(write(tmp_path, TABLE), {"channel": "C"})
    assert "line 2: not UTF-8" in refusal(write(tmp_path, b"start\tend\tword\n0\t1\t\xff\xfe\n"))
    assert "cannot be read" in refusal(write(tmp_path, b"no gzip", "words.tsv.gz"))
    assert "named word, text or token" in refusal(write(tmp_path, "start\tend\n0\t1\n"))


@pytest.mark.skipif(not DATA.is_dir(), reason="the corpora are not on this machine")
def test_the_corpora_on_this_machine_can_be_played() -> None:
    woz = ReferenceRecognizer.from_file(
        DATA / "spokenwoz_sample" / "words.tsv", {"dialogue": "MUL1423", "channel": "A"}
    )
    woz.begin(0.0)
    assert woz.transcribe(NOTHING, 3.6, final=False).stable == "hi hello"
    assert read_words(DATA / "ami_audio" / "words.tsv", {"clip": "EN2001a_0000000_trn00"})
