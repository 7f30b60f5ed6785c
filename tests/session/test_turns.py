"""From the user's words to one reply: what is prepared, what is served, what the history holds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pads_runtime.clock import Clock
from pads_runtime.config import PadsSettings
from pads_runtime.ears import Heard
from pads_runtime.frames import FRAME_S, GateMode, Message, Role, SpeechStarted, TranscriptUpdated
from pads_runtime.session import Session
from pads_runtime.summary import summarise
from pads_runtime.testing import (
    COSTS,
    Conversation,
    FixedPredictor,
    Script,
    ScriptRecognizer,
    ToneVoice,
    WordEngine,
    converse,
    settings_with,
    swap,
)

QUESTION = Script.of((0.5, "can you tell me the time"))
"""Ends at 2.0; with p_end 0.9 its pause is declared at 2.2 and the turn confirmed at 2.7."""
IN_TWO_PARTS = Script.of((0.5, "can you tell me"), (2.0, "the time"))
"""The first part ends at 1.5, is prepared for, and turns out not to be all."""
NEVER = settings_with(gate={"mode": "never"})


def heard_words(talk: Conversation) -> int:
    """Whole words of 0.2 s that the sink has played."""
    return sum(len(samples) for _, samples in talk.sink.played) // (ToneVoice.sample_rate // 5)


def external(*transcripts: tuple[float, str]) -> object:
    """A recogniser outside: finals that arrive at (t_s) whatever the ears do."""

    async def arrive(session: Session, clock: Clock) -> AsyncIterator[None]:
        for t_s, text in transcripts:
            await clock.sleep_until(t_s)
            await session._inbox.put(TranscriptUpdated(clock.now(), text, "", True, clock.now()))
            yield

    return arrive


def test_a_reply_prepared_in_the_pause_is_ready_at_the_confirm() -> None:
    talk = converse(QUESTION)
    (opened,), (first,), (confirmed,) = talk.of("branch_opened"), talk.of("first_token"), talk.of("turn_confirmed")
    assert opened.t_s < first.t_s < confirmed.t_s
    assert [event.fields["generated"] for event in talk.of("reply_committed")] == [True]
    assert talk.of("playback_started")[0].t_s == confirmed.t_s
    assert talk.user_rows == ["Can you tell me the time"]
    assert talk.agent_rows == [talk.replies[0][2]]


def test_a_history_changed_meanwhile_commits_one_reply_and_counts_the_other_as_waste() -> None:
    async def aside(session: Session, clock: Clock) -> AsyncIterator[None]:
        await clock.sleep_until(2.5)
        session._remember(Message(Role.USER, "By the way"))
        yield

    talk = converse(QUESTION, during=aside)
    (discarded,) = talk.of("branch_discarded")
    assert discarded.fields["reason"] == "the premise changed"
    assert discarded.fields["tokens"] > 0
    assert summarise(talk.events)["spec_wasted_tokens"] == discarded.fields["tokens"]
    assert talk.of("reply_committed") == []
    assert len(talk.of("reply_served")) == len(talk.agent_rows) == len(talk.replies) == 1
    plain = converse(QUESTION)
    assert talk.agent_rows != plain.agent_rows  # the reply is to the history as it is


def test_a_discarded_branch_leaves_one_user_row() -> None:
    talk = converse(IN_TWO_PARTS)
    assert [event.fields["reason"] for event in talk.of("branch_discarded")] == ["the user went on"]
    assert len(talk.of("branch_opened")) == 2
    assert talk.user_rows == ["Can you tell me the time"]
    assert len(talk.agent_rows) == 1


def test_the_reply_hook_is_called_once_for_a_commit_and_not_for_a_discard() -> None:
    seen: list[tuple[float, int]] = []

    async def watch(session: Session, clock: Clock) -> AsyncIterator[None]:
        original = session._on_reply
        assert original is not None

        def counted(turn: int, user: str, agent: str) -> None:
            seen.append((clock.now(), turn))
            original(turn, user, agent)

        session._on_reply = counted
        yield

    talk = converse(IN_TWO_PARTS, during=watch)
    assert len(talk.of("branch_discarded")) == 1
    assert len(seen) == len(talk.replies) == 1
    assert seen[0][0] > talk.of("reply_committed")[0].t_s


def test_other_case_and_punctuation_reuse_the_branch_and_one_changed_word_does_not() -> None:
    same = converse(QUESTION, during=external((2.5, "Can you... tell me the TIME?")))
    assert same.of("branch_discarded") == []
    assert len(same.of("reply_committed")) == 1
    other = converse(QUESTION, during=external((2.5, "can you tell me the tide")))
    assert [event.fields["reason"] for event in other.of("branch_discarded")] == ["the transcript changed"]
    assert other.user_rows == ["Can you tell me the tide"]


def test_the_same_words_twice_are_judged_and_prepared_twice() -> None:
    talk = converse(Script.of((0.5, "why"), (6.0, "why")))
    assert [event.fields["text"] for event in talk.of("act_classified")] == ["why", "why"]
    assert len(talk.of("reply_committed")) == 2


def test_two_finals_80_ms_apart_bring_one_audible_reply_to_all_words() -> None:
    talk = converse(QUESTION, NEVER, during=external((2.78, "can you tell me the time and the date")))
    assert [event.fields["reason"] for event in talk.of("reply_withdrawn")] == ["more words arrived"]
    assert len(talk.of("playback_started")) == len(talk.replies) == 1
    assert talk.user_rows == ["Can you tell me the time and the date"]
    assert heard_words(talk) == len(talk.agent_rows[0].split())


def test_confirm_resume_confirm_answers_once_and_ends_in_idle() -> None:
    resumed = Script.of((0.5, "can you tell me the time"), (2.72, "and the date"))
    talk = converse(resumed, NEVER)
    assert len(talk.of("turn_confirmed")) == 2
    assert len(talk.of("turn_reopened")) == len(talk.of("reply_withdrawn")) == 1
    assert talk.user_rows == ["Can you tell me the time and the date"]
    assert len(talk.of("playback_started")) == len(talk.agent_rows) == 1
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


def test_a_reply_that_never_speaks_is_given_up_and_the_session_hears_the_next_turn() -> None:
    slow = COSTS.model_copy(update={"synth_base_s": 25.0})
    script = Script.of((0.5, "can you tell me"), (16.0, "hello again"))
    talk = converse(script, NEVER, costs=slow)
    closed = talk.of("turn_closed")
    assert [event.fields["reason"] for event in closed] == ["no progress", "no progress"]
    assert talk.of("state_changed")[-1].fields["state"] == "idle"
    assert talk.user_rows == ["Can you tell me", "Hello again"]
    assert talk.agent_rows == [] and talk.replies == []


def test_a_pause_of_one_second_in_mid_sentence_does_not_close_the_turn() -> None:
    script = Script.of((0.5, "i would like to book"), (2.75, "a table for two"))
    talk = converse(script, NEVER, swap(predictor=FixedPredictor(lambda t_s: 0.1 if t_s < 2.75 else 0.9)))
    assert talk.user_rows == ["I would like to book a table for two"]
    (confirmed,) = talk.of("turn_confirmed")
    assert confirmed.t_s > script.words[-1].end_s


def test_a_transcript_just_after_the_confirm_is_answered_at_once() -> None:
    late = COSTS.model_copy(update={"recognizer_base_s": 0.501, "recognizer_per_audio_s": 0.0})
    talk = converse(QUESTION, settings_with(gate={"mode": "never"}, asr={"partial_every_s": 60}), costs=late)
    (confirmed,), (final,), (opened,) = (talk.of(k) for k in ("turn_confirmed", "transcript_updated", "reply_opened"))
    assert final.t_s - confirmed.t_s == pytest.approx(0.001, abs=1e-6)
    assert opened.t_s == final.t_s


def test_the_end_of_speech_in_the_trace_is_the_one_in_the_script() -> None:
    script = Script.of((0.5, "can you tell me"), (7.02, "tell me more"), (14.34, "why"))
    talk = converse(script)
    ends = [1.5, 7.77, 14.59]
    seen = [event.fields["last_voiced_s"] for event in talk.of("turn_confirmed")]
    assert seen == pytest.approx(ends, abs=FRAME_S)
    assert summarise(talk.events)["dead_air_ms"]["p50"] >= 700.0


@pytest.mark.parametrize(
    "script", [QUESTION, IN_TWO_PARTS, Script.of((0.5, "hello"), (6.0, "how are you"), (12.0, "why"))]
)
def test_the_gates_mode_changes_no_word_of_any_reply(script: Script) -> None:
    served = {mode: converse(script, settings_with(gate={"mode": mode})) for mode in GateMode}
    for talk in served.values():
        assert talk.replies == served[GateMode.NEVER].replies
        assert talk.history == served[GateMode.NEVER].history
    assert served[GateMode.NEVER].of("branch_opened") == []
    assert served[GateMode.ALWAYS].of("branch_opened") != []


def test_sampling_serves_the_same_words_whether_or_not_a_branch_was_thrown_away() -> None:
    """A reply's seed is the turn's, so speculation cannot shift it."""
    warm = {"temperature": 1.0}
    prepared = converse(IN_TWO_PARTS, settings_with(engine=warm, gate={"mode": "always"}))
    plain = converse(IN_TWO_PARTS, settings_with(engine=warm, gate={"mode": "never"}))
    assert len(prepared.of("branch_discarded")) == 1
    assert prepared.replies == plain.replies


class LedgerEngine(WordEngine):
    """Compares the cache after each rollback with the cache at the mark."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, list[str]] = {}
        self.checked = 0

    def mark(self) -> int:
        self.marks[super().mark()] = list(self._cache)
        return super().mark()

    def rollback(self, mark: int) -> None:
        grown = len(self._cache) > mark
        super().rollback(mark)
        assert self._cache == self.marks[mark]
        self.checked += grown


