"""AMI words, turns and the 40 evaluation items: by planted meetings, and by the corpus where it is at hand."""

from __future__ import annotations

import io
import itertools
import tarfile
from pathlib import Path

import pytest

from pads_runtime.errors import DataError
from training.corpora.ami_items import ITEMS, items_of, read_items
from training.corpora.ami_turns import Turn, turns_of
from training.corpora.ami_words import Word, meetings, read_words

AMI = Path(__file__).resolve().parents[3] / "shared" / "data" / "ami_nxt" / "ami_manual_nxt.tar.xz"
HEAD = '<?xml version="1.0" encoding="ISO-8859-1"?><nite:root nite:id="r" xmlns:nite="http://nite.sourceforge.net/">'


def spoken(speaker: str, start_s: float, text: str, step_s: float = 0.3) -> list[Word]:
    """Words without a gap between them."""
    words = text.split()
    return [Word(speaker, start_s + i * step_s, start_s + (i + 1) * step_s, word) for i, word in enumerate(words)]


def pair(number: int, **changes: object) -> list[Turn]:
    """A prompt and a response that fit the rule, unlike those of other numbers."""
    prompt = {"speaker": "A", "start_s": number * 10.0, "end_s": number * 10.0 + 3, "words": 9, "text": f"p {number}"}
    response = {"speaker": "B", "start_s": number * 10.0 + 3.5, "end_s": number * 10.0 + 6, "words": 9}
    response["text"] = f"r {number}"
    prompt.update({key: value for key, value in changes.items() if key in ("words", "text")})
    if "start_s" in changes:
        response["start_s"] = changes["start_s"]
    return [Turn(**prompt), Turn(**response)]  # type: ignore[arg-type]


def test_listeners_words_do_not_take_the_floor_and_a_pause_does_not_end_a_turn() -> None:
    words = spoken("A", 0, "so what do we do") + spoken("B", 1.0, "mm yeah") + spoken("A", 4, "about the other thing")
    words += spoken("B", 6.0, "we leave it alone")
    turns = turns_of(words)
    assert [(turn.speaker, turn.words, turn.text) for turn in turns] == [
        ("A", 9, "so what do we do about the other thing"),
        ("B", 4, "we leave it alone"),
    ]
    assert turns[0].end_s == pytest.approx(5.2)


def test_words_are_read_with_their_marks_and_without_what_was_cut_short(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    body = (
        '<w starttime="1.0" endtime="1.4">T_V_s</w><w starttime="1.4" endtime="1.4" punc="true">,</w>'
        '<vocalsound starttime="1.5" endtime="1.6" type="laugh"/><w starttime="1.6" endtime="1.7" trunc="true">wor</w>'
        '<w starttime="1.7" endtime="2.0">work</w><w>untimed</w><w starttime="2.0" endtime="2.0" punc="true">.</w>'
    )
    (folder / "ES2002a.B.words.xml").write_text(HEAD + body + "</nite:root>", encoding="latin-1")
    assert read_words(tmp_path)["ES2002a"] == (Word("B", 1.0, 1.4, "TVs,"), Word("B", 1.7, 2.0, "work."))
    with tarfile.open(tmp_path / "package.tar.xz", "w:xz") as archive:
        archive.add(folder, "package/words")
    assert read_words(tmp_path / "package.tar.xz") == read_words(tmp_path)
    assert meetings(tmp_path / "package.tar.xz") == ("ES2002a",)


def test_what_is_no_ami_package_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        read_words(tmp_path / "none")
    with pytest.raises(DataError, match="no words/"):
        read_words(tmp_path)
    (tmp_path / "broken.tar.xz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_words(tmp_path / "broken.tar.xz")
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        member = tarfile.TarInfo("words/ES2002a.A.words.xml")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"<a>"))
    with pytest.raises(DataError, match=r"'words/ES2002a\.A\.words\.xml' is no NXT words file"):
        read_words(tmp_path / "bad.tar")


def test_items_are_taken_with_equal_steps_first_and_last_among_them() -> None:
    turns = list(itertools.chain.from_iterable(pair(number) for number in range(79)))
    items = items_of(turns)
    assert [item.prompt for item in items] == [f"P {2 * i}" for i in range(ITEMS)]
    assert [item.number for item in items] == list(range(1, ITEMS + 1))


@pytest.mark.parametrize("changes", [{"words": 7}, {"words": 61}, {"start_s": 5.1}, {"start_s": 1.9}, {"text": "p 2"}])
def test_a_pair_that_breaks_the_rule_is_no_candidate(changes: dict[str, object]) -> None:
    turns = [turn for number in range(1, 40) for turn in pair(number)]
    moved = {key: 10.0 * 40 + value if key == "start_s" else value for key, value in changes.items()}  # type: ignore[operator]
    with pytest.raises(DataError, match=r"has 3\d pairs of turns that fit, 40 are needed"):
        items_of([*turns, *pair(40, **moved)])
    assert len(items_of([*turns, *pair(40)])) == ITEMS


@pytest.mark.skipif(not AMI.exists(), reason="the AMI package is not at hand")
def test_the_meeting_gives_forty_items_with_enough_words_each_turn_used_once() -> None:
    items = read_items(AMI)
    assert len(items) == ITEMS
    assert items[0].prompt == "Does anyone want to see uh steve's feedback from the specification"
    assert items[0].response == "Is there much more in it than he"
    assert min(len(text.split()) for item in items for text in (item.prompt, item.response)) >= 8
    places = [(item.prompt_start_s, item.response_start_s) for item in items]
    assert places == sorted(places)
    assert all(item.prompt_speaker != item.response_speaker for item in items)
    assert len({item.prompt for item in items} | {item.response for item in items}) == 2 * ITEMS
