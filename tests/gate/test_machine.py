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
    Hold,
    Ignore,
    Interrupt,
    PlaybackFinished,
    PlaybackStarted,
    Prepare,
    QuitAsked,
    Reopen,
    ReplyCut,
    ReplyFailed,
    ReplyProgressed,
    Resume,
    Revise,
    Say,
    SayAsked,
    StopAsked,
    WordsGiven,
)
from pads_runtime.gate.listening import MAX_TO_SAY
from pads_runtime.gate.machine import WATCHDOG_S, TurnMachine
from pads_runtime.gate.open_turn import FRESH_S
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


def overlapped(*, p_now: float | None = None) -> TurnMachine:
    """The reply sounds, and the user speaks over it from 3.0 on."""
    m = responding()
    assert m.on(SpeechStarted(3.1, 3.0)) == []
    if p_now is not None:
        assert m.on(TurnEndPredicted(3.2, 0.1, 3.2, p_now)) == []
    return m


def test_a_backchannel_over_the_reply_is_ignored_as_soon_as_it_has_been_read() -> None:
    m = overlapped()
    assert m.on(SpeechPaused(3.5, 3.3)) == []
    assert m.on(words(3.6, "Uh-huh.", 3.5)) == [Ignore(1, "a backchannel")]
    assert (m.state, m.deadline_s(), m.overlapped) == (RESPONDING, None, False)


def test_a_cough_over_the_reply_is_ignored_for_want_of_words() -> None:
    m = overlapped()
    m.on(SpeechPaused(3.5, 3.3))
    assert m.on(words(3.6, " ... ", 3.5)) == [Ignore(1, "no words in it")]


def test_words_that_never_come_do_not_keep_the_overlap_open() -> None:
    m = overlapped()
    m.on(SpeechPaused(3.5, 3.3))
    assert m.deadline_s() == 3.5 + 2.0
    assert m.tick(5.5) == [Ignore(1, "no words in it")]


def test_one_short_word_that_is_no_backchannel_interrupts_once_it_has_been_read() -> None:
    m = overlapped()
    m.on(TurnEndPredicted(3.45, 0.9, 3.4))
    m.on(SpeechPaused(3.5, 3.3))
    assert m.on(words(3.6, "stop", 3.5)) == [Interrupt(1, "the user spoke")]
    assert (m.state, m.turn) == (PAUSED, 2)
    assert m.deadline_s() == 3.3 + SURE_S  # what was predicted of its end is known
    assert m.tick(4.0) == [Confirm(2, 3.3), Answer(2, premise("stop"))]


def test_words_over_the_reply_interrupt_it_once_they_have_surely_lasted_long_enough() -> None:
    m = overlapped()
    assert m.on(words(3.4, "tell me", 3.3, final=False)) == []
    assert m.deadline_s() == pytest.approx(3.0 + 0.5 + 0.2)  # a pause would be known by then
    assert m.tick(3.7) == [Interrupt(1, "the user spoke")]
    assert (m.state, m.turn) == (LISTENING, 2)
    assert m.deadline_s() == 3.0 + m.settings.turn.max_turn_s


def test_a_word_that_calls_for_silence_interrupts_as_soon_as_it_is_read() -> None:
    assert overlapped().on(words(3.3, "no wait", 3.2, final=False)) == [Interrupt(1, "the user spoke")]


@pytest.mark.parametrize(("until_s", "stops"), [(3.4, False), (3.6, True)])
def test_what_was_read_in_a_short_sound_proves_nothing(until_s: float, stops: bool) -> None:
    m = overlapped()
    m.on(words(3.3, "Thomas", 3.2, final=False))
    m.on(SpeechPaused(until_s + 0.2, until_s))
    (action,) = m.on(words(until_s + 0.3, "a hoe", until_s + 0.2))
    assert isinstance(action, Interrupt if stops else Ignore)


@pytest.mark.parametrize(("until_s", "goes_on"), [(3.4, True), (3.6, False)])
def test_a_short_sound_that_held_the_reply_because_its_pause_was_told_late_lets_it_go_on(
    until_s: float, goes_on: bool
) -> None:
    m = overlapped()
    assert m.tick(3.7) == [Hold(1, "sound that outlasts a backchannel")]
    assert m.on(SpeechPaused(3.9, until_s)) == []
    actions = m.on(words(4.0, "Home", 3.9))
    assert isinstance(actions[0], Resume if goes_on else Interrupt)


@pytest.mark.parametrize(("p_now", "after_s"), [(None, 0.7), (0.9, 0.5), (0.1, 1.2), (0.5, 0.7)])
def test_sound_whose_words_are_not_known_holds_the_reply_the_sooner_the_more_the_user_takes_the_turn(
    p_now: float | None, after_s: float
) -> None:
    m = overlapped(p_now=p_now)
    assert m.deadline_s() == pytest.approx(3.0 + after_s)
    assert m.tick(3.0 + after_s) == [Hold(1, "sound that outlasts a backchannel")]
    assert m.state is RESPONDING
    assert m.on(words(4.4, "no wait", 4.3, final=False)) == [Interrupt(1, "the user spoke")]
    assert (m.state, m.turn) == (LISTENING, 2)


