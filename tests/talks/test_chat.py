"""Typed turns: what the gate would have done, the same seeds as in speech, one row each in the history."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from pads_runtime.chat import Chat, chat_summary, typed_lines
from pads_runtime.clock import LoopClock
from pads_runtime.config import load
from pads_runtime.errors import ContextFull, InputError
from pads_runtime.frames import Message, Role, WorkCounts
from pads_runtime.mouth import seed_for
from pads_runtime.testing import KeywordActs, WordEngine
from pads_runtime.trace import Trace


class Watched(WordEngine):
    """Remembers what it was opened with; refuses a last turn of more than ``most`` words."""

    def __init__(self, most: int = 20) -> None:
        super().__init__()
        self.opened: list[tuple[tuple[Message, ...], int]] = []
        self._most = most

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        if len(messages[-1].text.split()) > self._most:
            raise ContextFull("the last turn is too long")
        self.opened.append((tuple(messages), seed))
        return super().open(messages, seed)


@asynccontextmanager
async def chatting(*overrides: str) -> AsyncIterator[tuple[Chat, Watched, Trace]]:
    engine, trace = Watched(), Trace()
    chat = Chat(engine, KeywordActs(), load("chat", overrides), LoopClock(), trace)
    try:
        yield chat, engine, trace
    finally:
        chat.close()


def quiet(_: str) -> None: ...


async def test_the_reply_is_shown_as_it_comes_and_told_whole() -> None:
    async with chatting() as (chat, _, trace):
        shown: list[str] = []
        turn = await chat.say("what is the time", shown.append)
    assert len(shown) == 8
    assert turn.agent == "".join(shown).strip()
    assert (turn.turn, turn.user, turn.tokens) == (1, "what is the time", 8)
    assert [event.kind for event in trace.events] == ["act_classified", "first_token", "reply_served"]
    assert 0 <= turn.ttft_ms <= turn.seconds * 1000


@pytest.mark.parametrize(
    ("overrides", "text", "deep"),
    [
        ((), "what is the time", True),
        ((), "nice weather", False),
        (("gate.theta_deep=0.95",), "what is the time", False),
        (("gate.mode=always",), "nice weather", True),
        (("gate.mode=never",), "what is the time", False),
    ],
)
async def test_a_turn_says_whether_the_gate_would_have_prepared_it(
    overrides: tuple[str, ...], text: str, deep: bool
) -> None:
    async with chatting(*overrides) as (chat, _, trace):
        turn = await chat.say(text, quiet)
    assert turn.p_deep == KeywordActs().p_deep(text)
    assert turn.deep is deep
    assert trace.events[0].fields["p_deep"] == turn.p_deep


async def test_each_turn_has_the_seed_it_would_have_in_speech() -> None:
    async with chatting("engine.seed=7") as (chat, engine, _):
        for text in ("one", "two", "three"):
            await chat.say(text, quiet)
    assert [seed for _, seed in engine.opened] == [seed_for(7, turn) for turn in (1, 2, 3)]
    assert len({seed for _, seed in engine.opened}) == 3


async def test_the_history_is_the_talk_row_by_row() -> None:
    async with chatting("engine.system_prompt=Be brief.") as (chat, engine, _):
        first = await chat.say("one", quiet)
        second = await chat.say("two", quiet)
    rows = [(Role.SYSTEM, "Be brief."), (Role.USER, "one"), (Role.AGENT, first.agent), (Role.USER, "two")]
    assert [(m.role, m.text) for m in engine.opened[1][0]] == rows
    assert [(m.role, m.text) for m in chat.history] == [*rows, (Role.AGENT, second.agent)]


async def test_a_turn_that_does_not_fit_leaves_the_talk_as_it_was() -> None:
    async with chatting() as (chat, engine, _):
        await chat.say("one", quiet)
        before = list(chat.history)
        with pytest.raises(ContextFull):
            await chat.say("word " * 21, quiet)
        assert chat.history == before
        after = await chat.say("two", quiet)
    assert after.turn == 2
    assert engine.opened[-1][1] == seed_for(load("chat").engine.seed, 2)


async def test_the_summary_is_one_plain_object() -> None:
    async with chatting() as (chat, _, _):
        await chat.say("how are you", quiet)
    told = chat_summary(chat.turns)
    assert told["turns"] == len(told["per_turn"]) == 1
    keys = {"turn", "user", "agent", "p_deep", "deep", "tokens", "ttft_ms", "seconds", "approximate"}
    assert set(told["per_turn"][0]) == keys
    assert chat_summary([]) == {"turns": 0, "per_turn": []}


# ---------------------------------------------------------------- typed lines


async def lines(raw: bytes) -> list[str]:
    return [text async for text in typed_lines(io.BytesIO(raw), lambda: None)]


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        (b"", []),
        (b"\n \n\t\r\n", []),
        (b"one\n\ntwo\r\n three ", ["one", "two", "three"]),
        ("Grüße\n你好\n".encode(), ["Grüße", "你好"]),
    ],
)
async def test_typed_lines_are_those_with_words(raw: bytes, texts: list[str]) -> None:
    assert await lines(raw) == texts


@pytest.mark.parametrize(
    ("raw", "where"), [(b"fine\nna\xefve\n", r"line 2 is not UTF-8 text \(byte 3\)"), (b"\xff", r"line 1 .*byte 1")]
)
async def test_bytes_that_are_not_utf_8_are_refused_with_their_place(raw: bytes, where: str) -> None:
    with pytest.raises(InputError, match=where):
        await lines(raw)


async def test_the_prompt_is_shown_once_a_line() -> None:
    shown: list[int] = []
    async for _ in typed_lines(io.BytesIO(b"one\n\ntwo\n"), lambda: shown.append(1)):
        pass
    assert len(shown) == 4, "before each of three lines and before the end"


async def test_waiting_for_a_line_that_never_comes_can_be_stopped() -> None:
    read, write = os.pipe()
    with io.FileIO(read) as stream:
        waiting = asyncio.create_task(anext(typed_lines(stream, lambda: None)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 1.0)
        os.close(write)  # lets the reader's thread end before the stream is closed
        await asyncio.sleep(0.05)
