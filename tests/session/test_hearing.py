"""What the ears take in: no sample lost, a bounded backlog, and an end to endless noise."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from pads_runtime.clock import Clock
from pads_runtime.ears import MIN_TAIL_S
from pads_runtime.frames import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Samples,
    SpeechEvent,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
)
from pads_runtime.session import TAIL_S, Session
from pads_runtime.testing import (
    COSTS,
    FixedPredictor,
    LoudnessActivity,
    Script,
    ScriptRecognizer,
    ScriptSource,
    Stages,
    converse,
    settings_with,
    swap,
)

LOUD = 10_000


class NumberedSource:
    """Every frame is filled with its own number, plus LOUD where the script speaks."""

    def __init__(self, stages: Stages, script: Script) -> None:
        assert isinstance(stages.source, ScriptSource)
        self._inner, self._script = stages.source, script
        self.newest = -1

    async def frames(self) -> AsyncIterator[AudioFrame]:
        async for frame in self._inner.frames():
            value = frame.index + (LOUD if frame.samples.any() else 0)
            self.newest = frame.index
            yield replace(frame, samples=np.full(FRAME_SAMPLES, value, np.int16))


class NumberedActivity(LoudnessActivity):
    """Loud is what is above LOUD. May be slow."""

    def __init__(self, slow_s: float = 0.0) -> None:
        super().__init__()
        self._slow_s = slow_s
        self.indices: list[int] = []

    def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
        self.indices.append(frame.index)
        if self._slow_s:
            time.sleep(self._slow_s)
        return super().process(replace(frame, samples=np.where(frame.samples >= LOUD, frame.samples, 0)))


class RecordingRecognizer(ScriptRecognizer):
    """Keeps what it was given."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.given: list[tuple[float, bool, Samples]] = []

    def transcribe(self, turn_audio: Samples, audio_end_s: float, final: bool) -> TranscriptUpdated:
        self.given.append((audio_end_s, final, turn_audio.copy()))
        return super().transcribe(turn_audio, audio_end_s, final)


def test_the_recogniser_is_given_every_sample_from_before_the_onset_to_the_pause() -> None:
    script = Script.of((0.9, "can you tell me"), (2.3, "the time"), (8.0, "why"))
    recognizer = RecordingRecognizer(script)

    def numbered(stages: Stages) -> Stages:
        source = NumberedSource(stages, script)
        return replace(stages, source=source, voice_activity=NumberedActivity(), recognizer=recognizer)

    converse(script, change=numbered)
    finals = [(end_s, audio) for end_s, final, audio in recognizer.given if final]
    assert len(finals) == 3  # one at each pause
    for (end_s, audio), onset_s in zip(finals, (0.9, 0.9, 8.0), strict=True):
        numbers = audio[::FRAME_SAMPLES] % LOUD
        assert (np.diff(numbers) == 1).all()  # no frame is missing, also across the pause inside the turn
        assert numbers[-1] == round(end_s / FRAME_S) - 1
        preroll_s = onset_s - numbers[0] * FRAME_S
        assert 0.2 < preroll_s <= 0.3
        assert len(audio) == len(numbers) * FRAME_SAMPLES


def test_the_predictor_is_given_every_sample_once() -> None:
    class Recording(FixedPredictor):
        def __init__(self) -> None:
            super().__init__(0.9)
            self.samples, self.ends_s = 0, [0.0]

        def update(
            self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None
        ) -> TurnEndPredicted:
            self.samples += len(user)
            assert self.samples == round(audio_end_s * SAMPLE_RATE)
            return super().update(user, agent, audio_end_s, silence_s)

    predictor = Recording()
    converse(Script.of((0.5, "can you tell me"), (4.5, "why")), change=swap(predictor=predictor))
    assert predictor.samples > 0


def test_silence_is_counted_from_a_tenth_of_a_second_also_before_the_pause_is_declared() -> None:
    class Listening(FixedPredictor):
        def __init__(self) -> None:
            super().__init__(0.9)
            self.told: list[float | None] = []

        def wants(self, silence_s: float | None) -> bool:
            self.told.append(silence_s)
            return False

    predictor = Listening()
    holes = Script.of((0.5, "can you"), (1.08, "tell me"))  # 80 ms between them
    converse(holes, change=swap(predictor=predictor, voice_activity=LoudnessActivity(pause_s=0.3)))
    counted = [silence_s for silence_s in predictor.told if silence_s is not None]
    assert counted[:3] == pytest.approx([0.1, 0.12, 0.14])
    assert predictor.told[: predictor.told.index(counted[0])] == [None] * predictor.told.index(counted[0])
    assert predictor.told.index(counted[0]) > round(1.08 / FRAME_S)


