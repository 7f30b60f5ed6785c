"""Speech over the reply: it stops at once, and the history holds what was heard, no more and no less."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from pads_runtime.clock import Clock
from pads_runtime.config import PadsSettings
from pads_runtime.crew import Stages
from pads_runtime.frames import (
    AudioFrame,
    PhraseSynthesized,
    ReplyStep,
    Role,
    Samples,
    SpokenWord,
    TurnEndPredicted,
    Word,
)
from pads_runtime.mouth import seed_for
from pads_runtime.session import Session
from pads_runtime.testing import (
    COSTS,
    Conversation,
    FixedPredictor,
    Script,
    ScriptRecognizer,
    ScriptSource,
    ToneVoice,
    WordEngine,
    converse,
    settings_with,
    swap,
)

WORD_SAMPLES = ToneVoice.sample_rate // 5
REPLY_WORDS = 20
"""4 s of speech, from 2.2 to 6.2."""
ASKED = (0.5, "can you tell me")


def barge_in(at_s: float, text: str = "no wait stop that", reply_words: int = REPLY_WORDS) -> Conversation:
    return converse(Script.of(ASKED, (at_s, text)), change=swap(engine=WordEngine(reply_words)))


def played_words(talk: Conversation, before_s: float) -> int:
    return sum(len(samples) for start_s, samples in talk.sink.played if start_s < before_s) // WORD_SAMPLES


@pytest.mark.parametrize("at_s", [2.22, 2.5, 2.98, 3.1, 3.3, 4.1, 5.0])
def test_after_a_barge_in_the_history_is_what_was_played(at_s: float) -> None:
    whole = converse(Script.of(ASKED), change=swap(engine=WordEngine(REPLY_WORDS))).agent_rows[0].split()
    talk = barge_in(at_s)
    (interrupted,) = talk.of("reply_interrupted")
    assert interrupted.t_s <= at_s + 0.5  # as soon as "no" has been read
    assert talk.of("reply_held") == []
    heard = talk.agent_rows[0].split()
    assert heard == whole[: played_words(talk, interrupted.t_s)]
    assert 0 < len(heard) < len(whole)
    assert talk.user_rows == ["Can you tell me", "No wait stop that"]
    assert [row.role for row in talk.history] == [Role.USER, Role.AGENT, Role.USER, Role.AGENT]


def test_words_that_call_for_nothing_stop_the_reply_once_they_have_lasted() -> None:
    talk = barge_in(3.3, "tell me something else")
    assert talk.of("reply_interrupted")[0].t_s == pytest.approx(3.3 + 0.5 + 0.2)
    assert talk.user_rows == ["Can you tell me", "Tell me something else"]


def test_what_was_heard_is_in_the_history_even_if_the_rest_was_not_generated_yet() -> None:
    slow = COSTS.model_copy(update={"decode_step_s": 0.3})
    script = Script.of(ASKED, (5.0, "no wait stop that"))
    talk = converse(script, change=swap(engine=WordEngine(REPLY_WORDS)), costs=slow)
    (interrupted,) = talk.of("reply_interrupted")
    assert talk.of("reply_generated")[0].fields != {} and talk.of("reply_generated")[0].t_s > interrupted.t_s
    assert len(talk.agent_rows[0].split()) == played_words(talk, interrupted.t_s) > 0


class OneLongWord(ToneVoice):
    """Every phrase is a sound of 3 s whose only word ends with it."""

    def synthesize(self, text: str) -> PhraseSynthesized:
        samples = np.full(3 * self.sample_rate, 500, np.int16)
        return PhraseSynthesized(text, samples, self.sample_rate, (SpokenWord(text, len(samples)),))


def test_a_reply_of_which_no_word_was_heard_leaves_no_empty_row_and_no_lost_user_words() -> None:
    talk = converse(Script.of(ASKED, (2.5, "no wait stop that")), change=swap(synthesizer=OneLongWord()))
    assert talk.user_rows == ["Can you tell me", "No wait stop that"]
    assert all(row.text for row in talk.history)
    assert len(talk.agent_rows) == 1


def test_an_interrupt_before_the_first_frame_is_one_turn_with_all_words() -> None:
    talk = converse(
        Script.of(ASKED, (2.22, "the time please")), settings_with(gate={"mode": "never"}), swap(engine=WordEngine(8))
    )
    assert talk.user_rows == ["Can you tell me the time please"]
    assert len(talk.agent_rows) == len(talk.replies) == 1
    assert all(row.text for row in talk.history)


def test_a_backchannel_neither_stops_the_reply_nor_is_answered() -> None:
    whole = converse(Script.of(ASKED), change=swap(engine=WordEngine(REPLY_WORDS)))
    talk = barge_in(3.0, "mhmm")
    assert talk.history == whole.history
    assert [event.fields["reason"] for event in talk.of("speech_ignored")] == ["a backchannel"]


class SteppedEngine(WordEngine):
    """Notes when each step began."""

    def __init__(self, reply_words: int = 30) -> None:
        super().__init__(reply_words)
        self.clock: Clock | None = None
        self.began_s: list[float] = []

    def step(self) -> ReplyStep:
        assert self.clock is not None
        self.began_s.append(self.clock.now())
        return super().step()


@pytest.mark.parametrize(("at_s", "end"), [(1.9, "branch_discarded"), (3.5, "reply_interrupted")])
def test_no_token_is_begun_after_a_cancel(at_s: float, end: str) -> None:
    engine = SteppedEngine()

    async def lend_clock(session: Session, clock: Clock) -> AsyncIterator[None]:
        engine.clock = clock
        yield

    slow = COSTS.model_copy(update={"decode_step_s": 0.17})
    script = Script.of(ASKED, (at_s, "no wait stop that"), tail_s=8.0)
    talk = converse(script, settings_with(gate={"mode": "always"}), swap(engine=engine), lend_clock, costs=slow)
    ended_s = talk.of(end)[0].t_s
    next_s = min(event.t_s for event in talk.of("branch_opened") if event.t_s > ended_s)
    before = [t for t in engine.began_s if t <= ended_s]
    assert 0 < len(before) < 30  # it was cancelled in the middle
    assert [t for t in engine.began_s if ended_s < t < next_s] == []


class BlockingEngine(WordEngine):
    """A real wait in each step; the abort flag ends it, as it does in native code."""

    def __init__(self) -> None:
        super().__init__(12)
        self.abort_came = threading.Event()
        self.aborts = 0

    def step(self) -> ReplyStep:
        self.abort_came.wait(0.02)
        return super().step()

    def abort(self) -> None:
        self.aborts += 1
        super().abort()
        self.abort_came.set()

    def rollback(self, mark: int) -> None:
        self.abort_came.clear()
        super().rollback(mark)


def test_under_wall_time_an_interrupt_aborts_the_engine_and_the_next_turn_is_answered() -> None:
    engine = BlockingEngine()
    quick = settings_with(
        turn={"confirm_min_s": 0.3},
        barge_in={"min_speech_s": 0.1},
        gate={"mode": "never"},
    )
    script = Script.of((0.1, "tell me"), (1.6, "no wait stop"), word_s=0.2, tail_s=0.3)
    talk = converse(script, quick, swap(engine=engine), virtual=False)
    assert len(talk.of("reply_interrupted")) + len(talk.of("reply_withdrawn")) == 1
    assert engine.aborts >= 1
    assert engine.steps_after_abort <= 1
    assert " ".join(talk.user_rows) == "Tell me No wait stop" or talk.user_rows == ["Tell me no wait stop"]
    assert len(talk.of("playback_finished")) == 1


def test_after_an_interrupt_the_cache_is_consistent_and_the_next_reply_the_same_as_from_an_empty_one() -> None:
    talk = barge_in(4.1)
    fresh = WordEngine(REPLY_WORDS)
    asked = talk.session._history.prompt(talk.history[:-2], talk.history[-2].text)
    fresh.open(asked, seed_for(talk.session._settings.engine.seed, 2))
    text = ""
    done = False
    while not done:
        step = fresh.step()
        text, done = text + step.text, step.done
    assert talk.agent_rows[-1] == text.strip()
    assert talk.engine._cache[: len(fresh._cache)] == fresh._cache


def test_nothing_is_played_after_the_interrupt() -> None:
    talk = barge_in(3.1)
    (interrupted,) = talk.of("reply_interrupted")
    resumed_s = talk.of("playback_started")[1].t_s - 1e-6
    for start_s, samples in talk.sink.played:
        end_s = start_s + len(samples) / talk.sink.sample_rate
        assert end_s <= interrupted.t_s + 1e-6 or start_s >= resumed_s


# ---------------------------------------------------------------- a false interruption


BUZZ = Script((Word("(buzz)", 3.0, 7.5),), 12.0)
"""Sound without words over the reply, for 4.5 s."""


def buzzed(script: Script, *, settings: PadsSettings | None = None, words: Script | None = None) -> Conversation:
    """``script`` is what sounds, ``words`` what can be read in it (default: the question and nothing more)."""
    loud = Script((*Script.of(ASKED).words, *script.words), script.end_s)
    readable = words or Script.of(ASKED)
    return converse(loud, settings, swap(engine=WordEngine(REPLY_WORDS), recognizer=ScriptRecognizer(readable)))


def test_noise_over_the_reply_holds_it_and_after_two_seconds_without_words_it_goes_on_where_it_stopped() -> None:
    whole = converse(Script.of(ASKED), change=swap(engine=WordEngine(REPLY_WORDS)))
    talk = buzzed(BUZZ)
    (held,), (resumed,) = talk.of("reply_held"), talk.of("reply_resumed")
    assert held.t_s == pytest.approx(3.0 + 0.5 + 0.2)
    assert resumed.t_s == pytest.approx(held.t_s + 2.0)
    heard = held.fields["heard"].split()
    assert 0 < len(heard) < REPLY_WORDS
    assert resumed.fields["rest"].split() == whole.agent_rows[0].split()[len(heard) :]
    assert talk.history == whole.history  # all of it was played in the end, some of a word twice
    assert talk.of("reply_interrupted") == []
    assert [event.fields["reason"] for event in talk.of("speech_ignored")] == ["no words in it"]


def test_a_held_reply_gives_the_same_trace_every_time() -> None:
    first, *others = (buzzed(BUZZ).events for _ in range(3))
    assert all(events == first for events in others)


class Comparing(FixedPredictor):
    """Is asked all the time, as a predictor that compares the speakers is, and always says the same of them."""

    def __init__(self, p_now: float) -> None:
        super().__init__(0.9)
        self._p_now = p_now

    def wants(self, silence_s: float | None) -> bool:
        return super().wants(silence_s) or silence_s is None

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        return replace(super().update(user, agent, audio_end_s, silence_s), p_now=self._p_now)


@pytest.mark.parametrize(("p_now", "held_after_s"), [(0.95, 0.5), (0.5, 0.7), (0.05, 1.2)])
def test_the_sooner_the_predictor_gives_the_turn_to_the_user_the_sooner_the_reply_is_held(
    p_now: float, held_after_s: float
) -> None:
    loud = Script((*Script.of(ASKED).words, *BUZZ.words), 12.0)
    recognizer = ScriptRecognizer(Script.of(ASKED))
    parts = swap(engine=WordEngine(REPLY_WORDS), recognizer=recognizer, predictor=Comparing(p_now))
    talk = converse(loud, change=parts)
    assert talk.of("reply_held")[0].t_s == pytest.approx(3.0 + held_after_s)
    assert talk.of("turn_end_predicted")[-1].fields["p_now"] == p_now


def test_between_hold_and_resume_nothing_is_played_and_nothing_of_the_reply_is_left_out() -> None:
    talk = buzzed(BUZZ)
    (held,), (resumed,), (started,) = (talk.of(k) for k in ("reply_held", "reply_resumed", "playback_started"))
    rate = talk.sink.sample_rate
    spans = [(start_s, start_s + len(samples) / rate) for start_s, samples in talk.sink.played]
    assert all(end_s <= held.t_s + 1e-6 or start_s >= resumed.t_s - 1e-6 for start_s, end_s in spans)
    first_s = held.t_s - started.t_s
    again_s = first_s - len(held.fields["heard"].split()) * 0.2  # the word that was cut
    assert sum(end_s - start_s for start_s, end_s in spans) == pytest.approx(REPLY_WORDS * 0.2 + again_s)
    assert 0.0 < again_s < 0.2


def test_words_that_come_while_the_reply_is_held_make_the_interruption_real() -> None:
    slow = COSTS.model_copy(update={"recognizer_base_s": 0.8})
    script = Script.of(ASKED, (3.5, "no wait stop that please"))
    talk = converse(script, change=swap(engine=WordEngine(REPLY_WORDS)), costs=slow)
    (held,), (interrupted,) = talk.of("reply_held"), talk.of("reply_interrupted")
    assert held.t_s < interrupted.t_s < held.t_s + 2.0
    assert interrupted.fields["heard"] == held.fields["heard"] == talk.agent_rows[0]
    assert played_words(talk, interrupted.t_s) == len(talk.agent_rows[0].split())
    assert talk.user_rows == ["Can you tell me", "No wait stop that please"]
    assert talk.of("reply_resumed") == []


def test_a_reply_interrupted_after_it_went_on_leaves_in_the_history_what_was_played_in_total() -> None:
    whole = converse(Script.of(ASKED), change=swap(engine=WordEngine(REPLY_WORDS))).agent_rows[0].split()
    noise, stop = Word("(buzz)", 3.0, 4.2), Script.of((5.6, "no wait stop that"))
    loud = Script((*Script.of(ASKED).words, noise, *stop.words), 14.0)
    words = Script.of(ASKED, (5.6, "no wait stop that"))
    talk = converse(loud, change=swap(engine=WordEngine(REPLY_WORDS), recognizer=ScriptRecognizer(words)))
    (held,), (resumed,), (cut,) = (talk.of(k) for k in ("reply_held", "reply_resumed", "reply_interrupted"))
    assert held.t_s < resumed.t_s < cut.t_s
    after = int((cut.t_s - resumed.t_s) / 0.2 + 1e-6)
    assert talk.agent_rows[0].split() == whole[: len(held.fields["heard"].split()) + after]
    assert talk.user_rows == ["Can you tell me", "No wait stop that"]


def test_a_reply_still_being_generated_while_it_is_held_is_said_to_its_end() -> None:
    slow = COSTS.model_copy(update={"decode_step_s": 0.25})
    loud = Script((*Script.of(ASKED).words, Word("(buzz)", 4.0, 5.5)), 20.0)
    parts = swap(engine=WordEngine(REPLY_WORDS), recognizer=ScriptRecognizer(Script.of(ASKED)))
    talk = converse(loud, change=parts, costs=slow)
    whole = converse(Script.of(ASKED, tail_s=20.0), change=swap(engine=WordEngine(REPLY_WORDS)), costs=slow)
    assert len(talk.of("reply_held")) == len(talk.of("reply_resumed")) == 1
    assert talk.of("reply_generated")[0].t_s > talk.of("reply_held")[0].t_s
    assert talk.history == whole.history


@pytest.mark.parametrize("text", ["uh-huh", "mhmm yeah", "right okay"])
@pytest.mark.parametrize("at_s", [2.3, 3.0, 4.4])
def test_backchannels_over_the_reply_change_nothing(text: str, at_s: float) -> None:
    whole = converse(Script.of(ASKED), change=swap(engine=WordEngine(REPLY_WORDS)))
    talk = barge_in(at_s, text)
    assert talk.history == whole.history
    assert talk.of("reply_held") == talk.of("reply_interrupted") == []
    assert talk.sink.played[0][0] == whole.sink.played[0][0]
    assert len(talk.sink.played[0][1]) == len(whole.sink.played[0][1])  # never cut


class LateSource(ScriptSource):
    """Frames that come 0.25 s after their time, as on a machine that has too much to do."""

    def __init__(self, script: Script, clock: Clock) -> None:
        super().__init__(script, clock)
        self._now = clock

    async def frames(self) -> AsyncIterator[AudioFrame]:
        async for frame in super().frames():
            await self._now.sleep_until(frame.end_s + 0.25)
            yield frame


@pytest.mark.parametrize(("text", "kinds"), [("mhmm yeah", []), ("tell me something else", ["reply_interrupted"])])
def test_ears_that_lag_judge_speech_over_the_reply_by_how_long_it_sounded(text: str, kinds: list[str]) -> None:
    script = Script.of(ASKED, (3.5, text), word_s=0.2)

    def late(stages: Stages) -> Stages:
        assert isinstance(stages.source, ScriptSource)
        source = LateSource(script, stages.source._clock)
        recognizer = stages.recognizer if kinds else ScriptRecognizer(Script.of(ASKED))  # reads nothing in it
        return replace(stages, source=source, engine=WordEngine(REPLY_WORDS), recognizer=recognizer)

    talk = converse(script, change=late)
    over = [event.kind for event in talk.events if event.kind in ("reply_held", "reply_resumed", "reply_interrupted")]
    assert over == kinds


def test_one_short_word_that_means_it_stops_the_reply() -> None:
    talk = barge_in(3.0, "stop")
    (cut,) = talk.of("reply_interrupted")
    assert cut.t_s < 3.0 + 0.25 + 0.2 + 0.2  # its end, the pause that shows it, the reading
    assert talk.user_rows == ["Can you tell me", "Stop"]


def test_a_backchannel_while_the_agent_is_silent_is_not_answered_and_leaves_no_row() -> None:
    talk = converse(Script.of(ASKED, (6.0, "uh-huh"), (9.0, "tell me more")))
    assert talk.user_rows == ["Can you tell me", "Tell me more"]
    assert [event.fields["reason"] for event in talk.of("turn_closed")] == ["a backchannel"]
    assert len(talk.replies) == 2


def test_steady_noise_through_many_replies_ends_each_turn_within_the_limit() -> None:
    """A fan that voice activity takes for a voice: nothing waits longer than a turn may last."""
    fan = Script((Word("(fan)", 0.5, 30.0),), 34.0)
    talk = converse(fan, settings_with(turn={"max_turn_s": 4.0}), swap(recognizer=ScriptRecognizer(Script((), 0.0))))
    assert talk.history == ()
    assert talk.of("state_changed")[-1].fields["state"] == "idle"
    assert talk.of("turn_closed")[0].t_s < 5.0
