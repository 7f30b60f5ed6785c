"""The AMI corpus in its own layout, whatever it is packed in."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pads_runtime.config import ROOT
from pads_runtime.corpora.ami import KINDS, MISTIMED, AmiCorpus, Person
from pads_runtime.errors import DataError

HEAD = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<nite:root xmlns:nite="http://nite.sourceforge.net/">'
WORDS = f"""{HEAD}
<w nite:id="0" starttime="1.0" endtime="1.4">It&#39;s</w><w starttime="1.4" endtime="1.4" punc="true">.</w>
<w starttime="2.0" endtime="2.1" trunc="true">thi</w><vocalsound starttime="3.0" endtime="3.5" type="laugh"/>
<w>untimed</w><sil/></nite:root>"""
EMPTY = f"{HEAD}</nite:root>"
PEOPLE = f"""{HEAD}<meeting observation="ES1a">
<speaker channel="2" nxt_agent="A" global_name="MIO016"/></meeting></nite:root>"""
FILES = {
    "pack/words/ES1a.A.words.xml": WORDS,
    "pack/words/ES1a.B.words.xml": EMPTY,
    "pack/corpusResources/meetings.xml": PEOPLE,
    "pack/segments/ES1a.A.segments.xml": "not looked at",
}
PACKAGE = ROOT.parent / "shared" / "data" / "ami_nxt" / "ami_manual_nxt.tar.xz"


def packed(base: Path, how: str, files: dict[str, str]) -> Path:
    if how == "folder":
        for name, text in files.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text, encoding="latin-1")
        return base / "pack"
    path = base / f"ami.{how}"
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return path
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("how", ["folder", "tar.xz", "zip"])
def test_folder_tar_and_zip_hold_the_same_meeting(tmp_path: Path, how: str) -> None:
    corpus = AmiCorpus(packed(tmp_path, how, FILES))
    assert corpus.meetings == ("ES1a",)
    meeting = corpus.meeting("ES1a")
    assert [(e.kind, e.start_s, e.end_s, e.text) for e in meeting.elements["A"]] == [
        ("w", 1.0, 1.4, "It's"),
        ("punc", 1.4, 1.4, "."),
        ("trunc", 2.0, 2.1, "thi"),
        ("vocalsound", 3.0, 3.5, "laugh"),
        ("w", None, None, "untimed"),
    ]
    assert meeting.elements["B"] == ()
    assert meeting.spans("A", frozenset({"w", "trunc"})) == [(1.0, 1.4), (2.0, 2.1)]
    assert len(meeting.spans("A", KINDS)) == 4
    assert corpus.people() == {"ES1a": {"A": Person("MIO016", "2")}}


def test_without_the_list_of_meetings_nobody_is_known(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if "meetings.xml" not in name}
    assert AmiCorpus(packed(tmp_path, "folder", files)).people() == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "no NXT words file"), ("<root><w", "no NXT words file"), ('<r><w starttime="x"/></r>', "no NXT words")],
)
def test_a_damaged_words_file_is_an_error_by_name(tmp_path: Path, text: str, told: str) -> None:
    corpus = AmiCorpus(packed(tmp_path, "folder", {"pack/words/ES1a.A.words.xml": text}))
    with pytest.raises(DataError, match=told) as caught:
        corpus.meeting("ES1a")
    assert "ES1a.A.words.xml" in str(caught.value)


def test_what_is_not_the_corpus_is_an_error_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        AmiCorpus(tmp_path / "none")
    with pytest.raises(DataError, match="no words/"):
        AmiCorpus(tmp_path)
    cut = packed(tmp_path, "tar.xz", FILES)
    cut.write_bytes(cut.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be unpacked"):
        AmiCorpus(cut)
    with pytest.raises(DataError, match="EN9"):
        AmiCorpus(packed(tmp_path, "folder", FILES)).meeting("EN9")


@pytest.mark.slow
def test_the_whole_package_has_171_meetings_and_the_mistimed_ones_among_them() -> None:
    if not PACKAGE.is_file():
        pytest.skip("the AMI annotations are not beside this checkout")
    corpus = AmiCorpus(PACKAGE)
    assert len(corpus.meetings) == 171
    assert set(MISTIMED) <= set(corpus.meetings)
    assert set(corpus.people()) >= set(corpus.meetings)
    assert corpus.meeting("EN2001a").elements["A"][0].text == "Okay"
