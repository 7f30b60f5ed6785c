from collections.abc import AsyncIterator

import pytest

from pads_runtime.clock import Clock
from pads_runtime.frames import TraceEvent, Word
from pads_runtime.session import Session
from pads_runtime.testing import Script, ScriptRecognizer, WordEngine, converse, swap
from pads_runtime.timeline.facts import Reply
from pads_runtime.timeline.story import tell


def event(t_s: float, kind: str, **fields: object) -> TraceEvent:
    return TraceEvent(t_s, kind, dict(fields))


def reading(t_s: float, text: str, final: bool = False) -> TraceEvent:
    return event(t_s, "transcript_updated", stable=text, unstable="", final=final, audio_end_s=t_s - 0.05)


def test_each_stretch_of_speech_has_the_words_that_it_added() -> None:
    talk = converse(Script.of((0.3, "what city is"), (1.55, "warm in march")))
    story = tell(talk.events)
    assert [s.words for s in story.speech] == ["what city is", "warm in march"]
    assert [s.utterance for s in story.speech] == [1, 1]
    assert [round(s.start_s, 2) for s in story.speech] == [0.3, 1.54]


def test_a_reading_that_changes_case_and_marks_adds_no_words() -> None:
    events = [
        event(0.1, "speech_started", onset_s=0.0),
        event(1.2, "speech_paused", last_voiced_s=1.0),
        reading(1.3, "Book it.", final=True),
        event(1.6, "speech_resumed", onset_s=1.5),
        reading(2.9, "book it for two", final=True),
    ]
    assert [s.words for s in tell(events).speech] == ["Book it.", "for two"]


def test_speech_that_is_never_paused_lasts_to_the_end_of_the_trace() -> None:
    story = tell([event(0.1, "speech_started", onset_s=0.0), reading(3.0, "hello")])
    assert [(s.start_s, s.end_s) for s in story.speech] == [(0.0, 3.0)]


def test_a_committed_reply_knows_when_it_was_prepared_heard_and_what_it_said() -> None:
    talk = converse(Script.of((0.3, "why is that")))
    (reply,) = tell(talk.events).replies
    assert reply.outcome == "committed" and reply.prepared and not reply.thrown_away
    assert reply.said == talk.agent_rows[0]
    assert reply.first_token_s and reply.committed_s and reply.playing_s and reply.played_s
    assert reply.opened_s < reply.first_token_s < reply.committed_s <= reply.playing_s < reply.played_s


def test_a_discarded_reply_keeps_its_reason_and_its_cost() -> None:
    talk = converse(Script.of((0.3, "what city is"), (1.55, "warm in march")))
    discarded = talk.of("branch_discarded")
    replies = [reply for reply in tell(talk.events).replies if reply.outcome == "discarded"]
    assert [(r.reason, r.tokens, r.ended_s) for r in replies] == [
        (e.fields["reason"], e.fields["tokens"], e.t_s) for e in discarded
    ]
    assert len(replies) == 1 and replies[0].tokens > 0


def test_an_interrupted_reply_says_only_what_was_heard() -> None:
    script = Script.of((0.3, "why is that"), (3.0, "please stop i have heard enough of it now"))
    talk = converse(script, change=swap(engine=WordEngine(30)))
    (cut,) = talk.of("reply_interrupted")
    reply = tell(talk.events).replies_of(1)[0]
    assert reply.said == cut.fields["heard"] and reply.played_s == cut.t_s
    assert reply.reason == "the user spoke" and not reply.thrown_away
    first, second = tell(talk.events).turns
    assert first.end_s == second.start_s == 3.0


def test_a_backchannel_is_marked_as_ignored() -> None:
    talk = converse(Script.of((0.3, "why is that"), (2.0, "mhm")), change=swap(engine=WordEngine(30)))
    assert len(talk.of("speech_ignored")) == 1
    assert [s.ignored for s in tell(talk.events).speech] == ["", "a backchannel"]


def test_a_turn_has_the_moments_of_the_reply_that_was_served() -> None:
    talk = converse(Script.of((0.3, "what city is"), (1.55, "warm in march")))
    (turn,) = tell(talk.events).turns
    (confirmed,) = talk.of("turn_confirmed")
    (audible,) = talk.of("playback_started")
    assert turn.speech_end_s == confirmed.fields["last_voiced_s"] and turn.confirmed_s == confirmed.t_s
    assert turn.first_token_s == talk.of("first_token")[-1].t_s
    assert turn.post_confirm_ttft_ms == 0
    assert turn.dead_air_ms == pytest.approx((audible.t_s - confirmed.fields["last_voiced_s"]) * 1000)


