"""The benchmark: every candidate on every corpus and label set, what a call costs, and what the default rule does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime.config import ROOT, PadsSettings, TurnSettings
from pads_runtime.models import Registry
from pads_runtime.turn.endpointing import confirm_after_s
from pads_runtime.turn.smart_turn import SmartTurnPredictor
from pads_runtime.turn.vap import VapPredictor

from . import loop_rows, reliability, rules, score
from .candidates import CANDIDATES, SHIPPED, Candidate, FoldHeads, Networks, Said, answers, moments, phrase_scores
from .completeness import Labels, read_labels, require_all
from .corpora import Talk, mixed_talks, phrases, two_channel_talks
from .kept import Kept
from .metrics import auc
from .policy import Scored, costs, grid, pareto
from .share import Cost, measure_costs

_DEFAULT = Candidate("default", "smart_turn", TurnSettings().predict_at_s, TurnSettings().sure)
LABEL_SETS = ("next_speaker", "completeness")
FOLDS = ROOT / "models" / "vap-turn.folds.npz"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What a run is asked for. ``answers`` is a folder where the networks' answers are kept, None for none."""

    data: Path
    answers: Path | None = None
    loop_only: bool = False
    """Leave out the sweeps on the reference's own clock, the lead and the phrases, which take most of the time."""
    folds: Path = FOLDS


def measure(asked: Asked, settings: PadsSettings, registry: Registry, say: Say) -> dict[str, Any]:
    """All figures as plain data. Raises DataError (corpus, label or fold missing) or ModelError."""
    labels = read_labels()
    two, mixed = two_channel_talks(asked.data / "spokenwoz_sample"), mixed_talks(asked.data / "ami_audio")
    corpora = {"spokenwoz": two, "ami": mixed}
    for talks in corpora.values():
        require_all(labels, (span for talk in talks for span in talk.spans))
    files = (registry.resolve("smart-turn-v3.2"), registry.resolve("vap-turn"), asked.folds)
    kept = Kept(asked.answers, files)
    smart_turn, vap = SmartTurnPredictor(files[0], ()), VapPredictor(files[1], (), 0.0)
    networks = Networks(smart_turn, vap, FoldHeads.load(asked.folds), kept, say)
    heard = {corpus: loop_rows.listen(corpus, talks, networks, settings, labels) for corpus, talks in corpora.items()}
    said = {} if asked.loop_only else {corpus: answers(talks, networks) for corpus, talks in corpora.items()}
    say("timing calls, alone and beside the language model, and streaming the talks beside it")
    spent = measure_costs(two, smart_turn, vap, settings, registry)
    say("scoring")
    found: dict[str, Any] = {"rows": []}
    for corpus in said:
        material = Material(corpus, corpora[corpus], said[corpus], labels)
        found["rows"] += list(_rows(material, spent.calls, settings.turn))
    if said:
        found["lead"] = {name: score.lead(_speech(two, said["spokenwoz"][name])) for name in ("cut", "vap")}
        early = phrase_scores(phrases(asked.data / "vap_phrases"), smart_turn, vap)
        found["vap_phrases_auc_end_against_early"] = {name: round(auc(*kinds), 3) for name, kinds in early.items()}
    cpu_s = spent.calls["smart_turn"].cpu_s
    return found | {
        "in_loop": [
            row for one in heard.values() for row in loop_rows.rows(one, LABEL_SETS, spent.calls, settings.turn)
        ],
        "rules": {
            f"{corpus}, {label_set}": rules.search(one.scored(_DEFAULT, label_set), settings.turn, cpu_s)
            for corpus, one in heard.items()
            for label_set in LABEL_SETS
        },
        "reliability": _reliability(heard["spokenwoz"]),
        "cost": {name: cost.as_ms() for name, cost in spent.calls.items()},
        "cpu_share": spent.shares,
        "real_time_factor_at_10_hz": {name: round(cost.cpu_s * 10, 3) for name, cost in spent.calls.items()},
    }


def _reliability(material: loop_rows.LoopMaterial) -> dict[str, Any]:
    """By label set and source, 0.2 s into each silence as the runtime counts it: a table and its calibration error."""
    found: dict[str, Any] = {}
    for label_set in LABEL_SETS:
        for source in ("smart_turn", "vap"):
            table = reliability.bands(material.said_at(source, label_set, 0.2))
            found.setdefault(label_set, {})[source] = {"bands": table, "error": round(reliability.error(table), 3)}
    return found


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
    for source, moments_s in (("smart_turn", SHIPPED), ("vap", (0.2, 0.3)), ("vap", SHIPPED)):
        spans = material.scored(Candidate(source, source, moments_s), label_set)
        rule = partial(runtime_fires_s, settings=turn, compute_s=spent[source].cpu_s)
        rules.append((f"the runtime's rule, {source} at {', '.join(map(str, moments_s))} s", spans, rule))
    for name, spans, fires_s in rules:
        figures = score.one_policy(spans, fires_s, score.before_the_end)
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
