"""The turn machine, driven with plain numbers: every transition of its drawing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pads_runtime.config import PadsSettings, validate
from pads_runtime.frames import (
    ActClassified,
    Message,
    Role,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from pads_runtime.gate.events import (
    Action,
    Answer,
    Close,
    Commit,
    Confirm,
    Discard,
    Event,
    Ignore,
    Interrupt,
    PlaybackFinished,
    PlaybackStarted,
    Prepare,
    Reopen,
    ReplyFailed,
    ReplyProgressed,
)
from pads_runtime.gate.machine import FRESH_S, WATCHDOG_S, TurnMachine
from pads_runtime.gate.premise import Premise

IDLE, LISTENING, PAUSED, RESPONDING = TurnState.IDLE, TurnState.LISTENING, TurnState.PAUSED, TurnState.RESPONDING
SURE_S, UNSURE_S = 0.7, 1.8


def machine(**settings: object) -> TurnMachine:
    tree = {"barge_in": {"min_speech_s": 0.5}, "vad": {"pause_s": 0.2}, **settings}
    return TurnMachine(
        validate(PadsSettings, tree), "s", lambda p_end: SURE_S if p_end is not None and p_end >= 0.5 else UNSURE_S
    )


def feed(m: TurnMachine, events: Sequence[Event]) -> list[Action]:
    return [action for event in events for action in m.on(event)]


def words(t_s: float, text: str, audio_end_s: float, final: bool = True) -> TranscriptUpdated:
    return TranscriptUpdated(t_s, text, "", final, audio_end_s)


def premise(text: str, history: tuple[Message, ...] = ()) -> Premise:
    return Premise.spoken(text, history, "s")


def utterance(text: str = "what is it", p_end: float = 0.9, p_deep: float = 0.9) -> list[Event]:
    """Speech from 1.0 to 2.0, its pause declared at 2.2, all evidence in by 2.4."""
    return [
        SpeechStarted(1.1, 1.0),
        SpeechPaused(2.2, 2.0),
        TurnEndPredicted(2.25, p_end, 2.2),
        words(2.3, text, 2.2),
        ActClassified(2.4, p_deep, text),
    ]


def responding(playing: bool = True, text: str = "what is it") -> TurnMachine:
    m = machine()
    feed(m, utterance(text))
    assert m.tick(2.7) == [Confirm(1, 2.0), Commit(1)]
    if playing:
        assert m.on(PlaybackStarted(2.8)) == []
    return m


# ---------------------------------------------------------------- the plain way round


def test_speech_pause_words_and_silence_bring_an_answer_and_back_to_idle() -> None:
    m = machine(gate={"mode": "never"})
    assert (m.state, m.deadline_s()) == (IDLE, None)
    assert feed(m, utterance()[:1]) == []
    assert m.state is LISTENING
    assert feed(m, utterance()[1:]) == []
    assert m.state is PAUSED
    assert m.deadline_s() == 2.0 + SURE_S
    assert m.tick(2.69) == []
    assert m.tick(2.7) == [Confirm(1, 2.0), Answer(1, premise("what is it"))]
    assert m.state is RESPONDING
    assert m.on(PlaybackStarted(2.9)) == []
    assert m.deadline_s() is None
    assert m.on(PlaybackFinished(4.0)) == []
    assert (m.state, m.deadline_s()) == (IDLE, None)


def test_a_branch_is_opened_when_both_signals_pass_and_committed_at_the_confirm() -> None:
    m = machine()
    assert feed(m, utterance()) == [Prepare(1, premise("what is it"))]
    assert m.tick(2.7) == [Confirm(1, 2.0), Commit(1)]
    assert m.branch is None


def test_the_order_in_which_evidence_arrives_does_not_matter() -> None:
    start, pause, *evidence = utterance()
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        m = machine()
        feed(m, [start, pause])
        assert feed(m, [evidence[i] for i in order]) == [Prepare(1, premise("what is it"))]


def test_only_one_branch_is_open_however_often_the_signals_pass() -> None:
    m = machine()
    feed(m, utterance())
    again = [TurnEndPredicted(2.5, 0.95, 2.5), ActClassified(2.5, 0.95, "what is it"), words(2.6, "What is it?", 2.2)]
    assert feed(m, again) == []


def test_an_act_read_from_other_words_opens_no_branch() -> None:
    m = machine()
    assert feed(m, [*utterance()[:4], ActClassified(2.4, 0.9, "what is")]) == []
    assert m.on(ActClassified(2.45, 0.9, "What is it?")) == [Prepare(1, premise("what is it"))]


def test_a_prediction_made_in_the_silence_counts_though_the_pause_was_declared_later() -> None:
    m = machine()
    assert (
        feed(m, [SpeechStarted(1.1, 1.0), words(2.0, "what is it", 2.0), ActClassified(2.0, 0.9, "what is it")]) == []
    )
    assert m.on(TurnEndPredicted(2.17, 0.9, 2.1)) == []
    assert m.on(SpeechPaused(2.2, 2.0)) == [Prepare(1, premise("what is it"))]
    assert m.deadline_s() == 2.0 + SURE_S


@pytest.mark.parametrize(("age_s", "opens"), [(FRESH_S, True), (FRESH_S + 0.02, False)])
def test_a_prediction_from_speech_may_open_a_branch_while_fresh_and_never_shortens_the_wait(
    age_s: float, opens: bool
) -> None:
    m = machine()
    feed(m, [SpeechStarted(1.1, 1.0), words(2.0, "what is it", 2.0), ActClassified(2.0, 0.9, "what is it")])
    assert m.on(TurnEndPredicted(2.0, 0.9, 2.2 - age_s)) == []
    assert m.on(SpeechPaused(2.2, 2.0)) == ([Prepare(1, premise("what is it"))] if opens else [])
    assert m.deadline_s() == 2.0 + UNSURE_S
    assert m.on(TurnEndPredicted(2.25, 0.1, 1.85)) == []  # older audio changes nothing


def test_what_was_predicted_before_the_user_went_on_is_forgotten() -> None:
    m = machine()
    feed(m, [SpeechStarted(1.1, 1.0), SpeechPaused(2.2, 2.0), TurnEndPredicted(2.3, 0.9, 2.2)])
    feed(m, [SpeechResumed(2.4, 2.35), words(2.45, "what is it", 2.44), ActClassified(2.45, 0.9, "what is it")])
    assert feed(m, [SpeechPaused(2.64, 2.44)]) == []
    assert m.deadline_s() == 2.44 + UNSURE_S


def test_a_prediction_from_before_the_pause_does_not_confirm_it() -> None:
    m = machine()
    feed(m, [SpeechStarted(1.1, 1.0), SpeechPaused(2.2, 2.0)])
    assert m.on(TurnEndPredicted(2.21, 0.9, 1.98)) == []
    assert m.deadline_s() == 2.0 + UNSURE_S
    m.on(TurnEndPredicted(2.3, 0.9, 2.2))
    assert m.deadline_s() == 2.0 + SURE_S


def test_a_partial_transcript_opens_no_branch() -> None:
    m = machine(gate={"mode": "always"})
    feed(m, [SpeechStarted(1.1, 1.0), SpeechPaused(2.2, 2.0)])
    assert m.on(words(2.3, "what is", 1.8, final=False)) == []
    assert m.on(words(2.3, "what is", 1.8, final=True)) == []  # final, but of an earlier pause
    assert m.on(words(2.4, "what is it", 2.2)) == [Prepare(1, premise("what is it"))]


# ---------------------------------------------------------------- the premise fails


def test_the_user_going_on_discards_the_branch() -> None:
    m = machine()
    feed(m, utterance())
    assert m.on(SpeechResumed(2.6, 2.5)) == [Discard(1, "the user went on")]
    assert (m.state, m.turn, m.branch) == (LISTENING, 1, None)


def test_one_changed_word_discards_the_branch_and_opens_another() -> None:
    m = machine(gate={"mode": "always"})
    feed(m, utterance("book it"))
    assert m.on(words(2.5, "Book it.", 2.2)) == []
    changed = m.on(words(2.6, "book him", 2.2))
    assert changed == [Discard(1, "the transcript changed"), Prepare(1, premise("book him"))]


def test_a_history_that_changed_meanwhile_discards_the_branch_at_the_confirm() -> None:
    m = machine()
    feed(m, utterance())
    m.history = (Message(Role.USER, "Something else"),)
    discarded = Discard(1, "the premise changed")
    assert m.tick(2.7) == [Confirm(1, 2.0), discarded, Answer(1, premise("what is it", m.history))]


def test_a_branch_that_failed_is_answered_the_plain_way() -> None:
    m = machine()
    feed(m, utterance())
    assert m.on(ReplyFailed(2.5)) == []
    assert m.state is PAUSED
    assert m.tick(2.7) == [Confirm(1, 2.0), Answer(1, premise("what is it"))]


# ---------------------------------------------------------------- waiting for words


def test_words_that_land_just_after_the_confirm_are_answered_at_once() -> None:
    m = machine(gate={"mode": "never"})
    feed(m, utterance()[:3])
    assert m.tick(2.7) == [Confirm(1, 2.0)]
    assert m.deadline_s() == 2.7 + m.settings.turn.transcript_wait_s
    assert m.on(words(2.701, "what is it", 2.2)) == [Answer(1, premise("what is it"))]


def test_a_partial_after_the_confirm_does_not_answer_half_a_sentence() -> None:
    m = machine(gate={"mode": "always"})
    feed(m, utterance()[:3])
    m.tick(2.7)
    assert m.on(words(2.71, "what is", 1.9, final=False)) == []
    assert m.on(words(2.72, "what is it", 2.2)) == [Answer(1, premise("what is it"))]


def test_a_turn_whose_words_never_come_is_closed() -> None:
    m = machine()
    feed(m, utterance()[:2])
    assert m.tick(3.8) == [Confirm(1, 2.0)]
    assert m.tick(6.79) == []
    assert m.tick(6.8) == [Close(1, "its words never came")]
    assert m.state is IDLE


def test_a_turn_whose_last_reading_never_comes_is_answered_by_what_was_read() -> None:
    m = machine()
    feed(m, [SpeechStarted(1.1, 1.0), words(1.9, "what is", 1.8, final=False), SpeechPaused(2.2, 2.0)])
    assert m.tick(3.8) == [Confirm(1, 2.0)]
    assert m.tick(6.8) == [Answer(1, premise("what is"))]


def test_a_turn_without_words_is_closed_at_its_confirm() -> None:
    m = machine(gate={"mode": "always"})
    feed(m, [*utterance()[:3], words(2.3, " ... ", 2.2)])
    assert m.tick(2.7) == [Confirm(1, 2.0), Close(1, "no words in it")]
    assert m.state is IDLE


def test_speech_while_the_words_are_awaited_goes_on_with_the_same_turn() -> None:
    m = machine()
    feed(m, utterance()[:2])
    m.tick(3.8)
    assert m.on(SpeechStarted(4.0, 3.9)) == []
    assert (m.state, m.turn) == (LISTENING, 1)
    assert m.on(words(4.1, "what", 2.2)) == []


# ---------------------------------------------------------------- while the reply is under way


def test_speech_before_anything_was_heard_reopens_the_turn() -> None:
    m = responding(playing=False)
    assert m.on(SpeechStarted(2.75, 2.72)) == [Reopen(1)]
    assert (m.state, m.turn) == (LISTENING, 1)
    feed(m, [SpeechPaused(3.7, 3.5), words(3.8, "what is it now", 3.7), TurnEndPredicted(3.8, 0.9, 3.7)])
    assert m.tick(4.2) == [Confirm(1, 3.5), Answer(1, premise("what is it now"))]


def test_short_speech_over_the_reply_is_ignored() -> None:
    m = responding()
    assert m.on(SpeechStarted(3.1, 3.0)) == []
    assert m.deadline_s() == pytest.approx(3.0 + 0.5 + 0.2)
    assert m.on(SpeechPaused(3.5, 3.3)) == [Ignore(1, "a backchannel")]
    assert (m.state, m.deadline_s()) == (RESPONDING, None)


def test_long_speech_over_the_reply_interrupts_it_and_begins_the_next_turn() -> None:
    m = responding()
    m.on(SpeechStarted(3.1, 3.0))
    assert m.tick(3.7) == [Interrupt(1, "the user spoke")]
    assert (m.state, m.turn) == (LISTENING, 2)
    assert m.deadline_s() == 3.0 + m.settings.turn.max_turn_s


def test_speech_that_outlasts_the_reply_is_the_next_turn() -> None:
    m = responding()
    m.on(SpeechStarted(3.1, 3.0))
    assert m.on(PlaybackFinished(3.2)) == []
    assert (m.state, m.turn) == (LISTENING, 2)


def test_words_added_before_anything_was_heard_are_answered_together() -> None:
    m = responding(playing=False, text="book it")
    assert m.on(words(2.71, "Book it.", 2.3)) == []
    more = m.on(words(2.78, "book it for two", 2.3))
    assert more == [Interrupt(1, "more words arrived"), Answer(1, premise("book it for two"))]


def test_words_added_once_the_reply_is_heard_do_not_cut_it() -> None:
    m = responding()
    assert m.on(words(2.9, "what is it now", 2.3)) == []


def test_a_served_reply_that_fails_unheard_closes_the_turn_and_keeps_the_users_words() -> None:
    m = responding(playing=False)
    assert m.on(ReplyFailed(2.75)) == [Close(1, "its reply failed", "What is it")]
    assert m.state is IDLE


def test_a_served_reply_that_fails_midway_ends_the_turn() -> None:
    m = responding()
    assert m.on(ReplyFailed(2.9)) == []
    assert m.state is IDLE


def test_a_reply_that_makes_no_progress_is_given_up_but_one_that_does_is_not() -> None:
    m = responding(playing=False)
    assert m.deadline_s() == 2.7 + WATCHDOG_S
    m.on(ReplyProgressed(5.0))
    assert m.tick(2.7 + WATCHDOG_S) == []
    given_up = m.tick(5.0 + WATCHDOG_S)
    assert given_up == [Interrupt(1, "the reply made no progress"), Close(1, "no progress", "What is it")]
    assert m.state is IDLE


# ---------------------------------------------------------------- turns that do not end by themselves


def test_a_turn_that_never_pauses_is_closed_by_force_and_answered_once_it_is_read() -> None:
    m = machine(turn={"max_turn_s": 10.0})
    m.on(SpeechStarted(1.1, 1.0))
    assert m.deadline_s() == 11.0
    assert m.tick(11.0) == [Confirm(1, 11.0)]
    # Sound that reached the recogniser up to a moment before is all that is waited for.
    assert m.on(words(11.3, "on and on", 10.98)) == [Answer(1, premise("on and on"))]


def test_sound_that_goes_on_after_the_forced_end_opens_nothing_again() -> None:
    m = machine(turn={"max_turn_s": 10.0})
    m.on(SpeechStarted(1.1, 1.0))
    m.tick(11.0)
    assert m.on(SpeechStarted(11.02, 10.9)) == []
    assert m.state is PAUSED
    assert m.on(words(11.3, "on and on", 11.0)) == [Answer(1, premise("on and on"))]
    assert m.on(SpeechStarted(11.4, 11.3)) == []
    assert m.state is RESPONDING


def test_noise_without_words_is_closed_by_force() -> None:
    m = machine(turn={"max_turn_s": 10.0})
    m.on(SpeechStarted(1.1, 1.0))
    m.tick(11.0)
    assert m.on(words(11.3, "", 11.0)) == [Close(1, "no words in it")]
    assert m.state is IDLE


def test_confirm_resume_confirm_answers_once_and_returns_to_idle() -> None:
    m = machine(gate={"mode": "always"})
    feed(m, utterance("i think"))
    assert m.tick(2.7) == [Confirm(1, 2.0), Commit(1)]
    assert m.on(SpeechStarted(2.75, 2.73)) == [Reopen(1)]
    resumed = [SpeechPaused(3.5, 3.3), TurnEndPredicted(3.5, 0.9, 3.5), words(3.6, "i think so", 3.5)]
    assert feed(m, resumed) == [Prepare(1, premise("i think so"))]
    assert m.tick(4.0) == [Confirm(1, 3.3), Commit(1)]
    assert m.tick(4.0 + WATCHDOG_S)[-1] == Close(1, "no progress", "I think so")
    assert m.state is IDLE


def test_the_next_turn_knows_nothing_of_the_last_one() -> None:
    m = responding()
    m.on(PlaybackFinished(4.0))
    m.on(SpeechStarted(5.1, 5.0))
    m.on(SpeechPaused(6.2, 6.0))
    assert m.turn == 2
    assert m.deadline_s() == 6.0 + UNSURE_S
    assert m.tick(7.8) == [Confirm(2, 6.0)]
    assert m.tick(10.8) == [Close(2, "its words never came")]
