"""What each predictor says at each moment, and which moments a candidate is asked at.

Two networks are run once over everything: smart-turn as shipped (8 s), and the graph of ``pads_runtime.turn.vap``. One
pass of the latter gives smart-turn's own answer on 4 s and what the trained heads read. The heads that score a talk are
the fold's that was trained without it, so no figure comes from a talk its weights have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pads_runtime.errors import DataError
from pads_runtime.turn.smart_turn import SmartTurnPredictor
from pads_runtime.turn.vap import VapPredictor

from .corpora import Ask, Phrase, Talk, asks, heard
from .kept import Kept
from .score import counted

EVERY_100_MS = tuple(round(0.1 * step, 1) for step in range(1, 11))
SHIPPED = (0.2, 0.5)
EARLY = (0.1, 0.2)
FEW = (0.1, 0.2, 0.3, 0.5)
_EPS = 1e-6


@dataclass(frozen=True)
class Said:
    """Answers of one source: p_end by talk, channel and moment; ``pause`` by span index, ``speech`` by time."""

    pause: Mapping[tuple[str, int], tuple[tuple[float, float], ...]]
    speech: Mapping[tuple[str, str], tuple[tuple[float, float], ...]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source asked at some lengths of a pause; ``source`` None is silence alone.

    An answer of ``enough`` ends the questions of its pause (None: they go on).
    """

    name: str
    source: str | None
    moments_s: tuple[float, ...] = ()
    enough: float | None = None


CANDIDATES = (
    Candidate("silence", None),
    Candidate("smart_turn, as shipped", "smart_turn", SHIPPED),
    Candidate("smart_turn at 0.2 s", "smart_turn", (0.2,)),
    Candidate("smart_turn at 0.1, 0.2 s", "smart_turn", EARLY),
    Candidate("smart_turn every 0.1 s", "smart_turn", EVERY_100_MS),
    Candidate("smart_turn cut to 4 s, every 0.1 s", "cut", EVERY_100_MS),
    Candidate("vap at 0.2 s", "vap", (0.2,)),
    Candidate("vap at 0.2, 0.3 s", "vap", (0.2, 0.3)),
    Candidate("vap at 0.2, 0.5 s", "vap", SHIPPED),
    Candidate("vap at 0.1, 0.2, 0.3, 0.5 s", "vap", FEW),
    Candidate("vap every 0.1 s", "vap", EVERY_100_MS),
)


@dataclass(frozen=True)
class FoldHeads:
    """p_end's weights by the talk they were trained without."""

    weights: Mapping[str, NDArray[np.float32]]

    @staticmethod
    def load(path: Path) -> FoldHeads:
        """Read ``vap-turn.folds.npz``. Raises DataError if it is not there."""
        if not path.is_file():
            raise DataError(f"fold heads '{path}' not found; train them: ./scripts/train vap --data DIR")
        with np.load(path, allow_pickle=False) as kept:
            return FoldHeads({name: kept[name] for name in kept.files})

    def p_end(self, talk: str, features: NDArray[np.float32]) -> float:
        """Answer of the head that has not seen ``talk``. Raises DataError if every head has."""
        if talk not in self.weights:
            raise DataError(f"no fold head was trained without '{talk}'; train again with it in the data")
        row = self.weights[talk].astype(np.float64)
        return float(1.0 / (1.0 + np.exp(-(features.reshape(-1) @ row[:-1] + row[-1]))))


@dataclass(frozen=True)
class Networks:
    """What is asked, and where its answers are kept."""

    smart_turn: SmartTurnPredictor
    vap: VapPredictor
    folds: FoldHeads
    kept: Kept
    say: Callable[[str], None]

    def ask(self, talk: Talk, channel: str, ask: Ask, smart_turn: bool = True) -> dict[str, float]:
        """p_end by source."""
        user, agent = heard(talk, channel, ask)
        features = self.vap.answer(user, agent, ask.silence_s)[2]
        found = {"cut": float(1.0 / (1.0 + np.exp(-features[0, 0]))), "vap": self.folds.p_end(talk.name, features)}
        if smart_turn:
            found["smart_turn"] = self.smart_turn.completeness(user)
        return found


def answers(talks: Sequence[Talk], networks: Networks) -> dict[str, Said]:
    """Run both networks over all moments of ``talks``."""
    pause: dict[str, dict[tuple[str, int], list[tuple[float, float]]]] = {"smart_turn": {}, "cut": {}, "vap": {}}
    speech: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {"cut": {}, "vap": {}}
    for talk in talks:
        networks.say(f"listening to {talk.name}")
        rows = networks.kept.get(talk, "all", partial(_all_moments, talk, networks))
        for channel, t_s, silence_s, span, found in rows:
            for source, p_end in found.items():
                if span is not None:
                    pause[source].setdefault((talk.name, span), []).append((silence_s, p_end))
                else:
                    speech[source].setdefault((talk.name, channel), []).append((t_s, p_end))
    return {
        source: Said(
            {key: tuple(rows) for key, rows in found.items()},
            {key: tuple(rows) for key, rows in speech.get(source, {}).items()},
        )
        for source, found in pause.items()
    }


def _all_moments(talk: Talk, networks: Networks) -> list[Any]:
    """The whole smart-turn is asked in the silences that are scored only: it takes most of the time."""
    scored = {index for index, _ in counted(talk.spans, "next_speaker", {})}
    return [
        [channel, ask.t_s, ask.silence_s, ask.span, networks.ask(talk, channel, ask, ask.span in scored)]
        for channel in talk.channels
        for ask in asks(talk, channel, in_speech=not talk.mixed)
    ]


def phrase_scores(
    phrases: Sequence[Phrase], smart_turn: SmartTurnPredictor, vap: VapPredictor
) -> dict[str, tuple[list[float], list[float]]]:
    """By source: p_end at the ends of all phrases, and at the early points the long ones pass; no silence heard."""
    found: dict[str, tuple[list[float], list[float]]] = {"smart_turn": ([], []), "cut": ([], []), "vap": ([], [])}
    nobody = np.zeros(0, np.int16)
    for phrase in phrases:
        for kind, at_s in enumerate((phrase.end_s, phrase.early_s)):
            if at_s is None:
                continue
            user = phrase.samples[: round(at_s * 16_000)]
            p_end, _, features = vap.answer(user, nobody, None)
            found["vap"][kind].append(p_end)
            found["cut"][kind].append(float(1.0 / (1.0 + np.exp(-features[0, 0]))))
            found["smart_turn"][kind].append(smart_turn.completeness(user))
    return found


def moments(said: Said, talk: str, span: int, wanted_s: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """(silence, p_end) pairs of one silence at the wanted lengths."""
    rows = said.pause.get((talk, span), ())
    return tuple(row for row in rows if any(abs(row[0] - wanted) < _EPS for wanted in wanted_s))
