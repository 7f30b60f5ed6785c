"""What each stage of a turn costs on this machine, with all embedded models loaded in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import psutil

from pads_runtime import assemble
from pads_runtime.acts.protocol import ActClassifier
from pads_runtime.asr.protocol import Recognizer
from pads_runtime.config import PadsSettings
from pads_runtime.engine.protocol import ReplyEngine
from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Message, Role, Samples
from pads_runtime.models import Registry
from pads_runtime.process import peak_rss_mb
from pads_runtime.speech.protocol import Synthesizer
from pads_runtime.turn.protocol import TurnEndPredictor, VoiceActivity

from .report import Measurement, measurement
from .timing import timed

Say = Callable[[str], None]

PARTIAL_S = (2, 5, 8)
PARTIAL_LIMIT_MS = 300.0
CLASSIFIER_LIMIT_MS = 5.0
FIRST_PHRASE_LIMIT_MS = 150.0
MEMORY_LIMIT_MB = 1500.0

SAID = (
    "I was thinking about going to the market on Saturday morning, maybe around nine o'clock, because they have "
    "fresh bread and the best apples in town. Could you tell me when it opens and whether I need to bring cash?"
)
PHRASES = (
    "Sure, I can help you.",
    "That sounds great.",
    "What would you like to know?",
    "It is about five minutes from here.",
    "Well, that is a good question,",
    "No problem at all.",
    "The weather is going to be sunny today,",
    "My name is Anna and I live here.",
)
"""Typical first phrases: 3 to 8 words."""


@dataclass(frozen=True)
class LoadedStages:
    """Everything a conversation computes with."""

    voice_activity: VoiceActivity
    predictor: TurnEndPredictor
    recognizer: Recognizer
    acts: ActClassifier
    engine: ReplyEngine
    synthesizer: Synthesizer


def measure(settings: PadsSettings, registry: Registry, runs: int, say: Say) -> list[Measurement]:
    """Load every stage and time each alone, one after the other. Raises PadsError if one cannot be loaded."""
    found: list[Measurement] = []
    stages = _load(settings, registry, found, say)
    speech = _speech(stages.synthesizer, max(PARTIAL_S))
    say("voice activity")
    found += _voice_activity(stages.voice_activity, speech)
    say("turn-end predictor")
    found += _predictor(stages.predictor, speech, runs)
    for seconds in PARTIAL_S:
        say(f"recogniser, {seconds} s")
        found += _recognizer(stages.recognizer, speech[: seconds * SAMPLE_RATE], seconds, runs)
    say("classifier")
    found += _classifier(stages.acts, runs)
    say("language model")
    found += _engine(stages.engine, settings, runs)
    say("first phrase")
    found += _first_phrase(stages.synthesizer, runs)
    stages.engine.close()
    return [*found, *_memory()]


def _load(settings: PadsSettings, registry: Registry, found: list[Measurement], say: Say) -> LoadedStages:
    from pads_runtime.turn.voice_activity import WebRtcVoiceActivity

    loaders: dict[str, Callable[[], Any]] = {
        "predictor": lambda: assemble.predictor(settings.turn, registry),
        "recognizer": lambda: assemble.recognizer(settings.asr, registry),
        "acts": lambda: assemble.acts(settings.acts, registry),
        "engine": lambda: assemble.engine(settings.engine, registry),
        "synthesizer": lambda: assemble.synthesizer(settings.speech, registry),
    }
    loaded: dict[str, Any] = {}
    for name, load in loaders.items():
        say(f"loading {name}")
        before = time.perf_counter()
        loaded[name] = load()
        note = "imports included"
        found.append(measurement(f"load_{name}", [(time.perf_counter() - before) * 1e3], note=note))
    return LoadedStages(voice_activity=WebRtcVoiceActivity(settings.vad), **loaded)


def _speech(voice: Synthesizer, seconds: int) -> Samples:
    """``seconds`` of synthesised speech as the runtime hears it."""
    import soxr

    spoken = voice.synthesize(SAID)
    heard = soxr.resample(spoken.samples, spoken.sample_rate, SAMPLE_RATE)
    return np.asarray(np.resize(heard, seconds * SAMPLE_RATE), np.int16)


def _voice_activity(stage: VoiceActivity, speech: Samples) -> Iterator[Measurement]:
    count = len(speech) // FRAME_SAMPLES
    frames = iter(
        AudioFrame(speech[i * FRAME_SAMPLES : (i + 1) * FRAME_SAMPLES], i, (i + 1) * FRAME_S) for i in range(count)
    )
    warm_up = 50
    spent = timed(lambda: stage.process(next(frames)), count - warm_up, warm_up=warm_up)
    yield measurement("voice_activity_frame", spent.ms)


def _predictor(stage: TurnEndPredictor, speech: Samples, runs: int) -> Iterator[Measurement]:
    silence = np.zeros(SAMPLE_RATE // 5, np.int16)

    def hear() -> None:
        stage.reset()
        stage.update(speech, np.zeros_like(speech), len(speech) / SAMPLE_RATE, None)

    end_s = (len(speech) + len(silence)) / SAMPLE_RATE
    spent = timed(lambda: stage.update(silence, silence, end_s, 0.2), runs, prepare=hear)
    yield measurement("predictor_call", spent.ms)


def _recognizer(stage: Recognizer, speech: Samples, seconds: int, runs: int) -> Iterator[Measurement]:
    rng = np.random.default_rng(seconds)
    audio = speech

    def new_turn() -> None:
        # A recogniser may remember what it has just read; inaudible noise makes every run a reading.
        nonlocal audio
        audio = np.clip(speech + rng.integers(-1, 2, len(speech)), -32768, 32767).astype(np.int16)
        stage.begin(0.0)

    spent = timed(lambda: stage.transcribe(audio, float(seconds), final=False), runs, prepare=new_turn, warm_up=2)
    heard = spent.results[-1].text
    yield measurement(f"recognizer_partial_{seconds}s", spent.ms, limit=PARTIAL_LIMIT_MS, note=f"heard: {heard}")


def _classifier(stage: ActClassifier, runs: int) -> Iterator[Measurement]:
    texts = cycle([*PHRASES, SAID, SAID.lower()])
    spent = timed(lambda: stage.p_deep(next(texts)), runs * 50)
    yield measurement("classifier", spent.ms, limit=CLASSIFIER_LIMIT_MS)


def _engine(stage: ReplyEngine, settings: PadsSettings, runs: int) -> Iterator[Measurement]:
    messages = [Message(Role.SYSTEM, settings.engine.system_prompt), Message(Role.USER, SAID)]
    empty = stage.mark()
    prefill = timed(lambda: stage.follow(messages), runs, prepare=lambda: stage.rollback(empty))
    tokens = prefill.results[-1].prefilled
    per_token = [ms / counts.prefilled for ms, counts in zip(prefill.ms, prefill.results, strict=True)]
    yield measurement("prefill_token", per_token, note=f"in one call of {tokens} tokens")

    known = stage.mark()
    longer = [messages[0], Message(Role.USER, SAID + " And is there a bus")]
    grown = timed(lambda: stage.follow(longer), runs, prepare=lambda: stage.rollback(known))
    yield measurement("prefill_few_words", grown.ms, note=f"one call of {grown.results[-1].prefilled} tokens")

    opened = timed(lambda: stage.open(messages, settings.engine.seed), runs, prepare=lambda: stage.rollback(known))
    yield measurement("reply_header", opened.ms, note=f"one call of {opened.results[-1].prefilled} tokens")
    first = timed(lambda: _first_token(stage, messages, settings), runs, prepare=lambda: stage.rollback(known))
    yield measurement("ttft", first.ms, note="header and first token, the turn's words cached")
    yield measurement("decode_token", _decode(stage, messages, settings, known, runs))
    stage.rollback(empty)


def _first_token(stage: ReplyEngine, messages: list[Message], settings: PadsSettings) -> None:
    stage.open(messages, settings.engine.seed)
    stage.step()


def _decode(stage: ReplyEngine, messages: list[Message], settings: PadsSettings, known: int, runs: int) -> list[float]:
    """Time of each step that ran the model, over replies until ``runs`` replies' worth of 16 tokens is there."""
    spent: list[float] = []
    while len(spent) < runs * 16:
        stage.rollback(known)
        stage.open(messages, settings.engine.seed)
        done, steps = False, 0
        while not done:
            before = time.perf_counter()
            step = stage.step()
            if step.counts.decode_steps:
                spent.append((time.perf_counter() - before) * 1e3)
            done, steps = step.done, steps + 1
        if steps < 2:
            break
    return spent


def _first_phrase(stage: Synthesizer, runs: int) -> Iterator[Measurement]:
    phrases = cycle(PHRASES)
    spent = timed(lambda: stage.synthesize(next(phrases)), runs * 4, warm_up=len(PHRASES))
    yield measurement("first_phrase_synthesized", spent.ms, limit=FIRST_PHRASE_LIMIT_MS, note="3 to 8 words")


def _memory() -> Iterator[Measurement]:
    yield measurement("rss_now", [psutil.Process().memory_info().rss / 1e6], "MB")
    yield measurement("rss_peak", [peak_rss_mb()], "MB", limit=MEMORY_LIMIT_MB, note="all embedded models loaded")
