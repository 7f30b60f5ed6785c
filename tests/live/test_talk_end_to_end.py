"""``pads talk`` for real: a synthesised user in front of a virtual microphone, the virtual loudspeaker recorded.

One talk serves all of it, in the order of the tests' questions. What is judged is what was recorded and what the
trace says, each on its own clock, so that a busy machine makes this slow and not wrong.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soxr

from bench.live.partner import Partner, talking
from bench.live.rig import Rig, Samples
from bench.live.sound import first_sound, last_sound, spoken
from pads_runtime import assemble
from pads_runtime.config import load
from pads_runtime.frames import SAMPLE_RATE, TraceEvent
from pads_runtime.gate.premise import normalise
from pads_runtime.models import Registry
from pads_runtime.speech.hibari_voice import HibariVoice

pytestmark = pytest.mark.slow

QUESTION = "Can you tell me something about the sea?"
BACKCHANNEL = "Mhm."
OTHER_QUESTION = "What should I cook for dinner tonight?"
INTERRUPTION = "No, wait. Tell me about dogs instead."
BACK = "Hello, are you still there?"
INTO_REPLY_S = 1.5
STOPS_WITHIN_S = 0.2
MANY_UNDERRUNS = 5


@dataclass(frozen=True)
class Held:
    """The talk after its end: where in its trace each part of it begins, and what was recorded."""

    partner: Partner
    marks: dict[str, int]
    code: int
    speaker: Samples
    voice: HibariVoice

    def part(self, name: str) -> list[TraceEvent]:
        """What happened from the part's beginning to the next one's."""
        first = self.marks[name]
        return self.partner.events[first : min((m for m in self.marks.values() if m > first), default=None)]

    def one(self, name: str, kind: str) -> TraceEvent:
        (event,) = [event for event in self.part(name) if event.kind == kind]
        return event

    def at(self, event_s: float) -> int:
        """The sample of the speaker's recording at a time of the talk."""
        return self.partner.sample_at(self.partner.speaker, event_s)


