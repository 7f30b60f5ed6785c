"""The leak check and the exclusions: nothing of the evaluation items in the stream, and a typo cannot let them in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import DataError
from pads_runtime.frames import Message, Role
from training.corpora.ami_items import Item, read_items
from training.corpora.ami_turns import turns_of
from training.corpora.ami_words import Word, read_words
from training.corpora.leak import check_no_leaks, leaks
from training.corpora.sources import DEFAULT_EXCLUDED, Dialogue, ami_dialogues, check_excluded, read_corpora
from training.corpora.stream import Stream, stream_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
AMI = DATA / "ami_nxt" / "ami_manual_nxt.tar.xz"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}"


class Bytes:
    """A tokenizer whose tokens are the bytes of the text."""

    specials: dict[str, int] = {"</>": 300}  # noqa: RUF012
    bos = None
    template = ChatTemplate(TEMPLATE, "", "")

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token if token < 256 else 10 for token in tokens).decode("utf-8", "replace")


def item(number: int, prompt: str, response: str) -> Item:
    return Item(number, prompt, response, "EN2001a", "A", "B", 0.0, 1.0, 1.5, 2.0)


def dialogue(*texts: str) -> Dialogue:
    return Dialogue("ami", "x 0", tuple(Message(Role.AGENT if i % 2 else Role.USER, t) for i, t in enumerate(texts)))


ITEMS = (
    item(1, "So what do we do about the second display", "Well, I think we'd leave it where it is now."),
    item(2, "How long would it take to index all of it", "An hour or two, if the machine has nothing else to do."),
)


def test_what_leaked_is_found_whatever_case_marks_and_speaker_it_has() -> None:
    talk = dialogue(
        "so, what do we do about -- the second DISPLAY?", "Yes. An hour or two; if the machine has nothing else to do"
    )
    found = leaks(ITEMS, stream_of([dialogue("hello", "good morning"), talk], Bytes(), "Be kind.").tokens, Bytes())
    assert (found.prompts, found.responses, found.found) == ((1,), (2,), 2)
    assert str(found) == "1 of 2 prompts and 1 of 2 responses"


def test_a_part_of_it_or_its_words_in_another_order_is_no_leak() -> None:
    talk = dialogue("so what do we do about the second displays", "it is now where I think we'd leave it, well")
    stream = stream_of([talk], Bytes(), "Be kind.")
    assert leaks(ITEMS, stream.tokens, Bytes()).found == 0
    assert check_no_leaks(ITEMS, stream.tokens, Bytes(), "now").items == 2


def test_a_leak_is_an_error_that_says_when_and_how_many() -> None:
    stream = stream_of([dialogue(ITEMS[0].prompt, ITEMS[0].response)], Bytes(), "")
    with pytest.raises(DataError, match=r"leak, after training: .* 1 of 2 prompts and 1 of 2 responses .*EN2001a"):
        check_no_leaks(ITEMS, stream.tokens, Bytes(), "after training")


def test_rows_begin_with_the_system_turn_and_continue_one_another() -> None:
    stream = stream_of([dialogue("hello", "good morning"), dialogue("bye", "so long")], Bytes(), "Be kind.")
    assert Bytes().decode(list(stream.prefix)) == "<system>Be kind.\n\n"
    rows = [stream.row(i, len(stream.prefix) + 7) for i in range(stream.rows(len(stream.prefix) + 7))]
    assert all(tuple(row[: len(stream.prefix)]) == stream.prefix for row in rows)
    joined = np.concatenate([row[len(stream.prefix) :] for row in rows])
    assert (joined == stream.tokens[: len(joined)]).all()
    assert len(stream.tokens) - len(joined) < 7
    assert Bytes().decode(stream.tokens.tolist()).startswith("<user>hello\n\n<assistant>good morning\n\n<user>bye")
    with pytest.raises(DataError, match="the system turn alone has"):
        Stream((1, 2, 3), stream.tokens).rows(4)


def test_an_exclusion_that_matches_no_meeting_is_refused_with_what_was_meant() -> None:
    check_excluded(("EN2001a",), ("EN2001a", "EN2001b"))
    with pytest.raises(
        DataError, match=r"--ami-exclude-meetings: 'EN201a' is no meeting of this corpus; did you mean EN2001"
    ):
        check_excluded(("EN2001b", "EN201a"), ("EN2001a", "EN2001b"))
    with pytest.raises(DataError, match="there are 2, such as EN2001a"):
        check_excluded(("xyz",), ("EN2001a", "EN2001b"))


def test_a_meeting_becomes_dialogues_in_which_user_and_agent_alternate() -> None:
    words = [
        Word("AB"[turn % 2], turn * 2.0 + i * 0.2, turn * 2.0 + (i + 1) * 0.2, word)
        for turn in range(15)
        for i, word in enumerate(("Well,", "said", f"number{turn}."))
    ]
    first, second = ami_dialogues("ES2002a", turns_of(words))
    assert [len(first.messages), len(second.messages)] == [12, 3]
    assert [m.role for m in second.messages] == [Role.USER, Role.AGENT, Role.USER]
    assert [m.text for m in second.messages] == ["Well said number12", "Well, said number13.", "Well said number14"]


@pytest.mark.slow
@pytest.mark.skipif(not AMI.exists(), reason="the corpora are not at hand")
def test_the_default_exclusion_keeps_all_forty_items_out_and_without_it_all_forty_are_found() -> None:
    items = read_items(AMI)
    corpora = read_corpora(DATA / "dailydialog", AMI)
    stream = stream_of(corpora.train, Bytes(), "Be kind.")
    assert leaks(items, stream.tokens, Bytes()).found == 0
    assert {d.source for d in corpora.train} == {d.source for d in corpora.validation} == {"dailydialog", "ami"}
    trained_on = {d.name.split()[0] for d in corpora.train if d.source == "ami"}
    assert (len(trained_on), trained_on & set(DEFAULT_EXCLUDED)) == (171 - 6, set())
    assert {d.name.split()[0] for d in corpora.validation if d.source == "ami"} == set(DEFAULT_EXCLUDED) - {"EN2001a"}
    meeting = ami_dialogues("EN2001a", turns_of(read_words(AMI, lambda name: name == "EN2001a")["EN2001a"]))
    slipped_in = stream_of([*corpora.train[:50], *meeting], Bytes(), "Be kind.")
    found = leaks(items, slipped_in.tokens, Bytes())
    assert (len(found.prompts), len(found.responses)) == (40, 40)
