"""Turn-end prediction from the length of the silence alone: the baseline that needs no model.

A pause that has lasted s is a turn end with the share pi of pauses that are, or a hold (the same speaker goes on) that
has survived s. If holds end at a constant hazard 1/tau after the shortest pause s0 that is counted, Bayes gives

    logit p_end(s) = logit(pi) + (s - s0) / tau

A turn end itself never runs out: the other side is PADS, which answers only after deciding. pi and tau are estimates
of maximum likelihood on mutual silences of four SpokenWOZ telephone dialogues (41 holds, 105 turn ends), made by
``python -m training.turn.fit_silence``; the measured holds are somewhat shorter at first and longer in the tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..frames import Samples, TurnEndPredicted
from .schedule import PauseSchedule


@dataclass(frozen=True, slots=True)
class SilenceLaw:
    """``turn_share`` = pi, ``hold_s`` = tau (mean rest of a hold), ``shortest_s`` = s0."""

    turn_share: float = 0.719
    hold_s: float = 0.489
    shortest_s: float = 0.2

    def p_end(self, silence_s: float) -> float:
        """P(the turn has ended), given ``silence_s`` seconds of silence so far; rising, in (0, 1)."""
        prior = math.log(self.turn_share / (1.0 - self.turn_share))
        return 1.0 / (1.0 + math.exp(-prior - (silence_s - self.shortest_s) / self.hold_s))


class SilencePredictor:
    """Asked at the moments of ``predict_at_s`` in each pause; keeps no audio."""

    def __init__(self, predict_at_s: Sequence[float], law: SilenceLaw | None = None) -> None:
        self._law = law or SilenceLaw()
        self._schedule = PauseSchedule(predict_at_s)

    def wants(self, silence_s: float | None) -> bool:
        """True once per scheduled length of each pause."""
        return self._schedule.due(silence_s)

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        """p_end of the silence law; 0 while there is speech."""
        p_end = 0.0 if silence_s is None else self._law.p_end(silence_s)
        return TurnEndPredicted(audio_end_s, p_end, audio_end_s)

    def reset(self) -> None:
        """Forget the pause."""
        self._schedule.due(None)