@pytest.fixture(scope="module")
def held(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """Hold the talk: a question, a backchannel over its answer, a question whose answer is interrupted, a microphone
    that goes away during the next answer and comes back."""
    voice = HibariVoice()
    marks: dict[str, int] = {}
    with talking(rig, tmp_path_factory.mktemp("talk")) as partner:

        def say(text: str, name: str | None = None) -> None:
            if name is not None:
                marks[name] = partner.mark()
            partner.say(spoken(voice, text)).wait(60)

        say(QUESTION, "asked")
        begun = partner.wait("playback_started", marks["asked"])
        time.sleep(INTO_REPLY_S)
        say(BACKCHANNEL)
        partner.wait(served(begun), marks["asked"])

        say(OTHER_QUESTION, "interrupted")
        begun = partner.wait("playback_started", marks["interrupted"])
        time.sleep(INTO_REPLY_S)
        say(INTERRUPTION)
        partner.wait(served(begun), marks["interrupted"])

        marks["unplugged"] = partner.mark()
        begun = partner.wait("playback_started", marks["unplugged"])
        time.sleep(INTO_REPLY_S / 3)
        rig.unplug("room")
        partner.wait("device_lost", marks["unplugged"])
        partner.wait(served(begun), marks["unplugged"])
        rig.plug("room")
        partner.wait("device_reopened", marks["unplugged"])
        say(BACK, "back")
        partner.wait(lambda event: event.kind in ("reply_committed", "reply_opened"), marks["back"])
        code = partner.end()
        speaker = partner.speaker.samples
    yield Held(partner, marks, code, speaker, voice)


def served(begun: TraceEvent) -> Callable[[TraceEvent], bool]:
    """Whether an event is the end of the reply that began with ``begun``."""
    return lambda event: event.kind == "reply_served" and event.fields["turn"] == begun.fields["turn"]


def words(text: str) -> list[str]:
    return normalise(text).replace("-", " ").split()


def alike(heard: str, said: str) -> float:
    """Share of words that both have, in order."""
    return difflib.SequenceMatcher(None, words(heard), words(said), autojunk=False).ratio()


def recognise(samples: Samples, rate: int) -> str:
    """What our own recogniser makes of a recording."""
    settings = load()
    recognizer = assemble.recognizer(settings.asr, Registry.load())
    quiet = np.zeros(SAMPLE_RATE // 5, np.int16)
    heard = soxr.resample(samples, rate, SAMPLE_RATE)
    recognizer.begin(0.0)
    audio = np.concatenate([quiet, heard, quiet])
    step = 2 * SAMPLE_RATE
    for upto in range(step, len(audio), step):  # as in a talk, so that the window can slide
        recognizer.transcribe(audio[:upto], upto / SAMPLE_RATE, False)
    return recognizer.transcribe(audio, len(audio) / SAMPLE_RATE, True).text


def test_the_reply_to_a_spoken_question_is_heard_in_the_loudspeaker(held: Held) -> None:
    served = held.one("asked", "reply_served").fields
    assert alike(served["user"], QUESTION) > 0.8
    begun, ended = held.one("asked", "playback_started"), held.one("asked", "playback_finished")
    sound = held.speaker[held.at(begun.t_s - 0.1) : held.at(ended.t_s + 0.5)]
    assert len(words(served["agent"])) > 10
    assert alike(recognise(sound, held.partner.speaker.rate), served["agent"]) > 0.75


def test_a_backchannel_over_the_reply_does_not_stop_it(held: Held) -> None:
    begun, ended = held.one("asked", "playback_started"), held.one("asked", "playback_finished")
    over = [event for event in held.part("asked") if begun.t_s < event.t_s < ended.t_s]
    assert {"speech_started", "speech_ignored"} <= {event.kind for event in over}, "it was not even heard"
    assert "reply_interrupted" not in [event.kind for event in held.part("asked")]
    assert ended.fields["text"] == held.one("asked", "reply_generated").fields["text"]
    assert held.one("asked", "reply_served").fields["agent"] == ended.fields["text"]
    assert [event.fields["turn"] for event in held.part("asked") if event.kind == "turn_confirmed"] == [1]


def test_an_interruption_silences_the_loudspeaker_and_the_history_is_what_was_played(held: Held) -> None:
    part = held.part("interrupted")
    begun, cut = held.one("interrupted", "playback_started"), held.one("interrupted", "reply_interrupted")
    *before, last_word = [e for e in part if e.kind in ("reply_held", "reply_resumed", "reply_interrupted")]
    confirmed = before[-1] if before and before[-1].kind == "reply_held" else last_word
    following = next(event for event in held.part("unplugged") if event.kind == "playback_started")

    rate = held.partner.speaker.rate
    bounds = held.at(begun.t_s - 0.1), held.at(following.t_s - 0.05)
    first, last = first_sound(held.speaker, *bounds, level=1), last_sound(held.speaker, *bounds, level=1)
    assert first is not None and last is not None
    late_s = (last - held.at(confirmed.t_s)) / rate
    print(f"silent {late_s * 1000:.0f} ms after the interruption was confirmed")
    assert late_s < STOPS_WITHIN_S

    phrases = [held.voice.synthesize(text) for text in phrases_of(held, begun.fields["turn"])]
    said = np.concatenate([phrase.samples for phrase in phrases])
    played = round(cut.fields["played_s"] * rate)
    assert 0 < played < len(said)
    sounding = len(np.trim_zeros(said[:played], "b"))
    if not before:  # a reply that was held and went on has said a word again
        assert ends_in(held.speaker[first : last + 1], said) == pytest.approx(sounding, abs=0.03 * rate)
    starts = np.cumsum([0, *(len(phrase.samples) for phrase in phrases)])
    ends = [(w.text, at + w.end_sample) for p, at in zip(phrases, starts, strict=False) for w in p.words]
    whole = [text for text, end in ends if end <= played]
    assert held.one("interrupted", "reply_served").fields["agent"] == cut.fields["heard"]
    assert before or cut.fields["heard"] == " ".join(whole)
    assert 0 < len(cut.fields["heard"].split()) < len(ends)


def phrases_of(held: Held, turn: int) -> list[str]:
    return [e.fields["text"] for e in held.partner.events if e.kind == "phrase_ready" and e.fields["turn"] == turn]


def ends_in(recorded: Samples, said: Samples, seen: int = 120, back: int = 24) -> int:
    """The sample of ``said`` up to which it was recorded: where the recording's end is found in it, bit for bit.

    A sound server that stumbles may have put a gap into the last milliseconds; then what is before it counts.
    """
    for cut in range(0, 20 * back, back):
        at = said.tobytes().rfind(recorded[len(recorded) - cut - seen : len(recorded) - cut].tobytes())
        if at >= 0 and at % 2 == 0:
            return at // 2 + seen
    raise AssertionError("what was recorded last is no part of the reply")


def test_the_interruption_is_answered(held: Held) -> None:
    served = held.one("unplugged", "reply_served").fields
    assert alike(served["user"], INTERRUPTION) > 0.7
    assert served["agent"]


def test_a_microphone_unplugged_in_mid_reply_costs_none_of_it_and_is_used_again(held: Held) -> None:
    part = held.part("unplugged")
    lost = next(event for event in part if event.kind == "device_lost")
    assert lost.fields["direction"] == "input"
    ended = held.one("unplugged", "playback_finished")
    assert ended.fields["text"] == held.one("unplugged", "reply_generated").fields["text"]
    heard = [event.fields["text"] for event in held.part("back") if event.kind in ("branch_opened", "reply_opened")]
    assert max(alike(text, BACK) for text in heard) > 0.7


def test_its_end_is_in_order_and_its_record_whole(held: Held) -> None:
    assert held.code == 0
    assert held.partner.events[-1].kind == "session_ended"
    figures = held.partner.figures()
    assert figures["audio"]["input_device"] == "pads_mic"
    assert figures["turns"] >= 3
    printed = held.partner.printed()
    assert "Traceback" not in printed
    assert "PADS was interrupted" in printed


def test_it_does_not_answer_itself_when_the_microphone_hears_its_loudspeaker(
    rig: Rig, tmp_path: Path, held: Held
) -> None:
    """The echo comes back 20 dB softer; the canceller takes it out. ``held`` has ended: the devices are free."""
    with talking(rig, tmp_path, ("audio.echo=webrtc", "engine.max_reply_tokens=30")) as partner, rig.echo(-20.0):
        partner.say(spoken(held.voice, QUESTION))
        partner.wait("reply_served")
        time.sleep(2.0)  # time for a turn of its own voice to be confirmed
        assert partner.end() == 0
    kinds = [event.kind for event in partner.events]
    if partner.figures()["audio"]["output_underruns"] > MANY_UNDERRUNS and kinds.count("turn_confirmed") > 1:
        pytest.skip("the machine is too busy for sound: the loudspeaker stumbled again and again")
    assert kinds.count("turn_confirmed") == 1
    assert kinds.count("reply_served") == 1
    assert "reply_interrupted" not in kinds
