"""What the session asks of voice activity and of a turn-end predictor. Both are owned by one worker thread each."""

from __future__ import annotations

from typing import Protocol

from ..frames import AudioFrame, Samples, SpeechEvent, TurnEndPredicted


class VoiceActivity(Protocol):
    """Turns frames into speech events."""

    @property
    def last_voiced_s(self) -> float:
        """End of the last voice in the open speech; silence is counted from here, also before it is declared."""
        ...

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

        ``silence_s`` is the time since the last voiced frame, None while there is speech or a hole in it too short
        to count (below 0.1 s). Silence is counted before voice activity declares a pause, so that an early moment can
        be asked about. Answers True once per moment of its schedule; the count starts anew with each silence.
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