def test_a_discard_leaves_the_engine_where_the_branch_began() -> None:
    engine = LedgerEngine()
    converse(IN_TWO_PARTS, change=swap(engine=engine))
    assert engine.checked == 1


def test_following_the_transcript_saves_prefill_and_changes_no_reply() -> None:
    following = converse(QUESTION)
    without = converse(QUESTION, settings_with(engine={"follow": "none"}))
    assert following.replies == without.replies
    first = [talk.of("first_token")[0].t_s for talk in (following, without)]
    assert first[0] < first[1]


# Frame by frame around the first part's end, its confirm at 2.2 and the end of the reply at 3.8 or a little later.
STARTS_S = [round(1.5 + FRAME_S * i, 2) for i in (*range(70), *range(100, 130))]


@pytest.mark.parametrize("mode", [GateMode.AND, GateMode.NEVER])
@pytest.mark.parametrize("start_s", STARTS_S)
def test_no_word_is_lost_whenever_the_user_speaks_again(start_s: float, mode: GateMode) -> None:
    """The second utterance lasts longer than a backchannel may."""
    first, second = "can you tell me", "or show me the time"
    script = Script.of((0.5, first), (start_s, second), tail_s=3.0)
    talk = converse(script, settings_with(gate={"mode": mode}))
    assert " ".join(talk.user_rows).lower() == f"{first} {second}"
    assert talk.of("state_changed")[-1].fields["state"] == "idle"
    assert len(talk.of("branch_opened")) == len(talk.of("branch_discarded")) + len(talk.of("reply_committed"))


