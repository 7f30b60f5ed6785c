"""The parts of a conversation, and the worker threads that own those of them that compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .acts.protocol import ActClassifier
from .aio import Worker
from .asr.protocol import Recognizer
from .audio.protocol import AudioSink, AudioSource
from .clock import Clock
from .config import Costs, PadsSettings
from .ears import Hearing
from .engine.protocol import ReplyEngine
from .reply import Splitter, Voice
from .speech.protocol import Synthesizer
from .turn.protocol import TurnEndPredictor, VoiceActivity


@dataclass(frozen=True)
class Stages:
    """The parts of a conversation. The session owns them: it closes the engine and the sink."""

    source: AudioSource
    sink: AudioSink
    voice_activity: VoiceActivity
    predictor: TurnEndPredictor
    recognizer: Recognizer
    acts: ActClassifier
    engine: ReplyEngine
    synthesizer: Synthesizer
    splitter: Callable[[], Splitter]


class Crew:
    """One worker a model, for one conversation."""

    def __init__(self, stages: Stages, settings: PadsSettings, costs: Costs, clock: Clock) -> None:
        self.stages, self.settings, self.costs, self.clock = stages, settings, costs, clock
        self.acts, self.engine = Worker("acts"), Worker("engine")
        self._voice_activity, self._predictor = Worker("vad"), Worker("predictor")
        self._recognizer, self._speech = Worker("recognizer"), Worker("speech")

    def hearing(self) -> Hearing:
        """What listens."""
        s = self.stages
        return Hearing(
            clock=self.clock,
            costs=self.costs,
            settings=self.settings,
            source=s.source,
            sink=s.sink,
            voice_activity=s.voice_activity,
            voice_activity_worker=self._voice_activity,
            predictor=s.predictor,
            predictor_worker=self._predictor,
            recognizer=s.recognizer,
            recognizer_worker=self._recognizer,
        )

    def voice(self) -> Voice:
        """What answers."""
        s = self.stages
        return Voice(
            clock=self.clock,
            costs=self.costs,
            engine=s.engine,
            engine_worker=self.engine,
            synthesizer=s.synthesizer,
            synthesizer_worker=self._speech,
            splitter=s.splitter,
            sink=s.sink,
            ahead=self.settings.speech.ahead,
        )

    def stop(self) -> None:
        """No more jobs; those that run are left to end."""
        for worker in (self._voice_activity, self._predictor, self._recognizer, self.acts, self.engine, self._speech):
            worker.stop(timeout_s=0.0)
