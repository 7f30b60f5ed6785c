"""Speech over the agent as it really sounds: a synthesised user, voice activity and the recogniser as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soxr

from pads_runtime import assemble
from pads_runtime import clock as clocks
from pads_runtime.audio.source import SamplesSource
from pads_runtime.clock import LoopClock
from pads_runtime.config import load
from pads_runtime.frames import SAMPLE_RATE, Samples, TraceEvent
from pads_runtime.models import Registry
from pads_runtime.session import Session
from pads_runtime.testing import COSTS, FixedPredictor, MemorySink, Script, WordEngine, fake_stages
from pads_runtime.trace import Trace
from pads_runtime.turn.voice_activity import WebRtcVoiceActivity

pytestmark = pytest.mark.slow
REPLY_WORDS = 30
"""6 s of sound."""


def placed(voice: object, *utterances: tuple[float, str], noise_s: tuple[float, float] | None = None) -> Samples:
    """The user's side: each text at its time, over a faint room; perhaps a stretch of a loud hiss."""
    random = np.random.default_rng(7)
    out = random.normal(0.0, 15.0, 14 * SAMPLE_RATE)
    for at_s, text in utterances:
        spoken = voice.synthesize(text)  # type: ignore[attr-defined]
        heard = soxr.resample(spoken.samples.astype(np.float32), spoken.sample_rate, SAMPLE_RATE)
        first = round(at_s * SAMPLE_RATE)
        out[first : first + len(heard)] += heard
    if noise_s is not None:
        first, last = (round(t_s * SAMPLE_RATE) for t_s in noise_s)
        out[first:last] += random.normal(0.0, 3000.0, last - first)
    return out.clip(-32768, 32767).astype(np.int16)


@pytest.fixture(scope="module")
def parts() -> tuple[object, object]:
    settings, registry = load(), Registry.load()
    return assemble.synthesizer(settings.speech, registry), assemble.recognizer(settings.asr, registry)


def hold(parts: tuple[object, object], user: Samples) -> tuple[Session, list[TraceEvent], MemorySink]:
    trace, sink = Trace(), MemorySink()
    settings = load()

    async def main() -> Session:
        clock = LoopClock()
        stages = replace(
            fake_stages(Script((), 0.0), clock),
            source=SamplesSource(user, clock),
            sink=sink,
            voice_activity=WebRtcVoiceActivity(settings.vad),
            predictor=FixedPredictor(0.9),
            recognizer=parts[1],
            engine=WordEngine(REPLY_WORDS),
        )
        session = Session(stages, settings, COSTS, clock, trace)
        await session.run()
        return session

    return clocks.run(main, virtual=True), trace.events, sink


def kinds(events: list[TraceEvent], kind: str) -> list[TraceEvent]:
    return [event for event in events if event.kind == kind]


@pytest.mark.parametrize("text", ["uh-huh", "mhm", "yeah", "okay"])
def test_a_spoken_backchannel_leaves_the_reply_whole(parts: tuple[object, object], text: str) -> None:
    """Whatever is read in it: the small recogniser writes "a hoe" and "Thomas"."""
    session, events, _ = hold(parts, placed(parts[0], (0.5, "What is the time in London?"), (5.0, text)))
    assert kinds(events, "reply_interrupted") == kinds(events, "reply_held") == []
    assert len(kinds(events, "speech_ignored")) == 1
    assert len(session.history) == 2 and len(session.history[1].text.split()) == REPLY_WORDS


@pytest.mark.parametrize("text", ["Stop.", "No, wait, that is not what I meant."])
def test_spoken_words_stop_the_reply_within_a_second_of_their_onset(parts: tuple[object, object], text: str) -> None:
    session, events, sink = hold(parts, placed(parts[0], (0.5, "What is the time in London?"), (5.0, text)))
    (cut,) = kinds(events, "reply_interrupted")
    onset_s = next(e.fields["onset_s"] for e in kinds(events, "speech_started") if e.fields["onset_s"] > 4.5)
    assert 0.4 <= cut.t_s - onset_s <= 1.0
    first_reply = [(s, len(x) / sink.sample_rate) for s, x in sink.played if s < cut.t_s]
    assert max(s + length for s, length in first_reply) <= cut.t_s + 1e-6  # not a sample later
    assert round(sum(length for _, length in first_reply) / 0.2 - 0.5) == len(session.history[1].text.split())
    assert session.history[2].text.lower().startswith(text.split()[0].lower().strip(".,"))


def test_a_hiss_without_words_holds_the_reply_at_most_and_all_of_it_is_said(parts: tuple[object, object]) -> None:
    user = placed(parts[0], (0.5, "What is the time in London?"), noise_s=(4.6, 5.8))
    session, events, _ = hold(parts, user)
    assert kinds(events, "reply_interrupted") == []
    assert len(kinds(events, "reply_held")) == len(kinds(events, "reply_resumed"))
    assert len(session.history) == 2 and len(session.history[1].text.split()) == REPLY_WORDS
