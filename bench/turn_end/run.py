"""The benchmark: every candidate on every corpus and label set, what a call costs, and what the default rule does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from pads_runtime import assemble
from pads_runtime.config import ROOT, PadsSettings, TurnSettings
from pads_runtime.frames import Message, Role
from pads_runtime.models import Registry
from pads_runtime.turn.endpointing import confirm_after_s
from pads_runtime.turn.smart_turn import SmartTurnPredictor
from pads_runtime.turn.vap import VapPredictor

from . import score
from .candidates import CANDIDATES, Candidate, FoldHeads, Said, answers, call_cost, moments, phrase_scores
from .completeness import Labels, read_labels, require_all
from .corpora import Talk, mixed_talks, phrases, seconds, two_channel_talks
from .metrics import auc
from .policy import Scored, costs, grid, pareto

LABEL_SETS = ("next_speaker", "completeness")
FOLDS = ROOT / "models" / "vap-turn.folds.npz"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Cost:
    """Seconds of one call, alone and while the language model decodes; CPU is this thread's own.

    Latency counts ``cpu_s``: one thread on a free core takes that long, while wall time also measures the neighbours.
    """

    wall_s: float
    cpu_s: float
    busy_wall_s: float
    busy_cpu_s: float


def measure(data: Path, settings: PadsSettings, registry: Registry, say: Say, folds: Path = FOLDS) -> dict[str, Any]:
    """All figures as plain data. Raises DataError (corpus, label or fold missing) or ModelError."""
    labels = read_labels()
    corpora = {"spokenwoz": two_channel_talks(data / "spokenwoz_sample"), "ami": mixed_talks(data / "ami_audio")}
    questions = phrases(data / "vap_phrases")
    for talks in corpora.values():
        require_all(labels, (span for talk in talks for span in talk.spans))
    smart_turn = SmartTurnPredictor(registry.resolve("smart-turn-v3.2"), ())
    vap = VapPredictor(registry.resolve("vap-turn"), (), 0.0)
    heads = FoldHeads.load(folds)
    spent = _costs(corpora["spokenwoz"][0], smart_turn, vap, settings, registry, say)
    rows: list[dict[str, Any]] = []
    leads: dict[str, Any] = {}
    for corpus, talks in corpora.items():
        said = answers(talks, smart_turn, vap, heads, say)
        say(f"scoring {corpus}")
        rows += list(_rows(Material(corpus, talks, said, labels), spent, settings.turn))
        if corpus == "spokenwoz":
            leads = {name: score.lead(_speech(talks, said[name])) for name in ("cut", "vap")}
    early = phrase_scores(questions, smart_turn, vap)
    return {
        "rows": rows,
        "lead": leads,
        "vap_phrases_auc_end_against_early": {name: round(auc(*kinds), 3) for name, kinds in early.items()},
        "cost": {name: {k: round(v * 1e3, 2) for k, v in _as_dict(cost).items()} for name, cost in spent.items()},
        "cpu_share": _shares(corpora["spokenwoz"], spent),
        "real_time_factor_at_10_hz": {name: round(cost.cpu_s * 10, 3) for name, cost in spent.items()},
    }


@dataclass(frozen=True)
class Material:
    """One corpus with everything said about it."""

    corpus: str
    talks: Sequence[Talk]
    said: dict[str, Said]
    labels: Labels

    def scored(self, candidate: Candidate, label_set: str) -> list[Scored]:
        """The silences of a label set with the candidate's answers."""
        return _scored(self.talks, candidate, self.said, label_set, self.labels)


def _rows(material: Material, spent: dict[str, Cost], turn: TurnSettings) -> Iterator[dict[str, Any]]:
    policies = grid()
    alone = [policy for policy in policies if policy.threshold is None]
    for label_set in LABEL_SETS:
        for candidate in CANDIDATES:
            spans = material.scored(candidate, label_set)
            compute_s = 0.0 if candidate.source is None else spent[candidate.source].cpu_s
            outcome = costs(spans, alone if candidate.source is None else policies, compute_s)
            figures = score.trade_off(outcome) | score.carried_over(outcome) | score.classification(spans)
            yield {
                "corpus": material.corpus,
                "labels": label_set,
                "candidate": candidate.name,
                "holds": int(outcome.holds.sum()),
                "ends": int(outcome.ends.sum()),
                "compute_ms": round(compute_s * 1e3, 2),
                **{name: figure.as_json() for name, figure in figures.items()},
                "front": score.front(outcome, pareto(*outcome.rates(np.ones(len(outcome.talks))))),
            }
        yield from _fixed(material, label_set, spent, turn)


