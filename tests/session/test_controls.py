"""What a running talk is told from outside, and that it ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from pads_runtime.clock import Clock
from pads_runtime.controls import Controls
from pads_runtime.frames import AudioFrame, Message, Role
from pads_runtime.session import Session
from pads_runtime.steering import MAX_TEXT
from pads_runtime.testing import (
    Conversation,
    Script,
    ScriptSource,
    WordEngine,
    converse,
    settings_with,
    swap,
)
from pads_runtime.trace import Trace

ASKED = Script.of((0.5, "can you tell me"), tail_s=9.0)
"""Confirmed at 2.2; a reply of 20 words sounds from then on, for 4 s."""
AGENT, USER = Role.AGENT, Role.USER
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"


def told(*orders: tuple[float, Callable[[Controls], None]]) -> Callable[[Session, Clock], AsyncIterator[None]]:
    """Give each order at its time."""

    async def give(session: Session, clock: Clock) -> AsyncIterator[None]:
        for at_s, order in orders:
            await clock.sleep_until(at_s)
            order(session)
            yield

    return give


def talk(script: Script, *orders: tuple[float, Callable[[Controls], None]], **settings: object) -> Conversation:
    return converse(script, settings_with(**settings), swap(engine=WordEngine(20)), told(*orders))


def seconds_played(conversation: Conversation) -> float:
    return sum(len(samples) for _, samples in conversation.sink.played) / conversation.sink.sample_rate


# ---------------------------------------------------------------- mute and stop


def test_while_muted_nothing_is_heard_and_what_was_said_before_counts() -> None:
    script = Script.of((0.5, "can you tell me"), (7.0, "what is this"), (12.0, "why"))
    muted = talk(script, (1.6, lambda c: c.mute(True)), (1.7, lambda c: c.mute(True)), (11.0, lambda c: c.mute(False)))
    assert muted.user_rows == ["Can you tell me", "Why"]
    assert len(muted.of("muted")) == len(muted.of("unmuted")) == 1


def test_stop_silences_the_agent_at_once_and_the_history_keeps_what_was_played() -> None:
    whole = converse(ASKED, change=swap(engine=WordEngine(20)))
    stopped = talk(ASKED, (3.3, lambda c: c.stop_speaking()))
    (cut,) = stopped.of("reply_interrupted")
    assert (cut.t_s, cut.fields["reason"]) == (3.3, "stop was asked for")
    assert stopped.agent_rows == [" ".join(whole.agent_rows[0].split()[:5])]  # 1.1 s of words of 0.2 s
    assert seconds_played(stopped) == pytest.approx(1.1)
    assert stopped.of("state_changed")[-1].fields["state"] == "idle"


def test_stop_while_the_agent_is_silent_does_nothing() -> None:
    assert talk(ASKED, (1.0, lambda c: c.stop_speaking())).history == talk(ASKED).history


# ---------------------------------------------------------------- say and repeat


def test_a_text_to_say_waits_until_the_reply_has_been_spoken_and_is_a_row_of_the_agents() -> None:
    said = talk(ASKED, (1.0, lambda c: c.say("Tea is ready.\n")))
    assert [row.role for row in said.history] == [USER, AGENT, AGENT]
    assert said.agent_rows[1] == "Tea is ready."
    (finished,), (started,) = said.of("playback_finished")[:1], said.of("say_started")
    assert started.t_s >= finished.t_s
    assert said.of("say_asked")[0].t_s == 1.0
    assert said.of("say_finished")[0].fields["heard"] == "Tea is ready."
    assert said.replies == talk(ASKED).replies  # it is no reply


def test_a_text_to_say_is_in_the_next_prompt_as_far_as_it_was_heard() -> None:
    script = Script.of((2.0, "no wait stop that"), tail_s=8.0)
    said = talk(script, (0.5, lambda c: c.say(f"{NUMBERS}.")))
    (cut,) = said.of("reply_interrupted")
    words = int((cut.t_s - said.of("playback_started")[0].t_s) / 0.2 + 1e-6)
    assert said.agent_rows[0].split() == NUMBERS.split()[:words]
    assert 0 < words < 12
    assert said.user_rows == ["No wait stop that"]
    prompt = said.session._history.prompt(said.history[:1], "No wait stop that")
    assert said.agent_rows[0] in prompt[0].text and [m.role for m in prompt] == [Role.SYSTEM, USER]
    spoken = [word for m in prompt for word in m.text.split()]
    cached = [word for word in said.engine._cache if not word.startswith("<")]
    assert cached[: len(spoken)] == spoken


def test_a_text_that_nobody_heard_anything_of_is_said_once_the_user_has_been_answered() -> None:
    script = Script.of((0.5, "can you tell me"), tail_s=12.0)
    said = talk(script, (0.49, lambda c: c.say("Tea is ready.")))
    assert [row.text for row in said.history][-1] == "Tea is ready."
    assert len(said.of("say_withdrawn")) == 1
    assert len(said.of("say_started")) == 2
    assert len(said.replies) == 1


def test_repeat_says_the_last_reply_again_whole_even_if_it_was_cut() -> None:
    whole = converse(ASKED, change=swap(engine=WordEngine(20))).agent_rows[0]
    again = talk(ASKED, (3.3, lambda c: c.stop_speaking()), (4.0, lambda c: c.repeat()))
    assert again.agent_rows[1] == whole
    assert again.of("repeat_asked")[0].fields["text"] == whole


def test_repeat_before_any_reply_does_nothing() -> None:
    nothing = talk(Script((), 2.0), (0.5, lambda c: c.repeat()))
    assert nothing.history == () and nothing.of("say_started") == []


@pytest.mark.parametrize(("text", "reason"), [(" \n", "no words in it"), ("a" * (MAX_TEXT + 1), "longer than")])
def test_a_text_that_cannot_be_said_is_refused_in_the_trace(text: str, reason: str) -> None:
    (refused,) = talk(Script((), 1.0), (0.5, lambda c: c.say(text))).of("say_refused")
    assert reason in refused.fields["reason"]


def test_a_flood_of_texts_is_refused_and_the_talk_goes_on() -> None:
    def flood(controls: Controls) -> None:
        for i in range(1000):
            controls.say(f"number {i}.")

    flooded = talk(ASKED, (1.0, flood))
    assert flooded.of("say_refused")[0].fields["reason"] == "too much at once"
    assert flooded.user_rows == ["Can you tell me"]
    assert 1 < len(flooded.of("say_finished")) <= 8


# ---------------------------------------------------------------- a recogniser outside


def hears(*words: tuple[float, str, bool]) -> list[tuple[float, Callable[[Controls], None]]]:
    return [(t_s, lambda c, text=text, final=final: c.hear(text, final)) for t_s, text, final in words]  # type: ignore[misc]


EXTERNAL = {"asr": {"kind": "external"}}


def test_an_outside_recogniser_serves_a_turn_with_partials_and_a_final() -> None:
    heard = hears((1.0, "can you", False), (1.4, "can you tell me", False), (1.75, "Can you tell me?", True))
    outside = talk(ASKED, *heard, **EXTERNAL)
    assert outside.user_rows == ["Can you tell me"]
    assert len(outside.of("reply_committed")) == 1  # prepared in the pause, as with words of our own
    assert [e.fields["final"] for e in outside.of("transcript_updated")] == [False, False, True]


@pytest.mark.parametrize("late_s", [0.001, 0.5, 2.9, 3.5])
def test_a_final_after_the_confirm_is_answered_at_once_however_late(late_s: float) -> None:
    confirmed_s = 2.2
    outside = talk(ASKED, *hears((confirmed_s + late_s, "can you tell me", True)), **EXTERNAL)
    (opened,) = outside.of("reply_opened")
    assert opened.t_s == pytest.approx(confirmed_s + late_s)
    assert outside.user_rows == ["Can you tell me"]
    assert len(outside.replies) == 1


@pytest.mark.parametrize("gap_s", [0.0, 0.02, 0.08, 0.15])
@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("first_s", [1.8, 2.15, 2.5])
def test_two_finals_shortly_after_each_other_bring_one_reply_to_all_words(
    first_s: float, gap_s: float, mode: str
) -> None:
    """Also where the prepared reply sounds already when the second one comes."""
    texts = hears((first_s, "can you tell me", True), (first_s + gap_s, "can you tell me the time", True))
    outside = talk(ASKED, *texts, gate={"mode": mode}, **EXTERNAL)
    assert outside.user_rows == ["Can you tell me the time"]
    assert len(outside.replies) == len(outside.agent_rows) == 1
    assert len(outside.agent_rows[0].split()) == 20


def test_a_prepared_reply_that_sounds_already_is_withdrawn_for_the_words_that_came_80_ms_later() -> None:
    texts = hears((1.75, "can you tell me", True), (2.28, "can you tell me the time", True))
    outside = talk(ASKED, *texts, gate={"mode": "always"}, **EXTERNAL)
    first, second = outside.of("playback_started")
    (withdrawn,) = outside.of("reply_withdrawn")
    assert withdrawn.t_s - first.t_s == pytest.approx(0.08, abs=0.002)
    assert withdrawn.t_s < second.t_s
    assert (withdrawn.fields["reason"], withdrawn.fields["prepared"]) == ("more words arrived", True)
    assert outside.user_rows == ["Can you tell me the time"]
    assert len(outside.replies) == 1


def test_words_that_come_when_some_of_the_reply_was_heard_are_answered_as_the_next_turn() -> None:
    late = hears((2.0, "can you tell me", True), (3.3, "can you tell me the time", True))
    outside = talk(ASKED, *late, **EXTERNAL)
    assert outside.user_rows == ["Can you tell me", "The time"]
    assert [row.role for row in outside.history] == [USER, AGENT, USER, AGENT]
    assert len(outside.agent_rows[0].split()) == 5
    assert seconds_played(outside) == pytest.approx(1.1 + 4.0)


def test_the_same_final_twice_is_one_turn() -> None:
    twice = hears((2.0, "can you tell me", True), (2.1, "Can you tell me.", True), (3.0, "can you tell me", True))
    assert len(talk(ASKED, *twice, **EXTERNAL).replies) == 1


def test_words_from_another_microphone_are_answered_without_any_sound_of_our_own() -> None:
    silent = talk(Script((), 12.0), *hears((1.0, "what time is it", True), (7.0, "mhm", True)), **EXTERNAL)
    assert silent.user_rows == ["What time is it"]
    assert [e.fields["reason"] for e in silent.of("turn_closed")] == ["a backchannel"]


def test_words_are_refused_where_the_recogniser_is_our_own() -> None:
    own = talk(ASKED, *hears((1.0, "something else", True)))
    assert own.user_rows == ["Can you tell me"]
    assert len(own.of("hear_refused")) == 1


# ---------------------------------------------------------------- the end


class Endless(ScriptSource):
    """A microphone: it never ends by itself. Notes that it was closed."""

    closed = False

    async def frames(self) -> AsyncIterator[AudioFrame]:
        try:
            async for frame in super().frames():
                yield frame
            await asyncio.Event().wait()
        finally:
            self.closed = True


@pytest.mark.parametrize("virtual", [True, False])
@pytest.mark.parametrize("quit_s", [0.0, 0.2, 0.6, 1.2])
def test_quit_ends_the_talk_in_order_wherever_it_stands(quit_s: float, virtual: bool) -> None:
    script = Script.of((0.1, "can you tell me"), word_s=0.1, tail_s=1.5)
    quick = settings_with(turn={"confirm_min_s": 0.3}, gate={"mode": "always"})
    sources: list[Endless] = []

    def endless(stages):  # type: ignore[no-untyped-def]
        sources.append(Endless(script, stages.source._clock))
        return swap(source=sources[0], engine=WordEngine(20))(stages)

    trace = Trace()
    twice = told((quit_s, lambda c: c.quit()), (quit_s, lambda c: c.quit()))
    ended = converse(script, quick, endless, twice, virtual, trace=trace)
    kinds = [event.kind for event in trace.events]
    assert kinds[-1] == "session_ended" and kinds.count("quit_asked") == 1
    assert "session_failed" not in kinds
    assert sources[0].closed and ended.sink.closed and ended.engine.closed
    opened = len(ended.of("branch_opened"))
    assert opened == len(ended.of("branch_discarded")) + len(ended.of("reply_committed"))
    if quit_s == 1.2:
        assert [e.fields["reason"] for e in ended.of("reply_interrupted")] == ["the talk was ended"]
        assert ended.history[0] == Message(USER, "Can you tell me")


def test_quit_in_mid_reply_cuts_the_sound_there() -> None:
    ended = talk(ASKED, (3.3, lambda c: c.quit()))
    assert seconds_played(ended) == pytest.approx(1.1, abs=0.03)
    assert ended.events[-1].t_s < 3.5
    assert len(ended.agent_rows[0].split()) == 5