def test_the_bands_cover_the_session_without_gap_or_overlap() -> None:
    story = tell(converse(Script.of((0.3, "why is that"), (6.0, "okay thank you"))).events)
    for before, after in zip(story.bands, story.bands[1:], strict=False):
        assert before.end_s == after.start_s
    assert story.bands[0].start_s == 0.0 and story.bands[-1].end_s == story.end_s
    assert {band.state for band in story.bands} == {"idle", "listening", "paused", "responding"}


def test_a_reopened_turn_is_one_utterance_without_the_moments_of_its_first_end() -> None:
    events = [
        event(0.1, "speech_started", onset_s=0.0),
        event(0.1, "state_changed", turn=1, before="idle", state="listening"),
        event(1.2, "speech_paused", last_voiced_s=1.0),
        reading(1.3, "and then", final=True),
        event(1.7, "turn_confirmed", turn=1, last_voiced_s=1.0),
        event(1.7, "reply_opened", turn=1, text="And then"),
        event(1.8, "speech_started", onset_s=1.75),
        event(1.8, "reply_withdrawn", turn=1, reason="the turn was not over", tokens=2, cpu_ms=3.0),
        event(1.8, "turn_reopened", turn=1),
        reading(2.9, "and then we left"),
    ]
    story = tell(events)
    assert [(s.words, s.utterance) for s in story.speech] == [("and then", 1), ("we left", 1)]
    (turn,) = story.turns
    assert turn.confirmed_s is None and turn.first_token_s is None and turn.dead_air_ms is None
    assert turn.user == "and then we left"
    assert story.replies[0].outcome == "withdrawn" and story.replies[0].thrown_away


def test_a_trace_whose_beginning_is_missing_is_read_as_far_as_it_goes() -> None:
    talk = converse(Script.of((0.3, "what city is"), (1.55, "warm in march"), (8.0, "why")))
    for cut in range(len(talk.events)):
        story = tell(talk.events[cut:])
        assert len(story.turns) <= 2
        tell(talk.events[:cut])


@pytest.mark.parametrize("field", ["onset_s", "turn", "p_end", "tokens", "stable", "last_voiced_s", "audio_end_s"])
@pytest.mark.parametrize("value", [None, "x", float("nan"), True])
def test_a_field_with_another_type_is_not_an_error(field: str, value: object) -> None:
    talk = converse(Script.of((0.3, "what city is"), (1.55, "warm in march")))
    changed = [
        TraceEvent(e.t_s, e.kind, {k: value if k == field else v for k, v in e.fields.items()}) for e in talk.events
    ]
    assert tell(changed).end_s == talk.events[-1].t_s


def test_a_failed_session_says_why() -> None:
    assert tell([event(1.0, "session_failed", error="EngineDead: gone")]).failure == "EngineDead: gone"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("open", False),
        ("committed", False),
        ("plain", False),
        ("discarded", True),
        ("withdrawn", True),
        ("failed", True),
    ],
)
def test_only_replies_of_which_nothing_is_heard_are_thrown_away(outcome: str, expected: bool) -> None:
    assert Reply(1, True, 0.0, outcome=outcome).thrown_away is expected


def test_a_text_that_is_no_reply_is_told_as_what_the_agent_said() -> None:
    async def ask(session: Session, clock: Clock) -> AsyncIterator[None]:
        await clock.sleep_until(0.5)
        session.say("Tea is ready.")
        yield

    (said,) = tell(converse(Script((), 3.0), during=ask).events).replies
    assert (said.said, said.premise, said.prepared, said.thrown_away) == ("Tea is ready.", "", False, False)
    assert said.playing_s is not None and said.played_s is not None


def test_a_held_reply_that_went_on_is_one_reply_played_to_its_end() -> None:
    asked = Script.of((0.5, "can you tell me"))
    loud = Script((*asked.words, Word("(buzz)", 2.6, 4.0)), 9.0)
    parts = swap(engine=WordEngine(20), recognizer=ScriptRecognizer(asked))
    talk = converse(loud, change=parts)
    assert len(talk.of("reply_held")) == 1
    (reply,) = tell(talk.events).replies
    assert reply.said == talk.agent_rows[0]
    assert reply.played_s == talk.of("playback_finished")[0].t_s