def test_a_backchannel_that_goes_on_and_on_holds_the_reply_later_and_then_lets_it_go_on() -> None:
    m = overlapped()
    m.on(words(3.4, "yeah yeah", 3.3, final=False))
    assert m.tick(3.7) == []
    assert m.tick(4.2) == [Hold(1, "sound that outlasts a backchannel")]
    m.on(SpeechPaused(4.6, 4.4))
    assert m.on(words(4.7, "yeah yeah yeah right", 4.6)) == [Resume(1, "a backchannel"), Ignore(1, "a backchannel")]
    assert (m.state, m.deadline_s()) == (RESPONDING, None)


def test_noise_lets_the_reply_go_on_after_two_seconds_without_words_and_does_not_stop_it_again() -> None:
    m = overlapped()
    assert m.tick(3.7) == [Hold(1, "sound that outlasts a backchannel")]
    assert m.on(words(4.5, "", 4.4, final=False)) == []
    assert m.tick(5.6) == []
    assert m.tick(5.7) == [Resume(1, "no words came")]
    assert m.deadline_s() is None  # while the same noise lasts
    assert m.on(words(6.5, "please stop", 6.4, final=False)) == [Interrupt(1, "the user spoke")]


def test_noise_that_ended_is_forgotten_and_the_next_sound_is_judged_anew() -> None:
    m = overlapped()
    m.tick(3.7)
    m.tick(5.7)
    m.on(SpeechPaused(8.2, 8.0))
    assert m.on(words(8.3, "", 8.2)) == [Ignore(1, "no words in it")]
    assert m.on(SpeechStarted(9.1, 9.0)) == []
    assert m.tick(9.7) == [Hold(1, "sound that outlasts a backchannel")]


def test_a_pause_without_words_lets_a_held_reply_go_on_at_once() -> None:
    m = overlapped()
    m.tick(3.7)
    m.on(SpeechPaused(4.0, 3.8))
    assert m.on(words(4.1, "", 4.0)) == [Resume(1, "no words came"), Ignore(1, "no words in it")]


def test_a_second_burst_before_the_first_has_been_read_is_the_same_overlap() -> None:
    m = overlapped()
    m.on(SpeechPaused(3.5, 3.3))
    assert m.on(SpeechResumed(3.9, 3.8)) == []
    assert m.deadline_s() == pytest.approx(3.8 + 0.7)
    m.on(SpeechPaused(4.3, 4.1))
    assert m.on(words(4.4, "uh-huh no", 4.3)) == [Interrupt(1, "the user spoke")]
    assert m.deadline_s() == 4.1 + UNSURE_S


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


def test_words_added_once_the_reply_sounds_are_answered_with_the_others_if_none_of_it_was_heard() -> None:
    m = responding()
    assert m.on(words(2.9, "what is it now", 2.9)) == [Revise(1, "more words arrived")]
    assert m.on(ReplyCut(2.9, heard=False)) == [Answer(1, premise("what is it now"))]
    assert (m.state, m.turn) == (RESPONDING, 1)
    assert m.deadline_s() == 2.9 + WATCHDOG_S


def test_words_added_once_the_reply_was_heard_are_the_next_turn() -> None:
    m = responding()
    m.on(words(4.0, "what is it now", 4.0))
    m.history = (Message(Role.USER, "What is it"), Message(Role.AGENT, "It is"))
    assert m.on(ReplyCut(4.0, heard=True)) == [Confirm(2, 4.0), Answer(2, premise("now", m.history))]


@pytest.mark.parametrize("text", ["What is it?", "mhm", ""])
def test_a_late_reading_that_adds_nothing_leaves_the_reply_alone(text: str) -> None:
    m = responding()
    assert m.on(words(2.9, text, 2.3)) == []
    assert m.on(words(2.95, "what is it now", 2.3, final=False)) == []


# ---------------------------------------------------------------- backchannels while the agent is silent


def answered_by(text: str, said: str = "It is late.") -> list[Action]:
    m = machine(gate={"mode": "always"})
    m.history = (Message(Role.USER, "What is it"), Message(Role.AGENT, said)) if said else ()
    feed(m, [SpeechStarted(1.1, 1.0), SpeechPaused(1.7, 1.5), words(1.8, text, 1.7)])
    return m.tick(3.3)


@pytest.mark.parametrize("said", ["It is late.", ""])
def test_a_backchannel_to_a_statement_or_to_nothing_is_not_answered(said: str) -> None:
    assert answered_by("Uh-huh.", said) == [Confirm(1, 1.5), Close(1, "a backchannel")]


def test_the_same_word_is_the_answer_to_a_question() -> None:
    assert isinstance(answered_by("Okay.", "Shall I go on?")[-1], Commit)