def test_a_predictor_that_falls_behind_is_told_of_once_and_its_answer_shows_its_age(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = COSTS.model_copy(update={"predictor_call_s": 0.7})
    script = Script.of((0.5, "can you tell me"), (9.5, "why"))
    with caplog.at_level("WARNING", "pads_runtime.ears"):
        talk = converse(script, costs=slow)
    predicted = talk.of("turn_end_predicted")
    assert len(predicted) == 2
    assert [event.t_s - event.fields["audio_end_s"] for event in predicted] == pytest.approx([0.7, 0.7])
    assert caplog.text.count("fell behind: its answer came 0.70 s after the audio") == 1


def test_a_turn_end_foreseen_in_speech_opens_the_branch_when_the_pause_is_declared() -> None:
    class Foreseeing(FixedPredictor):
        def wants(self, silence_s: float | None) -> bool:
            return silence_s is None

    quick = COSTS.model_copy(update={"recognizer_base_s": 0.0, "recognizer_per_audio_s": 0.0})
    talk = converse(Script.of((0.5, "can you tell me")), change=swap(predictor=Foreseeing(0.9)), costs=quick)
    (paused,) = talk.of("speech_paused")
    (opened,) = talk.of("branch_opened")
    assert opened.t_s - paused.t_s <= quick.classifier_call_s + 1e-6


def test_a_consumer_at_half_speed_loses_the_oldest_frames_counts_them_and_stays_near_the_present() -> None:
    script, queue = Script((), 1.2), 10
    activity = NumberedActivity(slow_s=2 * FRAME_S)
    sources: list[NumberedSource] = []
    ages: list[int] = []

    def slow(stages: Stages) -> Stages:
        sources.append(NumberedSource(stages, script))
        return replace(stages, source=sources[0], voice_activity=activity)

    async def note_ages(session: Session, clock: Clock) -> AsyncIterator[None]:
        take = session._frames.get

        async def noted() -> AudioFrame:
            frame = await take()
            ages.append(sources[0].newest - frame.index)  # in frames: how far behind the newest one
            return frame

        session._frames.get = noted  # type: ignore[method-assign]
        yield

    talk = converse(script, settings_with(audio={"queue_frames": queue}), slow, note_ages, virtual=False)
    assert max(ages) <= queue + 1
    assert activity.indices == sorted(set(activity.indices))
    dropped = talk.session.frames_dropped
    missing = activity.indices[-1] + 1 - len(activity.indices)
    assert dropped == missing > 0
    assert talk.of("session_ended")[0].fields["frames_dropped"] == dropped


def test_a_blocked_loop_loses_no_frame_and_no_interrupt() -> None:
    async def blocker(session: Session, clock: Clock) -> AsyncIterator[None]:
        while clock.now() < 2.5:
            time.sleep(0.02)  # noqa: ASYNC251 (this is the fault)
            await clock.sleep_until(clock.now() + 0.02)
            yield

    quick = settings_with(turn={"confirm_min_s": 0.3}, barge_in={"min_speech_s": 0.1})
    script = Script.of((0.1, "can you tell me"), (1.9, "no wait stop"), word_s=0.2, tail_s=0.2)
    talk = converse(script, quick, during=blocker, virtual=False)
    assert talk.session.frames_dropped == 0
    assert talk.user_rows == ["Can you tell me", "No wait stop"]
    assert len(talk.of("reply_interrupted")) == 1


def test_a_stalled_predictor_does_not_keep_the_ears_from_hearing() -> None:
    """Frames were dropped, so the predictor must forget; it is busy, and nobody waits for it."""

    heard_on = threading.Event()

    class Stalled(FixedPredictor):
        resets, stuck = 0, False

        def update(
            self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None
        ) -> TurnEndPredicted:
            self.stuck = not heard_on.wait(15.0) or self.stuck
            return super().update(user, agent, audio_end_s, silence_s)

        def reset(self) -> None:
            self.resets += 1

    class Listening(LoudnessActivity):
        def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
            if frame.index >= 50:
                heard_on.set()
            return super().process(frame)

    class Skipping(ScriptSource):
        async def frames(self) -> AsyncIterator[AudioFrame]:
            async for frame in super().frames():
                if frame.index != 40:
                    yield frame

    script, predictor = Script.of((0.1, "hello"), word_s=0.2, tail_s=1.0), Stalled(0.9)

    def parts(stages: Stages) -> Stages:
        assert isinstance(stages.source, ScriptSource)
        source = Skipping(script, stages.source._clock)
        return replace(stages, source=source, predictor=predictor, voice_activity=Listening())

    converse(script, change=parts, virtual=False)
    assert predictor.resets == 1
    assert not predictor.stuck


class RestlessActivity(LoudnessActivity):
    """As a real detector in steady noise: told that the turn is over, it finds speech again at once."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def end_turn(self) -> None:
        super().end_turn()
        self._told = True

    def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
        if self._told and self._in_speech and frame.samples.any():
            self._told, self._in_turn = False, True
            self._last_voiced_s = frame.end_s
            return (SpeechStarted(frame.end_s, frame.end_s - FRAME_S),)
        self._told = False
        return super().process(frame)


def noise(seconds: float, text: str = "") -> tuple[Script, Script]:
    """A script that is loud for so long, and one with the words to be recognised in it."""
    loud = Script.of((0.5, "x"), word_s=seconds, tail_s=1.0)
    return loud, Script.of((0.6, text)) if text else Script((), 0.0)


@pytest.mark.parametrize("activity", [LoudnessActivity, RestlessActivity])
def test_endless_noise_is_closed_by_force_and_hearing_goes_on(activity: type[LoudnessActivity]) -> None:
    loud, nothing = noise(20.0)
    parts = swap(voice_activity=activity(), recognizer=ScriptRecognizer(nothing))
    talk = converse(loud, settings_with(turn={"max_turn_s": 3.0}), parts)
    closed = [event.t_s for event in talk.of("turn_closed")]
    assert closed[0] == pytest.approx(3.5, abs=0.2)
    if activity is RestlessActivity:  # each stretch of noise is a turn of its own
        assert 5 <= len(closed) <= 7
        assert np.diff(closed[:-1]) == pytest.approx(3.0, abs=0.3)
    assert len(talk.of("turn_confirmed")) == len(closed)
    assert talk.history == ()
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


@pytest.mark.parametrize("activity", [LoudnessActivity, RestlessActivity])
def test_words_in_endless_noise_are_answered_once_the_limit_has_passed(activity: type[LoudnessActivity]) -> None:
    loud, spoken = noise(5.0, "tell me more")
    parts = swap(voice_activity=activity(), recognizer=ScriptRecognizer(spoken))
    talk = converse(loud, settings_with(turn={"max_turn_s": 3.0}, barge_in={"min_speech_s": 10}), parts)
    assert talk.user_rows == ["Tell me more"]
    (opened,) = talk.of("reply_opened")
    assert opened.t_s == pytest.approx(3.5, abs=0.2)
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


def test_a_turn_that_is_still_open_when_the_source_ends_is_answered() -> None:
    script = Script.of((0.5, "can you tell me"), tail_s=0.0)
    talk = converse(script)
    assert len(talk.agent_rows) == 1
    assert talk.of("session_ended")[0].t_s < script.end_s + TAIL_S


def test_a_confirm_later_than_the_tail_still_answers_the_turn() -> None:
    late = settings_with(turn={"confirm_min_s": 40.0, "confirm_max_s": 40.0}, gate={"mode": "always"})
    talk = converse(Script.of((0.5, "can you tell me"), tail_s=0.0), late)
    assert len(talk.of("reply_committed")) == len(talk.agent_rows) == 1
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


def test_a_reply_longer_than_the_tail_is_spoken_to_its_end() -> None:
    slow = COSTS.model_copy(update={"decode_step_s": 6.0})
    talk = converse(Script.of((0.5, "can you tell me"), tail_s=0.0), settings_with(gate={"mode": "never"}), costs=slow)
    assert len(talk.of("playback_finished")) == 1
    assert talk.of("state_changed")[-1].fields["state"] == "idle"


def test_silence_alone_ends_the_session_after_a_short_tail() -> None:
    talk = converse(Script((), 2.0))
    assert [event.kind for event in talk.events] == ["session_started", "session_ended"]
    assert talk.events[-1].t_s == pytest.approx(2.0 + MIN_TAIL_S, abs=0.1)


def test_no_audio_at_all_ends_the_session() -> None:
    talk = converse(Script((), 0.0))
    assert talk.events[-1].kind == "session_ended"