def _fixed(material: Material, label_set: str, spent: dict[str, Cost], turn: TurnSettings) -> Iterator[dict[str, Any]]:
    """Rules with nothing to sweep: always, never, and the runtime's own endpointing with each predictor."""
    silent = material.scored(CANDIDATES[0], label_set)
    rules: list[tuple[str, list[Scored], Callable[[Scored], float]]] = [
        ("always (0.1 s)", silent, lambda span: 0.1),
        ("never (5 s)", silent, lambda span: 5.0),
    ]
    for name, source in (("smart_turn", "smart_turn"), ("vap", "vap")):
        spans = material.scored(Candidate(name, source, turn.predict_at_s), label_set)
        rule = partial(runtime_fires_s, settings=turn, compute_s=spent[source].cpu_s)
        rules.append((f"default rule with {name}", spans, rule))
    for name, spans, fires_s in rules:
        figures = score.one_policy(spans, fires_s)
        shown = {key: figure.as_json() for key, figure in figures.items()}
        yield {"corpus": material.corpus, "labels": label_set, "candidate": name, "rule": True, **shown}


def runtime_fires_s(span: Scored, settings: TurnSettings, compute_s: float) -> float:
    """When the runtime would confirm: the latest answer that has arrived decides how long to wait."""
    due_s = confirm_after_s(None, settings)
    for moment, p_end in zip(span.moments_s, span.p_end, strict=True):
        if moment + compute_s >= due_s:
            break
        due_s = max(moment + compute_s, confirm_after_s(p_end, settings))
    return due_s


def _scored(
    talks: Sequence[Talk], candidate: Candidate, said: dict[str, Said], label_set: str, labels: Labels
) -> list[Scored]:
    found = []
    for talk in talks:
        for index, span in score.counted(talk.spans, label_set, labels):
            rows = (
                ()
                if candidate.source is None
                else moments(said[candidate.source], talk.name, index, candidate.moments_s)
            )
            found.append(
                Scored(talk.name, not span.shift, span.length_s, tuple(m for m, _ in rows), tuple(p for _, p in rows))
            )
    return found


def _speech(talks: Sequence[Talk], said: Said) -> list[score.Speech]:
    found = []
    for talk in talks:
        for channel in talk.channels:
            ends = [i for i, span in enumerate(talk.spans) if span.channel == channel and span.shift]
            found.append(
                score.Speech(
                    talk.name,
                    said.speech.get((talk.name, channel), ()),
                    tuple(talk.spans[i].start_s for i in ends),
                    tuple(said.pause.get((talk.name, i), ()) for i in ends),
                )
            )
    return found


def _costs(
    talk: Talk, smart_turn: SmartTurnPredictor, vap: VapPredictor, settings: PadsSettings, registry: Registry, say: Say
) -> dict[str, Cost]:
    say("timing calls, alone and beside the language model")
    user = talk.samples[talk.channels[0]][: 16_000 * 30]
    calls: dict[str, Callable[[], object]] = {
        "smart_turn": lambda: smart_turn.completeness(user),
        "vap": lambda: vap.answer(user, user, 0.2),
    }
    quiet = {name: call_cost(call) for name, call in calls.items()}
    with _decoding(settings, registry):
        busy = {name: call_cost(call) for name, call in calls.items()}
    spent = {name: Cost(*quiet[name], *busy[name]) for name in calls}
    return spent | {"cut": spent["vap"]}


@contextmanager
def _decoding(settings: PadsSettings, registry: Registry) -> Iterator[None]:
    """The language model writes in another thread for as long as the block lasts."""
    engine = assemble.engine(settings.engine, registry)
    stop = Event()

    def write() -> None:
        seed = 0
        while not stop.is_set():
            seed += 1
            engine.open([Message(Role.USER, "Tell me a long story about the sea.")], seed)
            done = False
            while not done and not stop.is_set():
                done = engine.step().done

    thread = Thread(target=write, name="decoding")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        engine.close()


def _shares(talks: Sequence[Talk], spent: dict[str, Cost]) -> dict[str, float]:
    """Share of one core over the talks, for one listening channel, beside a decoding model."""
    total = sum(seconds(talk.samples[name]) for talk in talks for name in talk.channels)
    speech = sum(float(talk.active.sum()) * 0.01 for talk in talks)
    pauses = [min(1.0, span.resume_s - span.start_s) for talk in talks for span in talk.spans]
    every = sum(int(p * 10 + 1e-6) for p in pauses)
    shipped = sum((p >= 0.2) + (p >= 0.5) for p in pauses)
    few = sum(sum(p >= at - 1e-6 for at in (0.1, 0.2, 0.3, 0.5)) for p in pauses)
    vap, smart_turn = spent["vap"].busy_cpu_s, spent["smart_turn"].busy_cpu_s
    calls = {
        "smart_turn_as_shipped": shipped * smart_turn,
        "smart_turn_every_100ms_of_pauses": every * smart_turn,
        "vap_at_0.2_0.5": shipped * vap,
        "vap_at_0.1_0.2_0.3_0.5": few * vap,
        "vap_every_100ms_of_pauses": every * vap,
        "vap_10_hz_speech_and_pauses": (every + speech * 10) * vap,
    }
    return {name: round(float(spent_s) / total, 4) for name, spent_s in calls.items()}


def _as_dict(cost: Cost) -> dict[str, float]:
    return {
        "wall_ms": cost.wall_s,
        "cpu_ms": cost.cpu_s,
        "wall_ms_beside_llm": cost.busy_wall_s,
        "cpu_ms_beside_llm": cost.busy_cpu_s,
    }
