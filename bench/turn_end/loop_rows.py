"""The candidates in the runtime's own hearing: sweeps, the runtime's rule, and how often each is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pads_runtime.config import PadsSettings, TurnSettings
from pads_runtime.turn.endpointing import confirm_after_s
from pads_runtime.turn.schedule import PauseSchedule

from . import loop, score
from .candidates import Candidate, Networks
from .completeness import Labels
from .corpora import Ask, Talk, seconds
from .policy import grid, pareto
from .share import Cost

MOMENTS_S = (0.1, 0.16, 0.2, 0.3, 0.5)
SURE = TurnSettings().sure
LOOP_CANDIDATES = (
    Candidate("silence", None),
    Candidate("smart_turn, as shipped", "smart_turn", (0.2, 0.5)),
    Candidate("smart_turn at 0.2, 0.5 s until sure", "smart_turn", (0.2, 0.5), SURE),
    Candidate("smart_turn at 0.16, 0.5 s until sure", "smart_turn", (0.16, 0.5), SURE),
    Candidate("smart_turn at 0.16, 0.3, 0.5 s until sure", "smart_turn", (0.16, 0.3, 0.5), SURE),
    Candidate("smart_turn at 0.1, 0.5 s until sure", "smart_turn", (0.1, 0.5), SURE),
    Candidate("smart_turn at 0.1 s", "smart_turn", (0.1,)),
    Candidate("smart_turn at 0.1, 0.2 s", "smart_turn", (0.1, 0.2)),
    Candidate("smart_turn at 0.1, 0.3 s", "smart_turn", (0.1, 0.3)),
    Candidate("vap at 0.2, 0.3 s", "vap", (0.2, 0.3)),
    Candidate("vap at 0.1, 0.2, 0.3 s", "vap", (0.1, 0.2, 0.3)),
    Candidate("vap at 0.2, 0.5 s", "vap", (0.2, 0.5)),
    Candidate("vap at 0.1, 0.2, 0.3, 0.5 s", "vap", (0.1, 0.2, 0.3, 0.5)),
)
_DELAYS_S = (0.1, 0.2, 0.3)
_EPS = 1e-6


@dataclass(frozen=True)
class Listened:
    """One microphone: its frames, its counted silences, and (counted silence, p_end by source) within each."""

    ticks: tuple[loop.Tick, ...]
    quiets: tuple[loop.Quiet, ...]
    answers: Mapping[float, Sequence[tuple[float, Mapping[str, float]]]]


@dataclass(frozen=True)
class LoopMaterial:
    """One corpus as the runtime heard it; ``microphones`` by talk and channel."""

    corpus: str
    talks: Sequence[Talk]
    microphones: Mapping[tuple[str, str], Listened]
    labels: Labels

    def scored(self, candidate: Candidate, label_set: str) -> list[loop.Heard]:
        """The silences of a label set with the candidate's answers."""
        found = []
        for talk in self.talks:
            for _, span in score.counted(talk.spans, label_set, self.labels):
                channel = loop.channels_of(talk)[0] if talk.mixed else span.channel
                heard = self.microphones[talk.name, channel]
                chosen = {start_s: _only(rows, candidate) for start_s, rows in heard.answers.items()}
                found.append(loop.parts_of(span, heard.quiets, chosen))
        return found

    def said_at(self, source: str, label_set: str, moment_s: float) -> list[tuple[float, bool]]:
        """(p_end, was it a turn end) of the last counted silence that reached ``moment_s``, for each scored silence."""
        found = []
        for heard in self.scored(Candidate(source, source, (moment_s,)), label_set):
            told = [p_end for part in heard.parts for _, p_end in part.answers]
            found += [(told[-1], not heard.hold)] if told else []
        return found

    def asked_per_minute(self, candidate: Candidate) -> float:
        """Questions a minute of one listening microphone; silences that are not scored count as never sure."""
        asked = 0
        for heard in self.microphones.values():
            schedule = PauseSchedule(candidate.moments_s, candidate.enough)
            for tick in heard.ticks:
                if schedule.due(tick.silence_s) and tick.silence_s is not None:
                    asked += 1
                    rows = heard.answers.get(round(tick.t_s - tick.silence_s, 2), ())
                    told = [found for silence_s, found in rows if abs(silence_s - tick.silence_s) < _EPS]
                    if told and candidate.source is not None:
                        schedule.answered(told[0][candidate.source])
        total_s = sum(seconds(talk.samples[name]) for talk in self.talks for name in loop.channels_of(talk))
        return asked / total_s * 60.0


