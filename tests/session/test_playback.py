"""The sound of one reply against a sink that keeps no promise: what counts is what it says it played."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from pads_runtime import clock as clocks
from pads_runtime.clock import LoopClock, ManualClock
from pads_runtime.frames import PhraseSynthesized, Samples, SpokenWord
from pads_runtime.playback import Playback
from pads_runtime.testing import MemorySink, Script, ToneVoice, converse, swap

RATE = ToneVoice.sample_rate


def phrase(text: str) -> PhraseSynthesized:
    """0.2 s a word."""
    return ToneVoice().synthesize(text)


class LateMemory(MemorySink):
    """A device that starts ``late_s`` after it was given its first sample, whatever it promised."""

    def __init__(self, late_s: float) -> None:
        super().__init__()
        self._late_s, self._last_s = late_s, 0.0
        self.asked = 0

    def write(self, samples: Samples, now_s: float) -> float:
        ends_s = super().write(samples, now_s)
        self._last_s = ends_s + self._late_s
        return ends_s

    def pending_s(self, now_s: float) -> float:
        self.asked += 1
        return max(0.0, self._last_s - now_s)

    def flush(self, now_s: float) -> int:
        return super().flush(now_s - self._late_s)


class DeafMemory(MemorySink):
    """The loudspeaker is unplugged after ``until_s`` of sound: the rest takes its time and is not played."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self._until = round(until_s * self.sample_rate)

    def flush(self, now_s: float) -> int:
        return min(super().flush(now_s), self._until)


def test_words_count_as_heard_when_their_last_sample_was_played() -> None:
    clock = ManualClock()
    playback = Playback(MemorySink(), clock)
    playback.write(phrase("one two three"))
    playback.write(phrase("four five"))
    clock.t_s = 0.59
    playback.hold()
    assert (playback.heard, playback.rest, playback.complete) == ("one two", "three four five", False)
    assert playback.played_s == pytest.approx(0.59)
    clock.t_s = 2.0
    playback.resume()
    clock.t_s = 2.0 + 0.45
    playback.cut()
    assert (playback.heard, playback.rest) == ("one two three four", "five")


def test_what_is_written_while_held_is_said_after_what_was_cut() -> None:
    clock = ManualClock()
    playback = Playback(MemorySink(), clock)
    playback.write(phrase("one two"))
    clock.t_s = 0.25
    playback.hold()
    playback.write(phrase("three"))
    playback.hold()  # twice is once
    assert playback.rest == "two three"
    playback.resume()
    clock.t_s = 10.0
    playback.cut()
    assert (playback.heard, playback.complete) == ("one two three", True)


def test_a_phrase_with_a_silent_end_is_heard_when_all_of_it_has_been_played() -> None:
    clock = ManualClock()
    playback = Playback(MemorySink(), clock)
    words = (SpokenWord("one", RATE // 5), SpokenWord("two", RATE))  # the last word's end is set late by its voice
    playback.write(PhraseSynthesized("one two", np.ones(RATE // 2, np.int16), RATE, words))
    clock.t_s = 0.5
    playback.cut()
    assert (playback.heard, playback.complete) == ("one two", True)


def test_a_reply_has_ended_only_when_the_device_says_so() -> None:
    late = LateMemory(1.3)
    talk = converse(Script.of((0.5, "can you tell me")), change=swap(sink=late))
    (started,), (finished,) = talk.of("playback_started"), talk.of("playback_finished")
    assert finished.t_s == pytest.approx(started.t_s + 8 * 0.2 + 1.3, abs=0.05)
    assert late.asked >= 1
    assert talk.agent_rows == [talk.replies[0][2]] and len(talk.agent_rows[0].split()) == 8


def test_an_interruption_at_a_late_device_leaves_what_it_had_really_played() -> None:
    talk = converse(Script.of((0.5, "can you tell me"), (2.6, "no wait stop that")), change=swap(sink=LateMemory(0.5)))
    (started, _), (cut,) = talk.of("playback_started"), talk.of("reply_interrupted")
    assert len(cut.fields["heard"].split()) == int((cut.t_s - started.t_s - 0.5) / 0.2 + 1e-6) > 0


def test_of_a_reply_whose_loudspeaker_went_away_the_history_holds_what_was_played() -> None:
    talk = converse(Script.of((0.5, "can you tell me")), change=swap(sink=DeafMemory(0.7)))
    assert len(talk.agent_rows[0].split()) == 3
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


def test_the_end_of_a_held_reply_waits_for_its_resume() -> None:
    async def main() -> list[float]:
        clock = LoopClock()
        playback = Playback(MemorySink(), clock)
        playback.write(phrase("one two three four five"))
        ended_s: list[float] = []

        async def wait() -> None:
            await playback.finished()
            ended_s.append(clock.now())

        task = asyncio.create_task(wait())
        await clock.sleep_until(0.5)
        playback.hold()
        await clock.sleep_until(3.0)
        assert not ended_s
        playback.resume()
        await task
        return ended_s

    assert clocks.run(main, virtual=True) == [pytest.approx(3.0 + 0.6)]
