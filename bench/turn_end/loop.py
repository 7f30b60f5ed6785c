"""The same silences as the runtime hears them: by its own voice activity, frame by frame, at its own moments of asking.

The reference knows to 10 ms when a voice ended; webrtcvad hears it fade for about 0.1 s more, loses a weak syllable, or
takes the other side's echo for speech. A policy here waits by the runtime's count of silence and is judged by the
reference: its latency includes that lag, and a hold is cut off if the turn was taken before the runtime itself noticed
that the speaker went on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from pads_runtime.config import PadsSettings
from pads_runtime.ears import SHORTEST_SILENCE_S
from pads_runtime.frames import FRAME_S, FRAME_SAMPLES, AudioFrame, Samples, SpeechPaused, SpeechResumed, SpeechStarted
from pads_runtime.turn.voice_activity import WebRtcVoiceActivity

from .activity import Span
from .corpora import Talk
from .policy import Costs, Floats, Policy, tally

LONGEST_WAIT_S = 5.0
_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Tick:
    """One frame of an open turn: ``silence_s`` is what a predictor is told (None: speech)."""

    t_s: float
    silence_s: float | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """One silence as voice activity counts it: from ``start_s`` until voice is declared again at ``until_s``."""

    start_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Heard:
    """A scored silence in the runtime's eyes: ``parts`` in order, their times counted from the speech's real end."""

    talk: str
    hold: bool
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One counted silence: it began ``lag_s`` after the real one (negative: before) and was over at ``until_s``.

    ``answers`` holds (counted silence when asked, p_end), rising.
    """

    lag_s: float
    until_s: float
    answers: tuple[tuple[float, float], ...]


def ticks(samples: Samples, settings: PadsSettings) -> Iterator[Tick]:
    """Every frame of every turn. A turn is closed after the longest wait for a confirmation, as the runtime does."""
    activity = WebRtcVoiceActivity(settings.vad)
    is_open = speaking = False
    for index in range(len(samples) // FRAME_SAMPLES):
        end_s = (index + 1) * FRAME_S
        frame = AudioFrame(samples[index * FRAME_SAMPLES : (index + 1) * FRAME_SAMPLES], index, end_s)
        for event in activity.process(frame):
            speaking = isinstance(event, SpeechStarted | SpeechResumed)
            is_open = is_open or not isinstance(event, SpeechPaused)
        since_s = end_s - activity.last_voiced_s
        if is_open and not speaking and since_s > settings.turn.confirm_max_s:
            activity.end_turn()
            is_open = False
        if is_open:
            short = speaking and since_s < SHORTEST_SILENCE_S - FRAME_S / 2
            yield Tick(round(end_s, 2), None if short else round(since_s, 2))


def quiets(heard: Sequence[Tick]) -> list[Quiet]:
    """The silences in ``heard``, each until voice is declared again, the last one without an end."""
    stretches = groupby(heard, key=lambda tick: None if tick.silence_s is None else round(tick.t_s - tick.silence_s, 2))
    begins = [(start_s, next(group).t_s) for start_s, group in stretches]
    ends = [t_s for _, t_s in begins[1:]] + [float("inf")]
    return [Quiet(start_s, until_s) for (start_s, _), until_s in zip(begins, ends, strict=True) if start_s is not None]


def parts_of(span: Span, counted: Sequence[Quiet], answers: Mapping[float, Sequence[tuple[float, float]]]) -> Heard:
    """What the runtime counted during one silence. ``answers`` by ``Quiet.start_s``.

    On a turn end nobody interrupts: the agent waits for the decision, so the silence begun last goes on.
    """
    mine = [quiet for quiet in counted if quiet.until_s > span.start_s + _EPS and quiet.start_s < span.end_s - _EPS]
    parts = []
    for quiet in mine:
        endless = span.shift and quiet is mine[-1]
        until_s = float("inf") if endless else quiet.until_s - span.start_s
        rows = tuple(answers.get(quiet.start_s, ()))
        parts.append(Part(round(quiet.start_s - span.start_s, 2), until_s, rows))
    return Heard(span.talk, not span.shift, tuple(parts))


def was_cut(heard: Heard, fired_s: float) -> bool:
    """Whether a turn taken at ``fired_s`` (infinite: never) cut the speaker off."""
    return heard.hold and bool(np.isfinite(fired_s))


def fires_s(heard: Heard, policy: Policy, compute_s: float) -> float:
    """Time after the real end of speech at which the turn is taken; infinite if it is not."""
    return float(_fires(heard, policy.threshold, policy.delay_s, np.array([policy.timeout_s]), compute_s)[0])


def costs(spans: Sequence[Heard], policies: Sequence[Policy], compute_s: float) -> Costs:
    """Run every policy over every silence. A turn end that is never taken counts as 5 s."""
    fires = np.empty((len(policies), len(spans)))
    rows: dict[tuple[float | None, float], list[int]] = {}
    for index, policy in enumerate(policies):
        rows.setdefault((policy.threshold, policy.delay_s), []).append(index)
    for (threshold, delay_s), which in rows.items():
        timeouts_s = np.array([policies[i].timeout_s for i in which])
        for place, span in enumerate(spans):
            fires[which, place] = _fires(span, threshold, delay_s, timeouts_s, compute_s)
    return tally(spans, policies, np.minimum(fires, LONGEST_WAIT_S), np.isfinite(fires))


def _fires(heard: Heard, threshold: float | None, delay_s: float, timeouts_s: Floats, compute_s: float) -> Floats:
    """For each timeout."""
    fires = np.full(len(timeouts_s), np.inf)
    for part in reversed(heard.parts):
        crossed_s = next(
            (
                silence_s + compute_s
                for silence_s, p_end in part.answers
                if threshold is not None and silence_s >= delay_s - _EPS and p_end >= threshold
            ),
            float("inf"),
        )
        at = part.lag_s + np.minimum(timeouts_s, crossed_s)
        fires = np.where(at < part.until_s - _EPS, np.maximum(at, 0.0), fires)
    return fires


def channels_of(talk: Talk) -> tuple[str, ...]:
    """The microphones of a talk: one a party, or the one that heard them all."""
    return talk.channels[:1] if talk.mixed else talk.channels
