"""A long talk in small: ``./scripts/bench long_talk`` holds one of ten thousand turns."""

from __future__ import annotations

import pytest

from bench.long_talk import POINTS, hold
from pads_runtime.history import TOKENS_A_ROW
from pads_runtime.session import LAGS_KEPT

TURNS = 120


@pytest.mark.slow
def test_memory_tasks_and_files_stay_flat_over_many_turns_and_a_full_context() -> None:
    talk = hold(TURNS, silence_s=60.0)
    vitals = talk.vitals
    assert len(vitals.rss_mb) == 2 * POINTS - 1
    assert vitals.growth_percent(since=POINTS // 2) < 1.0  # by then the history and the trace are as long as they get
    assert len(set(vitals.tasks)) == len(set(vitals.files)) == 1
    assert talk.overflows > 5
    assert talk.largest_prompt <= 240
    assert talk.history_rows <= 2 * (256 // TOKENS_A_ROW)
    assert talk.events["reply_served"] > TURNS
    for kind in ("branch_discarded", "reply_interrupted", "reply_resumed", "speech_ignored", "say_finished"):
        assert talk.events[kind] >= TURNS // 20, kind


def test_the_loops_delays_take_no_more_room_however_long_the_talk() -> None:
    from pads_runtime.clock import ManualClock
    from pads_runtime.config import PadsSettings
    from pads_runtime.session import Session
    from pads_runtime.testing import COSTS, Script, fake_stages
    from pads_runtime.trace import Trace

    clock = ManualClock()
    session = Session(fake_stages(Script((), 1.0), clock), PadsSettings(), COSTS, clock, Trace())
    assert session.lags_s == []
    for i in range(3):
        session._lags_s[i], session._lags = 0.1 * i, i + 1
    assert session.lags_s == pytest.approx([0.0, 0.1, 0.2])
    session._lags = 5 * LAGS_KEPT
    assert len(session.lags_s) == LAGS_KEPT
