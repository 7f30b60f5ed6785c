"""The scripted user: what may stand in a script, and that every sample and label is where it should be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from pads_runtime import clock as clocks
from pads_runtime.clock import LoopClock, ManualClock
from pads_runtime.config import CONFIG_DIR
from pads_runtime.demo import PATIENCE_S, DemoScript, ScriptedUser, Utterance, load_script, speak_script, speak_turn
from pads_runtime.errors import ConfigError
from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, PhraseSynthesized, Samples
from pads_runtime.testing import ToneVoice

WORD = SAMPLE_RATE // 5
"""Samples of a word of ToneVoice."""


class Padded:
    """A voice that leaves silence around what it says; ``rate`` is its own."""

    def __init__(self, rate: int = SAMPLE_RATE, lead_s: float = 0.25, tail_s: float = 0.4) -> None:
        self.sample_rate, self._lead, self._tail = rate, round(lead_s * rate), round(tail_s * rate)

    def synthesize(self, text: str) -> PhraseSynthesized:
        said = np.full(self.sample_rate // 5 * len(text.split()), 500, np.int16)
        return PhraseSynthesized(text, np.pad(said, (self._lead, self._tail)), self.sample_rate, ())


class Constant:
    """A voice that gives so many samples of one value, whatever is to be said."""

    sample_rate = SAMPLE_RATE

    def __init__(self, length: int, value: int) -> None:
        self._samples = np.full(length, value, np.int16)

    def synthesize(self, text: str) -> PhraseSynthesized:
        return PhraseSynthesized(text, self._samples, SAMPLE_RATE, ())


# ---------------------------------------------------------------- scripts


def script(tmp_path: Path, text: str) -> DemoScript:
    path = tmp_path / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return load_script(path)


def test_the_shipped_script_has_eight_turns_and_pauses_inside_three_of_them() -> None:
    shipped = load_script("demo-script.yaml")
    assert len(shipped.turns) == 8
    assert sum(any(not isinstance(part, str) for part in turn.say) for turn in shipped.turns) == 3
    assert (CONFIG_DIR / "demo-script.yaml").is_file()


def test_a_script_is_found_by_name_or_path(tmp_path: Path) -> None:
    own = script(tmp_path, "turns:\n  - say: [Hello, 1, there]\n")
    assert own.turns[0].say == ("Hello", 1, "there")
    assert own.gap_s == 0.6
    with pytest.raises(ConfigError, match=r"'nowhere\.yaml' not found"):
        load_script("nowhere.yaml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "setting 'turns' is missing"),
        ("turns: []", "at least 1 item"),
        ("turns: [{say: []}]", "turn 1 has no words"),
        ("turns: [{say: [Hi]}, {say: [0.5]}]", "turn 2 has no words"),
        ("turns: [{say: ['  ']}]", "turn 1 has no words"),
        ("turns: [{say: Hello}]", "'say' is a list of texts and pauses"),
        ("turns: [{say: [yes]}]", "True is neither a text nor a pause.*put texts in quotes"),
        ("turns: [{say: [[Hi]]}]", "neither a text nor a pause"),
        ("turns: [{say: [Hi, -0.5]}]", "a pause of -0.5 s is not between 0 and 60"),
        ("turns: [{say: [Hi, 1000000]}]", "a pause of 1000000 s"),
        ("turns: [{say: [Hi, .nan]}]", "a pause of nan s"),
        ("turns: [{say: [Hi, .inf]}]", "a pause of inf s"),
        ("turns: [{sayy: [Hi]}]", "turns.0.say"),
        ("gap: 1\nturns: [{say: [Hi]}]", "unknown setting 'gap'; did you mean 'gap_s'"),
        ("gap_s: -1\nturns: [{say: [Hi]}]", "gap_s"),
        ("- just\n- a list", "must hold"),
        ("turns: [", "not valid YAML"),
    ],
)
def test_a_malformed_script_is_refused_in_one_line_that_names_it(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        script(tmp_path, text)
    assert "script.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- sound


@pytest.mark.parametrize("pause_s", [0.0, 0.4, 0.90005, 1.23456])
def test_a_pause_is_exact_to_the_sample(tmp_path: Path, pause_s: float) -> None:
    turn = script(tmp_path, f"turns: [{{say: [one two, {pause_s}, three]}}]").turns[0]
    spoken = speak_turn(turn, Padded())
    loud = np.flatnonzero(spoken.samples)
    assert spoken.text == "one two three"
    assert (loud[0], loud[-1]) == (0, len(spoken.samples) - 1), "the voice's own silence is cut off"
    inside = np.flatnonzero(spoken.samples == 0)
    assert len(inside) == round(pause_s * SAMPLE_RATE)
    assert len(spoken.samples) == 3 * WORD + len(inside)
    assert not len(inside) or (inside[0], inside[-1]) == (2 * WORD, 2 * WORD + len(inside) - 1)


def test_a_voice_of_another_rate_is_heard_at_ours(tmp_path: Path) -> None:
    turn = script(tmp_path, "turns: [{say: [one two, 0.5, three]}]").turns[0]
    spoken = speak_turn(turn, Padded(rate=24_000))
    assert len(spoken.samples) == pytest.approx(3 * WORD + SAMPLE_RATE // 2, abs=4 * SAMPLE_RATE // 100)
    longest = max(len(run) for run in np.split(spoken.samples == 0, np.flatnonzero(spoken.samples)) if len(run))
    assert longest == pytest.approx(SAMPLE_RATE // 2, abs=2)


@pytest.mark.parametrize("length", [1, 159, 160, 161, 4_000, 4_079])
def test_speech_is_never_cut_short_by_the_trimming(length: int) -> None:
    turn = DemoScript.model_validate({"turns": [{"say": ["x"]}]}).turns[0]
    assert len(speak_turn(turn, Constant(length, 500)).samples) == length


@pytest.mark.parametrize("samples", [0, 100, 1600])
def test_a_text_without_sound_is_no_fault(samples: int) -> None:
    turn = DemoScript.model_validate({"turns": [{"say": ["...", 0.1]}]}).turns[0]
    assert len(speak_turn(turn, Constant(samples, 0)).samples) == samples + 1600


# ---------------------------------------------------------------- the user on the clock


def utterances(*lengths: int) -> list[Utterance]:
    return [Utterance(f"turn {i}", np.full(length, 100 + i, np.int16)) for i, length in enumerate(lengths, 1)]


async def listened(user: ScriptedUser, idle_after_s: float | None) -> list[AudioFrame]:
    """Every frame; ``agent_idle`` is called that long after each end of speech (None: never)."""
    frames = []
    told = 0
    async for frame in user.frames():
        frames.append(frame)
        ends = user.speech_ends_s
        if idle_after_s is not None and len(ends) > told and frame.end_s >= ends[-1] + idle_after_s:
            told += 1
            user.agent_idle()
    return frames


def whole(frames: list[AudioFrame]) -> Samples:
    assert [frame.index for frame in frames] == list(range(len(frames)))
    assert all(frame.samples.shape == (FRAME_SAMPLES,) for frame in frames)
    return np.concatenate([frame.samples for frame in frames])


async def test_labelled_ends_of_speech_are_exact_to_the_sample() -> None:
    said = utterances(FRAME_SAMPLES * 10, FRAME_SAMPLES * 7 + 1, FRAME_SAMPLES * 3 - 1)
    user = ScriptedUser(said, 0.6, ManualClock())
    heard = whole(await listened(user, idle_after_s=1.0))
    for number, (end_s, utterance) in enumerate(zip(user.speech_ends_s, said, strict=True), 1):
        places = np.flatnonzero(heard == 100 + number)
        assert len(places) == len(utterance.samples)
        assert np.array_equal(places, np.arange(places[0], places[0] + len(places)))
        assert round(end_s * SAMPLE_RATE) == places[-1] + 1
        assert end_s * SAMPLE_RATE == pytest.approx(places[-1] + 1, abs=1e-6)
    assert np.array_equal(heard, np.concatenate(user.heard))


async def test_the_user_waits_for_the_agent_and_then_leaves_the_gap() -> None:
    said = utterances(FRAME_SAMPLES * 10, FRAME_SAMPLES * 10)
    for wait_s in (0.5, 3.0):
        user = ScriptedUser(said, 0.6, ManualClock())
        heard = whole(await listened(user, idle_after_s=wait_s))
        begins = [np.flatnonzero(heard == 100 + n)[0] / SAMPLE_RATE for n in (1, 2)]
        assert begins[0] == pytest.approx(0.6)
        assert begins[1] - user.speech_ends_s[0] == pytest.approx(wait_s + 0.6, abs=FRAME_S)
        assert len(heard) / SAMPLE_RATE - user.speech_ends_s[1] == pytest.approx(wait_s + 0.6, abs=FRAME_S)


async def test_a_talk_whose_agent_never_becomes_idle_goes_on() -> None:
    user = ScriptedUser(utterances(FRAME_SAMPLES * 10, FRAME_SAMPLES * 10), 0.6, ManualClock())
    heard = whole(await listened(user, idle_after_s=None))
    second = np.flatnonzero(heard == 102)[0] / SAMPLE_RATE
    assert second - user.speech_ends_s[0] == pytest.approx(PATIENCE_S + 0.6, abs=FRAME_S)
    assert len(user.speech_ends_s) == 2


async def test_an_agent_that_falls_idle_in_mid_turn_has_not_answered_it() -> None:
    user = ScriptedUser(utterances(FRAME_SAMPLES * 50, FRAME_SAMPLES * 10), 0.6, ManualClock())
    frames = []
    async for frame in user.frames():
        frames.append(frame)
        if frame.end_s == pytest.approx(1.0):  # in the middle of the first turn
            user.agent_idle()
        if frame.end_s == pytest.approx(4.0):
            user.agent_idle()
    second = np.flatnonzero(whole(frames) == 102)[0] / SAMPLE_RATE
    assert second == pytest.approx(4.0 + 0.6, abs=FRAME_S)


def test_frames_come_when_they_are_due() -> None:
    async def main() -> list[tuple[float, float]]:
        clock = LoopClock()
        user = ScriptedUser(utterances(FRAME_SAMPLES * 5 + 7), 0.1, clock)
        arrived = []
        async for frame in user.frames():
            arrived.append((clock.now(), frame.end_s))
            if user.speech_ends_s:
                user.agent_idle()
            await asyncio.sleep(0)
        return arrived

    for now_s, end_s in clocks.run(main, virtual=True):
        assert now_s == pytest.approx(end_s)


def test_a_script_is_spoken_turn_by_turn(tmp_path: Path) -> None:
    own = script(tmp_path, "turns:\n  - say: [one]\n  - say: [two three, 0.25, four]\n")
    spoken = speak_script(own, ToneVoice())
    assert [(u.text, len(u.samples)) for u in spoken] == [("one", WORD), ("two three four", 3 * WORD + 4_000)]
