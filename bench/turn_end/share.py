"""What predictors cost: one call, alone and beside the decoding language model, and the share of a core over a talk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import numpy as np

from pads_runtime import assemble
from pads_runtime.config import PadsSettings, TurnSettings
from pads_runtime.frames import FRAME_S, SAMPLE_RATE, Message, Role, Samples
from pads_runtime.models import Registry
from pads_runtime.turn.protocol import TurnEndPredictor
from pads_runtime.turn.smart_turn import SmartTurnPredictor
from pads_runtime.turn.vap import VapPredictor

from .corpora import Talk
from .loop import channels_of, ticks

MINUTE_S = 60.0
_BACKLOG_S = 8.0


@dataclass(frozen=True)
class Cost:
    """Seconds of one call, alone and while the language model decodes; CPU is this thread's own.

    Latency counts ``cpu_s``: one thread on a free core takes that long, while wall time also measures the neighbours.
    """

    wall_s: float
    cpu_s: float
    busy_wall_s: float
    busy_cpu_s: float

    def as_ms(self) -> dict[str, float]:
        """For the report."""
        figures = {
            "wall_ms": self.wall_s,
            "cpu_ms": self.cpu_s,
            "wall_ms_beside_llm": self.busy_wall_s,
            "cpu_ms_beside_llm": self.busy_cpu_s,
        }
        return {name: round(1e3 * seconds, 2) for name, seconds in figures.items()}


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of one predictor over ``talk_s`` of listening, in speech and in silences of open turns."""

    talk_s: float = 0.0
    speech_s: float = 0.0
    silence_s: float = 0.0
    in_speech_cpu_s: float = 0.0
    in_silence_cpu_s: float = 0.0
    calls: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.talk_s + other.talk_s,
            self.speech_s + other.speech_s,
            self.silence_s + other.silence_s,
            self.in_speech_cpu_s + other.in_speech_cpu_s,
            self.in_silence_cpu_s + other.in_silence_cpu_s,
            self.calls + other.calls,
        )

    def shares(self) -> dict[str, float]:
        """Shares of one core: while the user speaks, in the silences of open turns, and over the whole talk."""
        return {
            "during_speech": round(self.in_speech_cpu_s / max(self.speech_s, FRAME_S), 4),
            "during_pauses": round(self.in_silence_cpu_s / max(self.silence_s, FRAME_S), 4),
            "over_talk": round((self.in_speech_cpu_s + self.in_silence_cpu_s) / max(self.talk_s, FRAME_S), 4),
            "calls": self.calls,
            "talk_s": round(self.talk_s, 1),
        }


def listen(predictor: TurnEndPredictor, user: Samples, agent: Samples, settings: PadsSettings) -> Spent:
    """Stream a recording through ``predictor`` as the runtime does, as fast as it goes, and count its thread's CPU."""
    predictor.reset()
    speech_s = silence_s = in_speech = in_silence = 0.0
    heard = calls = 0
    for tick in ticks(user, settings):
        end = round(tick.t_s * SAMPLE_RATE)
        began = time.thread_time()
        if predictor.wants(tick.silence_s):
            heard = max(heard, end - round(_BACKLOG_S * SAMPLE_RATE))
            predictor.update(user[heard:end], agent[heard:end], tick.t_s, tick.silence_s)
            heard, calls = end, calls + 1
        cpu_s = time.thread_time() - began
        if tick.silence_s is None:
            speech_s, in_speech = speech_s + FRAME_S, in_speech + cpu_s
        else:
            silence_s, in_silence = silence_s + FRAME_S, in_silence + cpu_s
    return Spent(len(user) / SAMPLE_RATE, speech_s, silence_s, in_speech, in_silence, calls)


def shares(
    predictors: dict[str, TurnEndPredictor], channels: Sequence[tuple[Samples, Samples]], settings: PadsSettings
) -> dict[str, dict[str, float]]:
    """By predictor, over the first minute of each (user, agent). Call it while the language model decodes."""
    size = round(MINUTE_S * SAMPLE_RATE)
    found = {}
    for name, predictor in predictors.items():
        spent = [listen(predictor, user[:size], agent[:size], settings) for user, agent in channels]
        each = [part.shares()["over_talk"] for part in spent]
        found[name] = sum(spent, Spent()).shares() | {"over_talk_least": min(each), "over_talk_most": max(each)}
    return found


def call_cost(call: Callable[[], object], runs: int = 30) -> tuple[float, float]:
    """Median (wall, this thread's CPU) seconds of one call, after three that are thrown away."""
    wall, cpu = [], []
    for run in range(runs + 3):
        wall_0, cpu_0 = time.perf_counter(), time.thread_time()
        call()
        if run >= 3:
            wall.append(time.perf_counter() - wall_0)
            cpu.append(time.thread_time() - cpu_0)
    return float(np.median(wall)), float(np.median(cpu))


@dataclass(frozen=True)
class Measured:
    """``calls`` by network ("cut" costs what "vap" does), ``shares`` by predictor at its own rates."""

    calls: dict[str, Cost]
    shares: dict[str, dict[str, float]]


def measure_costs(
    talks: Sequence[Talk], smart_turn: SmartTurnPredictor, vap: VapPredictor, settings: PadsSettings, registry: Registry
) -> Measured:
    """Call costs on one channel of the first talk; shares on the first minute of the first channel of every talk."""
    user = talks[0].samples[talks[0].channels[0]][: round(MINUTE_S / 2 * SAMPLE_RATE)]
    calls: dict[str, Callable[[], object]] = {
        "smart_turn": lambda: smart_turn.completeness(user),
        "vap": lambda: vap.answer(user, user, 0.2),
    }
    channels = [(talk.samples[name], talk.other(name)) for talk in talks for name in channels_of(talk)[:1]]
    streaming = {name: assemble.predictor(turn, registry) for name, turn in _streaming(settings.turn).items()}
    quiet = {name: call_cost(call) for name, call in calls.items()}
    with decoding(settings, registry):
        beside = {name: call_cost(call) for name, call in calls.items()}
        over_talks = shares(streaming, channels, settings)
    spent = {name: Cost(*quiet[name], *beside[name]) for name in calls}
    return Measured(spent | {"cut": spent["vap"]}, over_talks)


def _streaming(turn: TurnSettings) -> dict[str, TurnSettings]:
    always = {"sure": 1.0}  # asked at each moment, however sure it was
    every_100_ms = tuple(round(0.1 * step, 1) for step in range(1, 11))
    return {
        "as set": turn,
        "smart_turn, as shipped": turn.model_copy(
            update={"predictor": "smart_turn", "predict_at_s": (0.2, 0.5), **always}
        ),
        "vap, 10 Hz in speech and in the first second of a pause": turn.model_copy(
            update={"predictor": "vap", "predict_at_s": every_100_ms, "speech_every_s": 0.1, **always}
        ),
    }


@contextmanager
def decoding(settings: PadsSettings, registry: Registry) -> Iterator[None]:
    """The language model writes in another thread for as long as the block lasts."""
    engine = assemble.engine(settings.engine, registry)
    stop = Event()

    def write() -> None:
        seed = 0
        while not stop.is_set():
            seed += 1
            engine.open([Message(Role.USER, "Tell me a long story about the sea.")], seed)
            done = False
            while not done and not stop.is_set():
                done = engine.step().done

    thread = Thread(target=write, name="decoding")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        engine.close()
