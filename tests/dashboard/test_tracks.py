"""A trace as the tracks of a timeline."""

from __future__ import annotations

from collections.abc import Sequence

from pads_runtime.dashboard.tracks import KEEP_ITEMS, KEEP_S, Point, Stretch, Tracks, mark, since
from pads_runtime.frames import TraceEvent


def marked(events: Sequence[TraceEvent]) -> Tracks:
    tracks = Tracks()
    for event in events:
        tracks = mark(tracks, event)
    return tracks


def test_a_whole_talk_has_a_stretch_for_each_word_of_its_story(talk_events: list[TraceEvent]) -> None:
    tracks = marked(talk_events)
    kinds = [event.kind for event in talk_events]
    assert len(tracks.user) == kinds.count("speech_started") + kinds.count("speech_resumed")
    assert len(tracks.agent) == kinds.count("playback_started")
    assert [reply.label for reply in tracks.replies] == ["discarded", "committed", "plain"]
    assert tracks.replies[0].note == "the user went on"
    assert [m.label for m in tracks.marks] == ["turn over"] * kinds.count("turn_confirmed")
    assert {p.p for p in tracks.p_end} == {0.9}
    everything = (*tracks.user, *tracks.agent, *tracks.states, *tracks.replies)
    assert all(s.end_s is not None and s.end_s >= s.start_s for s in everything), "the talk is over"


def test_a_prepared_reply_is_no_stretch_of_the_voice() -> None:
    events = [TraceEvent(1.0, "branch_opened", {"turn": 1}), TraceEvent(1.5, "phrase_ready", {"turn": 1, "text": "x"})]
    tracks = marked(events)
    assert tracks.agent == ()
    assert tracks.replies == (Stretch(1.0, None, "prepared"),)


def test_a_held_reply_is_silent_until_it_goes_on() -> None:
    times = ((1.0, "playback_started"), (2.0, "reply_held"), (4.0, "reply_resumed"), (5.0, "playback_finished"))
    tracks = marked([TraceEvent(t, kind, {}) for t, kind in times])
    assert tracks.agent == (Stretch(1.0, 2.0), Stretch(4.0, 5.0))


def test_only_the_last_minutes_are_kept_however_long_the_talk_is() -> None:
    events = []
    for i in range(4_000):
        t = i * 0.1
        events.append(TraceEvent(t, ("speech_started", "speech_paused")[i % 2], {"onset_s": t, "last_voiced_s": t}))
        events.append(TraceEvent(t, "act_classified", {"p_deep": 0.5}))
        events.append(TraceEvent(t, "turn_confirmed", {}))
        events.append(TraceEvent(t, "state_changed", {"state": ("listening", "paused")[i % 2]}))
    tracks = marked(events)
    for track in (tracks.user, tracks.states, tracks.marks):
        assert len(track) <= KEEP_ITEMS
        assert track[0].start_s >= 400.0 - KEEP_S - 1.0
    assert len(tracks.p_deep) <= KEEP_ITEMS


def test_what_still_lasts_is_kept_however_old_it_is() -> None:
    tracks = marked([TraceEvent(0.0, "state_changed", {"state": "idle"})])
    assert since(tracks, 9000.0)["states"] == [[0.0, None, "idle", ""]]


def test_only_what_reaches_into_the_window_is_passed_on() -> None:
    tracks = Tracks(user=(Stretch(1.0, 2.0), Stretch(3.0, 9.0)), p_end=(Point(1.0, 0.5), Point(8.0, 0.25)))
    window = since(tracks, 5.0)
    assert window["user"] == [[3.0, 9.0, "", ""]]
    assert window["p_end"] == [[8.0, 0.25]]


def test_odd_fields_change_nothing() -> None:
    for kind in ("turn_end_predicted", "state_changed", "speech_started", "speech_paused", "reply_interrupted", "new"):
        for value in (None, "x", [], True, float("inf")):
            tracks = mark(Tracks(), TraceEvent(1.0, kind, dict.fromkeys(("p_end", "state", "onset_s"), value)))
            assert tracks.p_end == ()
            assert [s.label for s in tracks.states] in ([], ["idle"])