@pytest.mark.parametrize("text", ["yes", "huh", "okay stop", "why"])
def test_what_asks_or_answers_is_no_backchannel(text: str) -> None:
    assert isinstance(answered_by(text)[-1], Commit)


# ---------------------------------------------------------------- what someone asks for


def test_a_text_is_spoken_when_nobody_speaks() -> None:
    m = machine()
    m.on(SpeechStarted(1.1, 1.0))
    assert m.on(SayAsked(1.2, "Tea is ready.")) == []
    assert not m.quiet
    feed(m, [SpeechPaused(2.2, 2.0), words(2.3, "", 2.2)])
    assert m.tick(3.8) == [Confirm(1, 2.0), Close(1, "no words in it")]
    assert m.deadline_s() == 3.8
    assert m.tick(3.8) == [Say(2, "Tea is ready.")]
    m.on(PlaybackStarted(3.9))
    assert m.on(PlaybackFinished(4.9)) == []
    assert (m.state, m.quiet) == (IDLE, True)


def test_a_text_of_which_nothing_was_heard_waits_for_the_user_who_spoke_first() -> None:
    m = machine()
    m.on(SayAsked(1.0, "Tea is ready."))
    assert m.tick(1.0) == [Say(1, "Tea is ready.")]
    assert m.on(SpeechStarted(1.1, 1.05)) == [Interrupt(1, "the user spoke first")]
    assert (m.state, m.turn, list(m.to_say)) == (LISTENING, 2, ["Tea is ready."])


def test_texts_that_wait_are_bounded_and_the_oldest_goes() -> None:
    m = machine()
    m.on(SpeechStarted(1.1, 1.0))
    feed(m, [SayAsked(1.2, str(i)) for i in range(MAX_TO_SAY + 2)])
    assert list(m.to_say) == [str(i) for i in range(2, MAX_TO_SAY + 2)]


def test_stop_cuts_what_is_heard_and_forgets_what_waits() -> None:
    m = responding()
    m.on(SayAsked(2.9, "Tea is ready."))
    assert m.on(StopAsked(3.0)) == [Interrupt(1, "stop was asked for")]
    assert (m.state, m.quiet) == (IDLE, True)
    assert m.on(StopAsked(3.1)) == []


def test_stop_before_anything_is_heard_leaves_the_turn_without_an_answer() -> None:
    m = responding(playing=False)
    reason = "stop was asked for"
    assert m.on(StopAsked(2.75)) == [Interrupt(1, reason), Close(1, reason, "What is it")]


def test_to_quit_closes_whatever_is_open() -> None:
    why = "the talk was ended"
    m = machine()
    feed(m, utterance())
    assert m.on(QuitAsked(2.5)) == [Discard(1, why), Close(1, why, "What is it")]
    assert m.state is IDLE
    assert responding().on(QuitAsked(3.0)) == [Interrupt(1, why)]
    assert machine().on(QuitAsked(1.0)) == []


# ---------------------------------------------------------------- a recogniser outside


def outside(**settings: object) -> TurnMachine:
    return machine(asr={"kind": "external"}, gate={"mode": "never"}, **settings)


def test_an_early_final_counts_for_the_pause_it_came_before_and_not_for_a_later_one() -> None:
    m = outside()
    feed(m, [SpeechStarted(1.1, 1.0), WordsGiven(2.1, "what is", True), SpeechPaused(2.2, 2.0)])
    assert m.on(SpeechResumed(2.6, 2.5)) == []
    feed(m, [SpeechPaused(3.2, 3.0)])
    assert m.tick(4.8) == [Confirm(1, 3.0)]
    assert m.on(WordsGiven(4.801, "what is it", True)) == [Answer(1, premise("what is it"))]


def test_a_final_where_no_speech_was_heard_is_a_turn_of_its_own_and_a_partial_is_not() -> None:
    m = outside()
    assert m.on(WordsGiven(1.0, "what is it", False)) == []
    assert m.on(WordsGiven(1.5, "what is it", True)) == [Confirm(1, 1.5), Answer(1, premise("what is it"))]
    assert m.on(WordsGiven(1.58, "What is it?", True)) == []  # the same message twice
    m.on(PlaybackStarted(1.7))
    m.on(PlaybackFinished(3.0))
    assert m.on(WordsGiven(3.5, "what is it", True)) == []
    assert m.on(WordsGiven(9.0, "what is it", True)) == [Confirm(2, 9.0), Answer(2, premise("what is it"))]


def test_words_answered_once_are_not_answered_again_by_a_recogniser_that_repeats_them() -> None:
    m = outside()
    m.on(WordsGiven(1.5, "what is it", True))
    m.on(PlaybackStarted(1.7))
    m.on(WordsGiven(3.0, "what is it and why", True))
    assert m.on(ReplyCut(3.0, heard=True)) == [Confirm(2, 3.0), Answer(2, premise("and why"))]
    assert m.on(WordsGiven(3.1, "what is it and why not", True))[-1] == Answer(2, premise("and why not"))


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
