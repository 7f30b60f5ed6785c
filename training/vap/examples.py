"""From recordings to rows: what the heads read at each moment, and what came next.

p_end's target is the hand label of the silence where there is one (complete 1, unfinished 0, ambiguous left out), else
whether the other side spoke next. During speech it is 1 if such a turn end begins within 300 ms. VAP's target is the
class of the next 2 s of both channels; it needs no labels, only two channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.turn_end.activity import STEP_S, Activity, Span
from bench.turn_end.completeness import Label, Labels, label_of
from bench.turn_end.corpora import Ask, Talk, asks, heard
from pads_runtime.turn.vap import BINS, VERSION, VapPredictor

ENDS_WITHIN_S = 0.3
BIN_S = (0.2, 0.4, 0.6, 0.8)
SPEECH_WEIGHT = 0.05
"""A moment of speech against a whole silence: neighbours tell nearly the same, and there are many."""
_BIN_ACTIVE = 0.5

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """Rows of one or more talks. ``end`` is nan where p_end has no target, ``vap`` -1 where VAP has none."""

    features: Floats
    end: Floats
    weight: Floats
    vap: NDArray[np.int64]
    talk: tuple[str, ...]

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """All rows in order."""
        return Rows(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.vap for part in parts]),
            tuple(name for part in parts for name in part.talk),
        )

    def of(self, talks: set[str]) -> Rows:
        """The rows of these talks."""
        kept = np.array([name in talks for name in self.talk], dtype=bool)
        names = tuple(name for name in self.talk if name in talks)
        return Rows(self.features[kept], self.end[kept], self.weight[kept], self.vap[kept], names)


@dataclass(frozen=True)
class Encoder:
    """The frozen encoder in a graph with blank heads; ``sha256`` is that of the network it was cut from."""

    predictor: VapPredictor
    sha256: str
    cache: Path


def rows_of(talk: Talk, labels: Labels, encoder: Encoder, say: Callable[[str], None]) -> Rows:
    """Every moment of every channel of ``talk``; what the encoder answered is kept in its cache for the next run."""
    moments = [(channel, ask) for channel in talk.channels for ask in asks(talk, channel, in_speech=not talk.mixed)]
    path = encoder.cache / f"{talk.name}-{fingerprint(talk, moments, encoder)}.npy"
    if not path.is_file():
        say(f"encoding {talk.name}: {len(moments)} moments")
        read = np.concatenate([_read(talk, channel, ask, encoder.predictor) for channel, ask in moments])
        encoder.cache.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        with beside.open("wb") as file:
            np.save(file, read)
        beside.replace(path)
    share = {index: 1.0 / count for index, count in _counted(moments).items()}
    return Rows(
        np.load(path),
        np.array([end_target(talk, channel, ask, labels) for channel, ask in moments], np.float32),
        np.array([SPEECH_WEIGHT if a.span is None else share[a.span] for _, a in moments], np.float32),
        np.array([vap_target(talk, channel, ask) for channel, ask in moments], np.int64),
        (talk.name,) * len(moments),
    )


def end_target(talk: Talk, channel: str, ask: Ask, labels: Labels) -> float:
    """1, 0, or nan where it cannot be said."""
    if ask.span is not None:
        return _ends(talk.spans[ask.span], labels)
    soon = [s for s in talk.spans if s.channel == channel and 0.0 <= s.start_s - ask.t_s <= ENDS_WITHIN_S]
    return _ends(soon[0], labels) if soon else 0.0


def vap_target(talk: Talk, channel: str, ask: Ask) -> int:
    """Class of the next 2 s, the asked channel's bins first; -1 for mixed talks and past the recording's end."""
    if talk.mixed or len(talk.channels) < 2:
        return -1
    own = talk.channels.index(channel)
    step = round(ask.t_s / STEP_S)
    if step + round(sum(BIN_S) / STEP_S) > talk.active.shape[1]:
        return -1
    bits = []
    others: Activity = np.asarray(np.delete(talk.active, own, axis=0).any(axis=0))
    for row in (talk.active[own], others):
        at = step
        for length_s in BIN_S:
            length = round(length_s / STEP_S)
            bits.append(bool(row[at : at + length].mean() >= _BIN_ACTIVE))
            at += length
    return sum(1 << (2 * BINS - 1 - place) for place, bit in enumerate(bits) if bit)


def fingerprint(talk: Talk, moments: Sequence[tuple[str, Ask]], encoder: Encoder) -> str:
    """Hash of everything a talk's encoded rows depend on."""
    digest = hashlib.sha256(f"{VERSION} {encoder.sha256}".encode())
    for name in talk.channels:
        digest.update(talk.samples[name].tobytes())
    digest.update(repr([(channel, ask.t_s, ask.silence_s) for channel, ask in moments]).encode())
    return digest.hexdigest()[:16]


def _ends(span: Span, labels: Labels) -> float:
    label = label_of(labels, span)
    if label is None:
        return float(span.shift)
    return {Label.COMPLETE: 1.0, Label.UNFINISHED: 0.0, Label.AMBIGUOUS: float("nan")}[label]


def _read(talk: Talk, channel: str, ask: Ask, predictor: VapPredictor) -> Floats:
    user, agent = heard(talk, channel, ask)
    return predictor.answer(user, agent, ask.silence_s)[2]


def _counted(moments: Sequence[tuple[str, Ask]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for _, ask in moments:
        if ask.span is not None:
            counts[ask.span] = counts.get(ask.span, 0) + 1
    return counts
