"""From frames to facts: voice activity, predictor and recogniser, each in its own worker, none awaited by the audio.

Frames go through voice activity one by one; what a turn-end prediction or a transcript needs is handed to its worker
when that is free, and the answer is posted as an event when it arrives.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .aio import Channel, ChannelClosed, Worker
from .asr.protocol import Recognizer
from .audio.protocol import AudioSink, AudioSource
from .clock import Clock
from .config import Costs, PadsSettings
from .frames import (
    FRAME_S,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    AudioFrame,
    Samples,
    SpeechEvent,
    SpeechPaused,
    TranscriptUpdated,
    TurnEndPredicted,
)
from .turn.protocol import TurnEndPredictor, VoiceActivity

SHORTEST_SILENCE_S = 0.1
"""Shorter holes belong to the speech around them: a predictor is not told of them."""
LATE_S = 0.5
"""A prediction that is this old when it arrives is one of a predictor that cannot keep up."""
MIN_TAIL_S = 0.5
"""Silence that always follows the source's end, so that the last word is heard as ended."""

_log = logging.getLogger(__name__)

Heard = SpeechEvent | TranscriptUpdated | TurnEndPredicted


@dataclass(frozen=True)
class Hearing:
    """The models that listen, with the workers that own them."""

    clock: Clock
    costs: Costs
    settings: PadsSettings
    source: AudioSource
    sink: AudioSink
    voice_activity: VoiceActivity
    voice_activity_worker: Worker
    predictor: TurnEndPredictor
    predictor_worker: Worker
    recognizer: Recognizer
    recognizer_worker: Worker


