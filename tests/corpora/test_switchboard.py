"""Word times of Switchboard from their table."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from pads_runtime.corpora.switchboard import conversations
from pads_runtime.errors import DataError

HEAD = "conversation\tside\tutt\tstart_ms\tend_ms\ttoken\n"
ROWS = (
    "1\tA\t1\t500\t700\tthere\n1\tA\t1\t100\t400\thi\n1\tB\t2\t800\t900\t[laughter]\n"
    "1\tB\t2\t900\t990\t[laughter-yes]\n2\tA\t1\t0\t10\tso\n"
)


def test_words_come_by_call_and_side_in_order_and_sounds_are_none(tmp_path: Path) -> None:
    (tmp_path / "words.tsv.xz").write_bytes(lzma.compress((HEAD + ROWS).encode()))
    (tmp_path / "plain.tsv").write_text(HEAD + ROWS, encoding="utf-8")
    for path in (tmp_path, tmp_path / "plain.tsv"):
        first, second = conversations(path)
        assert first.sides == {"A": [(100, 400), (500, 700)], "B": [(900, 990)]}
        assert (second.name, second.sides) == ("2", {"A": [(0, 10)]})


@pytest.mark.parametrize("text", ["other\theader\n", HEAD + "1\tA\t1\tx\t2\thi\n", HEAD + "1\tA\n"])
def test_another_table_is_an_error_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"t\.tsv"):
        list(conversations(tmp_path / "t.tsv"))


def test_a_missing_or_cut_table_is_an_error_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        list(conversations(tmp_path))
    (tmp_path / "words.tsv.xz").write_bytes(lzma.compress((HEAD + ROWS).encode())[:40])
    with pytest.raises(DataError, match="cannot be read"):
        list(conversations(tmp_path))
