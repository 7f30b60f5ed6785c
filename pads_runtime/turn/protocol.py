"""What the session asks of voice activity and of a turn-end predictor. Both are owned by one worker thread each."""

from __future__ import annotations

from typing import Protocol

from ..frames import AudioFrame, Samples, SpeechEvent, TurnEndPredicted


class VoiceActivity(Protocol):
    """Turns frames into speech events."""

    def process(self, frame: AudioFrame) -> tuple[SpeechEvent, ...]:
        """Events that this frame brought about (mostly none)."""
        ...

    def end_turn(self) -> None:
        """The turn is over: the next speech is SpeechStarted, not SpeechResumed."""
        ...


class TurnEndPredictor(Protocol):
    """Streams audio into P(the turn ends). Sees the past only."""

    def wants(self, silence_s: float | None) -> bool:
        """Pure and cheap, called for every frame while a turn is open: ask ``update`` now?

        ``silence_s`` is the time since the last voiced frame, None while there is speech. Answers True once per
        moment of its schedule; the count starts anew with each pause.
        """
        ...

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        """Take all samples since the last call (both channels, same length, ending at ``audio_end_s``) and predict.

        The returned ``t_s`` equals ``audio_end_s``; the session restamps it when the answer arrives.
        """
        ...

    def reset(self) -> None:
        """Forget all audio (a gap in the frames, a new session)."""
        ...