class Ears:
    """Listens until the source ends and ``quiet`` says that nothing more is expected."""

    def __init__(
        self,
        hearing: Hearing,
        spawn: Callable[[Coroutine[Any, Any, Any]], None],
        post: Callable[[Heard], Awaitable[None]],
        muted: Callable[[], bool] = lambda: False,
    ) -> None:
        """``muted`` says whether what comes from the source now counts as silence."""
        self._h = hearing
        self._muted = muted
        self.over_reply = False
        """The open turn is speech over the agent's: what it says is wanted soon."""
        self.lag_s = 0.0
        """How long after its end the latest frame was listened to: what is known of the user is that old."""
        self._reads = hearing.settings.asr.kind != "external"
        self._spawn, self._post = spawn, post
        preroll = round(hearing.settings.vad.preroll_s / FRAME_S)
        self._preroll: deque[AudioFrame] = deque(maxlen=max(1, preroll))
        self._turn: list[Samples] | None = None
        self._turn_start_s = 0.0
        self._turn_end_s = 0.0
        self._speaking = False
        self._last_voiced_s = 0.0
        self._unpredicted: deque[AudioFrame] = deque(maxlen=round(8.0 / FRAME_S))
        self._predicting = False
        self._told_late = False
        self._reading = False
        self._read_until_s = 0.0
        self._final_wanted = False
        self._closing = False

    # ------------------------------------------------------------ told by the session

    def end_turn(self) -> None:
        """The turn is answered or closed: its audio is dropped, the next speech begins a new one."""
        self._turn = None
        self._final_wanted = False
        self._closing = False

    def keep_turn(self) -> None:
        """Speech has been taken for a turn: keep its audio, also if ``end_turn`` came between the two."""
        if self._turn is None:
            self._begin_turn()

    async def confirm(self) -> None:
        """The turn is confirmed: further speech is a start, and the transcript is wanted now at the latest."""
        await self.next_speech_starts()
        if self._turn is not None and self._speaking and not self._closing:
            self._closing = True
            self._request_final()
        elif not self._reads_early:
            self._request_final()

    async def next_speech_starts(self) -> None:
        """The next speech is SpeechStarted, whatever came before."""
        await self._h.voice_activity_worker.run(self._h.voice_activity.end_turn)

    # ------------------------------------------------------------ audio

    async def pump(self, channel: Channel[AudioFrame], quiet: Callable[[], bool], tail_s: float) -> None:
        """Move the source's frames to ``channel``, then silence until ``quiet``, for ``tail_s`` at most."""
        last: AudioFrame | None = None
        frames = self._h.source.frames()
        try:
            async for frame in frames:
                last = replace(frame, samples=np.zeros_like(frame.samples)) if self._muted() else frame
                await channel.put(last)
        finally:  # a source that is left in the middle closes its device now and not some time later
            if isinstance(frames, AsyncGenerator):
                await frames.aclose()
        async for frame in self._silence(last, quiet, tail_s):
            await channel.put(frame)
        await channel.close()

    async def _silence(
        self, last: AudioFrame | None, quiet: Callable[[], bool], tail_s: float
    ) -> AsyncIterator[AudioFrame]:
        index, end_s = (last.index, last.end_s) if last else (-1, self._h.clock.now())
        limit_s = end_s + tail_s
        while end_s < limit_s and not (quiet() and limit_s - end_s < tail_s - MIN_TAIL_S):
            index, end_s = index + 1, end_s + FRAME_S
            await self._h.clock.sleep_until(end_s)
            yield AudioFrame(np.zeros(FRAME_SAMPLES, np.int16), index, end_s)

    async def listen(self, channel: Channel[AudioFrame]) -> None:
        """Take frames from ``channel`` until it closes."""
        next_index = 0
        while True:
            try:
                frame = await channel.get()
            except ChannelClosed:
                return
            if frame.index != next_index:  # frames were dropped: a gap
                self._spawn(self._h.predictor_worker.run(self._h.predictor.reset))
                self._unpredicted.clear()
            next_index = frame.index + 1
            events, self._last_voiced_s = await self._h.voice_activity_worker.run(self._hear, frame)
            self.lag_s = max(0.0, self._h.clock.now() - frame.end_s)
            self._keep(frame)
            for event in events:
                await self._on_speech(event)
            self._predict(frame)
            self._read(frame)

    def _hear(self, frame: AudioFrame) -> tuple[tuple[SpeechEvent, ...], float]:
        """In voice activity's own thread."""
        return self._h.voice_activity.process(frame), self._h.voice_activity.last_voiced_s

    def _keep(self, frame: AudioFrame) -> None:
        self._preroll.append(frame)
        self._unpredicted.append(frame)
        if self._turn is not None:
            self._turn.append(frame.samples)
            self._turn_end_s = frame.end_s

    async def _on_speech(self, event: SpeechEvent) -> None:
        if isinstance(event, SpeechPaused):
            self._speaking = False
            await self._post(event)
            if self._turn is not None and self._reads_early:
                self._request_final()
            return
        self._speaking = True
        self._final_wanted = self._final_wanted and self._closing
        if self._turn is None:
            self._begin_turn()
        await self._post(event)

    def _begin_turn(self) -> None:
        self._turn = [kept.samples for kept in self._preroll]
        self._turn_end_s = self._preroll[-1].end_s
        self._turn_start_s = self._turn_end_s - len(self._turn) * FRAME_S
        self._read_until_s = self._turn_start_s
        start_s = self._turn_start_s
        if self._reads:
            self._spawn(self._h.recognizer_worker.run(self._h.recognizer.begin, start_s))

    # ------------------------------------------------------------ turn end

    def _predict(self, frame: AudioFrame) -> None:
        since_s = frame.end_s - self._last_voiced_s
        silence_s = None if self._speaking and since_s < SHORTEST_SILENCE_S - FRAME_S / 2 else since_s
        if self._turn is None or self._predicting or not self._h.predictor.wants(silence_s):
            return
        frames = list(self._unpredicted)
        self._unpredicted.clear()
        self._predicting = True
        self._spawn(self._run_predictor(frames, silence_s))

    async def _run_predictor(self, frames: list[AudioFrame], silence_s: float | None) -> None:
        h = self._h
        user = np.concatenate([frame.samples for frame in frames])
        end_s = frames[-1].end_s
        agent = h.sink.window(end_s - len(user) / SAMPLE_RATE, end_s)
        try:
            predicted = await h.predictor_worker.run(
                h.predictor.update, user, agent, end_s, silence_s, cost=h.costs.predictor_call_s
            )
        finally:
            self._predicting = False
        age_s = h.clock.now() - end_s
        if age_s > LATE_S and not self._told_late:
            self._told_late = True
            _log.warning("the turn predictor fell behind: its answer came %.2f s after the audio", age_s)
        await self._post(replace(predicted, t_s=h.clock.now()))

    # ------------------------------------------------------------ words

    @property
    def _reads_early(self) -> bool:
        """Before the turn is confirmed. Speech over the agent is always read: words tell what it is."""
        return self._h.settings.asr.begin == "speech" or self.over_reply

    def _request_final(self) -> None:
        self._final_wanted = self._reads
        self._read_final()

    def _read_final(self) -> None:
        if self._final_wanted and not self._reading and self._turn is not None:
            self._final_wanted = False
            self._start_reading(final=True)

    def _read(self, frame: AudioFrame) -> None:
        self._read_final()
        new_s = frame.end_s - self._read_until_s
        busy = self._reading or self._closing
        settings = self._h.settings
        every_s = settings.barge_in.read_every_s if self.over_reply else settings.asr.partial_every_s
        wanted = self._reads and self._reads_early and self._speaking and new_s >= every_s
        if self._turn is None or busy or not wanted:
            return
        self._start_reading(final=False)

    def _start_reading(self, final: bool) -> None:
        assert self._turn is not None
        self._reading = True
        self._read_until_s = self._turn_end_s
        self._spawn(self._run_recognizer(np.concatenate(self._turn), self._turn_end_s, final))

    async def _run_recognizer(self, audio: Samples, end_s: float, final: bool) -> None:
        h = self._h
        window_s = min(len(audio) / SAMPLE_RATE, h.settings.asr.window_s)
        cost_s = h.costs.recognizer_base_s + h.costs.recognizer_per_audio_s * window_s
        turn_start_s = self._turn_start_s
        try:
            heard = await h.recognizer_worker.run(h.recognizer.transcribe, audio, end_s, final, cost=cost_s)
        finally:
            self._reading = False
        if self._turn is not None and self._turn_start_s == turn_start_s:
            await self._post(replace(heard, t_s=h.clock.now()))
        self._read_final()