def listen(
    corpus: str, talks: Sequence[Talk], networks: Networks, settings: PadsSettings, labels: Labels
) -> LoopMaterial:
    """Hear ``talks`` with the runtime's voice activity; both networks are asked at ``MOMENTS_S`` of its silences."""
    microphones = {}
    for talk in talks:
        networks.say(f"listening to {talk.name} through voice activity")
        for channel in loop.channels_of(talk):
            ticks = tuple(loop.ticks(talk.samples[channel], settings))
            quiets = tuple(loop.quiets(ticks))
            name = f"loop-{channel} {settings.vad} {settings.turn.confirm_max_s} {MOMENTS_S}"
            rows = networks.kept.get(talk, name, partial(_answers, talk, channel, ticks, quiets, networks))
            answers: dict[float, list[tuple[float, Mapping[str, float]]]] = {}
            for start_s, silence_s, found in rows:
                answers.setdefault(start_s, []).append((silence_s, found))
            microphones[talk.name, channel] = Listened(ticks, quiets, answers)
    return LoopMaterial(corpus, talks, microphones, labels)


def rows(
    material: LoopMaterial, label_sets: Sequence[str], spent: Mapping[str, Cost], turn: TurnSettings
) -> Iterator[dict[str, Any]]:
    """One row a candidate and label set: the sweep, and the runtime's own rule with the settings as they are."""
    policies = grid(delays_s=_DELAYS_S)
    alone = [policy for policy in policies if policy.threshold is None]
    for label_set in label_sets:
        for candidate in LOOP_CANDIDATES:
            spans = material.scored(candidate, label_set)
            cost = None if candidate.source is None else spent[candidate.source]
            compute_s = cost.cpu_s if cost else 0.0
            outcome = loop.costs(spans, policies if cost else alone, compute_s)
            figures = score.trade_off(outcome) | score.carried_over(outcome)
            rule = score.one_policy(spans, partial(confirms_s, settings=turn, compute_s=compute_s), loop.was_cut)
            asked = material.asked_per_minute(candidate)
            yield {
                "corpus": material.corpus,
                "labels": label_set,
                "candidate": candidate.name,
                "heard_by": "voice activity of the runtime",
                "holds": int(outcome.holds.sum()),
                "ends": int(outcome.ends.sum()),
                "asked_per_minute": round(asked, 1),
                "cpu_share": round(asked / 60.0 * (cost.busy_cpu_s if cost else 0.0), 4),
                **{name: figure.as_json() for name, figure in figures.items()},
                **{f"rule_{name}": figure.as_json() for name, figure in rule.items()},
                "front": score.front(outcome, pareto(*outcome.rates(np.ones(len(outcome.talks))))),
            }


def confirms_s(heard: loop.Heard, settings: TurnSettings, compute_s: float) -> float:
    """When the runtime confirms, from the real end of speech: the latest answer that has arrived decides the wait."""
    fires = float("inf")
    for part in reversed(heard.parts):
        due_s = confirm_after_s(None, settings)
        for silence_s, p_end in part.answers:
            if silence_s + compute_s >= due_s:
                break
            due_s = max(silence_s + compute_s, confirm_after_s(p_end, settings))
        if part.lag_s + due_s < part.until_s - 1e-6:
            fires = max(0.0, part.lag_s + due_s)
    return fires


def _only(rows: Sequence[tuple[float, Mapping[str, float]]], candidate: Candidate) -> tuple[tuple[float, float], ...]:
    """The answers at the candidate's moments; frames are 20 ms apart, so a moment may be met a little late."""
    if candidate.source is None:
        return ()
    chosen: list[tuple[float, float]] = []
    for silence_s, found in rows:
        sure = candidate.enough is not None and chosen and chosen[-1][1] >= candidate.enough
        if not sure and any(0.0 <= silence_s - moment + _EPS < 0.02 - _EPS for moment in candidate.moments_s):
            chosen.append((silence_s, found[candidate.source]))
    return tuple(chosen)


def _answers(
    talk: Talk, channel: str, ticks: Sequence[loop.Tick], quiets: Sequence[loop.Quiet], networks: Networks
) -> list[Any]:
    counted = [span for _, span in score.counted(talk.spans, "next_speaker", {})]
    mine = [span for span in counted if talk.mixed or span.channel == channel]
    scored = {
        quiet.start_s
        for quiet in quiets
        if any(quiet.until_s > span.start_s and quiet.start_s < span.end_s for span in mine)
    }
    schedule, found = PauseSchedule(MOMENTS_S), []
    for tick in ticks:
        if schedule.due(tick.silence_s) and tick.silence_s is not None:
            start_s = round(tick.t_s - tick.silence_s, 2)
            if start_s in scored:
                ask = Ask(tick.t_s, tick.silence_s, None)
                told = networks.ask(talk, channel, ask)
                found.append([start_s, tick.silence_s, {name: told[name] for name in ("smart_turn", "vap")}])
    return found
