from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pads_runtime.engine.utf8 import take_text


def stream(data: bytes, cuts: list[int]) -> tuple[list[str], bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pending, texts = b"", []
    for start, end in itertools.pairwise(edges):
        text, pending = take_text(pending, data[start:end])
        texts.append(text)
    return texts, pending


@given(st.text(), st.lists(st.integers(0, 1000)))
def test_text_in_pieces_equals_the_whole_wherever_the_bytes_are_cut(text: str, cuts: list[int]) -> None:
    texts, pending = stream(text.encode("utf-8"), cuts)
    assert "".join(texts) == text
    assert pending == b""


@given(st.binary(), st.lists(st.integers(0, 1000)))
def test_any_bytes_give_the_text_of_a_whole_decode(data: bytes, cuts: list[int]) -> None:
    texts, pending = stream(data, cuts)
    assert "".join(texts) + pending.decode("utf-8", "replace") == data.decode("utf-8", "replace")


def test_an_unfinished_character_is_held_until_it_is_whole() -> None:
    snowman = "☃".encode()
    assert take_text(b"", b"a" + snowman[:2]) == ("a", snowman[:2])
    assert take_text(snowman[:2], snowman[2:]) == ("☃", b"")


def test_bytes_that_can_never_be_a_character_do_not_hold_up_the_text() -> None:
    assert take_text(b"\xe2\x98", b"ok") == ("\ufffdok", b"")
