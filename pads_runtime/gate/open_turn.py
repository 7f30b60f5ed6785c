"""What is known of the user's open turn. Pure bookkeeping: nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import GateSettings
from ..frames import ActClassified, TranscriptUpdated, TurnEndPredicted
from .overlap import EPSILON_S
from .policy import Evidence, should_prepare
from .premise import canonical, normalise

FRESH_S = 0.3
"""A prediction made before the user fell silent is evidence in the pause that follows for so long after its audio."""


@dataclass(slots=True)
class OpenTurn:
    """From its onset at ``started_s`` to the last voice at ``last_voiced_s``, confirmed or not, and what was read."""

    started_s: float = 0.0
    last_voiced_s: float = 0.0
    confirmed_s: float | None = None
    predicted: TurnEndPredicted | None = None
    transcript: TranscriptUpdated | None = None
    act: ActClassified | None = None

    @property
    def text(self) -> str:
        """The words in the form that the model is given."""
        return canonical(self.transcript.text) if self.transcript else ""

    @property
    def words_complete(self) -> bool:
        """Whether the transcript covers everything said up to the pause."""
        return (
            self.transcript is not None
            and self.transcript.final
            and self.transcript.audio_end_s >= self.last_voiced_s - EPSILON_S
        )

    @property
    def p_end(self) -> float | None:
        """The latest prediction that heard this silence: only such a one may shorten it. A branch is cheap, cutting
        someone off is not."""
        return self.predicted.p_end if self.predicted and self._heard_silence(self.predicted) else None

    def go_on(self) -> None:
        """The user speaks again: the pause and what was said of it are over."""
        self.predicted = self.confirmed_s = None

    def predict(self, event: TurnEndPredicted) -> bool:
        """Keep a prediction, unless a later one is known. It may come before the pause is declared."""
        if self.predicted is not None and event.audio_end_s < self.predicted.audio_end_s:
            return False
        self.predicted = event
        return True

    def worth_preparing(self, now_s: float, settings: GateSettings) -> bool:
        """Whether the signals for the words as they are now pass."""
        heard = normalise(self.transcript.text) if self.transcript else ""
        act = self.act if self.act and normalise(self.act.text) == heard else None
        evidence = Evidence(
            has_words=bool(self.text),
            p_end=self.predicted.p_end if self.predicted and self._counts(self.predicted, now_s) else None,
            p_deep=act.p_deep if act else None,
        )
        return should_prepare(evidence, settings)

    def overdue(self, now_s: float, max_turn_s: float) -> bool:
        """Whether the turn has lasted longer than any may."""
        return now_s >= self.started_s + max_turn_s - EPSILON_S

    def _heard_silence(self, predicted: TurnEndPredicted) -> bool:
        return predicted.audio_end_s >= self.last_voiced_s - EPSILON_S

    def _counts(self, predicted: TurnEndPredicted, now_s: float) -> bool:
        """Whether a prediction may open a branch: it heard this silence, or it is fresh."""
        return self._heard_silence(predicted) or now_s - predicted.audio_end_s <= FRESH_S + EPSILON_S