@pytest.mark.parametrize("told", ["before", "after"])
def test_speech_at_the_very_instant_the_last_turn_ends_is_a_turn_with_all_its_sound(told: str) -> None:
    async def collide(session: Session, clock: Clock) -> AsyncIterator[None]:
        await clock.sleep_until(5.9)
        post = session._ears._post

        async def and_end(event: Heard) -> None:
            if isinstance(event, SpeechStarted) and told == "before":
                session._ears.end_turn()
            await post(event)
            if isinstance(event, SpeechStarted) and told == "after":
                session._ears.end_turn()

        session._ears._post = and_end
        yield

    talk = converse(Script.of((0.5, "hello"), (6.0, "how are you")), during=collide)
    assert talk.user_rows == ["Hello", "How are you"]
    assert talk.of("turn_closed") == []


def test_the_recognisers_text_reaches_the_model_in_one_form_only() -> None:
    def shouting(text: str, final: bool) -> str:
        return f"{text.upper()}!" if final else text

    plain, shouted = (
        converse(QUESTION),
        converse(QUESTION, change=swap(recognizer=ScriptRecognizer(QUESTION, shouting))),
    )
    assert plain.history == shouted.history


def test_the_defaults_are_what_these_tests_assume() -> None:
    turn = PadsSettings().turn
    assert (turn.confirm_min_s, turn.confirm_max_s, PadsSettings().vad.pause_s) == (0.7, 1.8, 0.2)
