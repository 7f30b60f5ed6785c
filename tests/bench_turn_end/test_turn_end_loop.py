"""Silences as the runtime hears them, what predictors cost in a stream, and whether p_end means what it says."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.turn_end.activity import Span
from bench.turn_end.candidates import Candidate
from bench.turn_end.corpora import Talk
from bench.turn_end.kept import Kept
from bench.turn_end.loop import Heard, Part, Quiet, Tick, costs, fires_s, parts_of, quiets, ticks, was_cut
from bench.turn_end.loop_rows import Listened, LoopMaterial, confirms_s
from bench.turn_end.policy import Policy
from bench.turn_end.reliability import bands, error, plot
from bench.turn_end.rules import best, outcome, search
from bench.turn_end.share import listen
from pads_runtime.config import PadsSettings, TurnSettings
from pads_runtime.frames import Samples, TurnEndPredicted

FOREVER = float("inf")


def heard(*parts: Part, hold: bool = False) -> Heard:
    return Heard("t", hold, parts)


def voice(*loud_s: tuple[float, float], seconds: float) -> Samples:
    t = np.arange(round(seconds * 16_000)) / 16_000
    tone = sum(np.sin(2 * np.pi * 150 * k * t) / k for k in range(1, 12)) * (1.0 + 0.5 * np.sin(2 * np.pi * 5 * t))
    x = np.random.default_rng(3).standard_normal(len(t)) * 3.0
    for start, end in loud_s:
        where = slice(round(start * 16_000), round(end * 16_000))
        x[where] += tone[where] * 4_000
    return x.astype(np.int16)


def test_silence_is_counted_from_the_last_voice_and_short_holes_are_speech() -> None:
    frames = list(ticks(voice((0.5, 1.5), (1.9, 2.5), seconds=6.0), PadsSettings()))
    found = quiets(frames)
    assert [quiet.start_s for quiet in found] == pytest.approx([1.5, 2.5], abs=0.1)
    assert 1.9 < found[0].until_s < 2.2
    assert found[1].until_s == FOREVER
    assert all(tick.silence_s is None or tick.silence_s >= 0.09 for tick in frames)
    assert frames[-1].t_s - found[1].start_s == pytest.approx(PadsSettings().turn.confirm_max_s, abs=0.03)


def test_consecutive_silences_are_told_apart_by_where_they_began() -> None:
    rows = [Tick(1.0, None), Tick(1.1, 0.1), Tick(1.12, 0.12), Tick(1.14, None), Tick(1.4, 0.1), Tick(3.0, 0.1)]
    assert quiets(rows) == [Quiet(1.0, 1.14), Quiet(1.3, 3.0), Quiet(2.9, FOREVER)]


def test_a_policy_waits_by_the_runtimes_count_and_is_judged_by_the_real_end() -> None:
    late = heard(Part(0.1, FOREVER, ((0.2, 0.9),)))
    assert fires_s(late, Policy(0.5, 0.1, 1.0), 0.05) == pytest.approx(0.35)
    assert fires_s(late, Policy(0.95, 0.1, 1.0), 0.05) == pytest.approx(1.1)
    assert fires_s(late, Policy(0.5, 0.3, 1.0), 0.05) == pytest.approx(1.1)
    early = heard(Part(-0.5, FOREVER, ()))
    assert fires_s(early, Policy(None, 0.0, 0.2), 0.0) == 0.0


def test_a_silence_that_voice_activity_thinks_is_over_decides_nothing_and_the_next_one_may() -> None:
    broken = heard(Part(0.0, 0.4, ((0.3, 0.9),)), Part(0.6, FOREVER, ((0.2, 0.9),)))
    assert fires_s(broken, Policy(0.5, 0.1, 1.0), 0.2) == pytest.approx(1.0)
    assert fires_s(broken, Policy(0.5, 0.1, 1.0), 0.05) == pytest.approx(0.35)


def test_a_hold_is_cut_off_only_before_the_runtime_hears_the_speaker_go_on() -> None:
    hold = heard(Part(0.0, 0.8, ((0.2, 0.9),)), hold=True)
    end = heard(Part(0.0, FOREVER, ((0.2, 0.1),)))
    policies = [Policy(0.5, 0.1, 1.0), Policy(None, 0.0, 0.7), Policy(None, 0.0, 0.9)]
    cut, wait = costs([hold, end], policies, 0.0).rates(np.ones(1))
    assert cut.tolist() == [1.0, 1.0, 0.0]
    assert wait.tolist() == pytest.approx([1.0, 0.7, 0.9])
    assert not was_cut(end, 0.1)


def test_a_turn_end_that_voice_activity_never_hears_counts_as_five_seconds() -> None:
    _, wait = costs([heard(), heard(Part(0.0, 0.3, ()), hold=True)], [Policy(None, 0.0, 0.5)], 0.0).rates(np.ones(1))
    assert wait.tolist() == [5.0]


def test_the_last_silence_of_a_turn_end_goes_on_and_the_others_end_as_they_were_heard() -> None:
    span = Span("t", "A", 10.0, 11.0, 14.0, True)
    counted = [Quiet(8.0, 9.0), Quiet(9.9, 10.4), Quiet(10.6, 11.2), Quiet(13.0, 13.5)]
    found = parts_of(span, counted, {10.6: [(0.2, 0.7)]})
    assert found == Heard("t", False, (Part(-0.1, pytest.approx(0.4), ()), Part(0.6, FOREVER, ((0.2, 0.7),))))


def test_the_runtimes_rule_takes_the_latest_answer_within_each_counted_silence() -> None:
    turn = TurnSettings(confirm_min_s=0.7, confirm_max_s=1.8, sure=0.8, unsure=0.2)
    assert confirms_s(heard(Part(0.1, FOREVER, ((0.2, 0.9), (0.3, 0.1)))), turn, 0.05) == pytest.approx(1.9)
    assert confirms_s(heard(Part(0.1, FOREVER, ((0.2, 0.1), (0.3, 0.9)))), turn, 0.05) == pytest.approx(0.8)
    assert confirms_s(heard(Part(0.0, 0.6, ((0.2, 0.9),))), turn, 0.05) == FOREVER


def test_a_candidate_is_counted_and_scored_at_its_own_moments_until_it_is_sure() -> None:
    samples = np.zeros(60 * 16_000, np.int16)
    span = Span("t", "A", 10.0, 11.0, 14.0, True)
    talk = Talk("t", "two_channel", ("A", "B"), {"A": samples, "B": samples}, np.zeros((2, 1), bool), (span,), False)
    rows = tuple(Tick(round(10.0 + step * 0.02, 2), round(step * 0.02, 2)) for step in range(5, 40))
    told = {10.0: [(0.2, {"vap": 0.9}), (0.3, {"vap": 0.1}), (0.5, {"vap": 0.7})]}
    one = Listened(rows, (Quiet(10.0, FOREVER),), told)
    material = LoopMaterial("c", [talk], {("t", "A"): one, ("t", "B"): Listened((), (), {})}, {})
    keen, patient = Candidate("", "vap", (0.2, 0.5), 0.8), Candidate("", "vap", (0.2, 0.5))
    assert material.scored(keen, "next_speaker")[0].parts[0].answers == ((0.2, 0.9),)
    assert material.scored(patient, "next_speaker")[0].parts[0].answers == ((0.2, 0.9), (0.5, 0.7))
    assert material.asked_per_minute(keen) == pytest.approx(0.5)  # two microphones of a minute, one question
    assert material.asked_per_minute(patient) == pytest.approx(1.0)
    assert material.said_at("vap", "next_speaker", 0.3) == [(0.1, True)]


def test_a_rule_is_chosen_on_other_talks_than_it_is_scored_on() -> None:
    turn = TurnSettings(confirm_min_s=0.7, confirm_max_s=1.8, sure=0.8, unsure=0.2)

    def talk(name: str, hold_s: float) -> list[Heard]:
        unsure = ((0.2, 0.0),)
        hold = [Heard(name, True, (Part(0.0, hold_s, unsure),))]
        return [*hold, Heard(name, False, (Part(0.0, FOREVER, unsure),))]

    spans = [*talk("quick", 1.1), *talk("slow", 1.9)]
    waits = [outcome(spans, (0.7, longest, 0.8, 0.2), turn, 0.0) for longest in (1.2, 1.8, 2.0)]
    assert [one.over([0, 1]) for one in waits] == [(0.5, 1.2), (0.5, 1.8), (0.0, 2.0)]
    assert best(waits, [0]).rule[1] == 1.2
    assert best(waits, [1]).rule[1] == 2.0
    found = search(spans, turn, 0.0)
    assert found["as_set"] == {"cut": 1, "holds": 2, "latency_ms": 1800.0}
    assert found["best_on_the_same_talks"]["cut"] == 0
    assert found["best_on_the_same_talks"]["confirm_max_s"] == 2.0
    # quick is scored under slow's rule (2.0 s), slow under quick's (1.2 s), which cuts it off
    assert found["best_on_the_other_talks"] == {"cut": 1, "holds": 2, "latency_ms": 1600.0}


class Counting:
    """Wants every silence of 0.2 s once; keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int, float]] = []
        self._asked = True

    def wants(self, silence_s: float | None) -> bool:
        due = silence_s is not None and silence_s >= 0.2 - 1e-6 and not self._asked
        self._asked = silence_s is not None and (self._asked or due)
        return due

    def update(self, user: Samples, agent: Samples, audio_end_s: float, silence_s: float | None) -> TurnEndPredicted:
        self.given.append((len(user), len(agent), audio_end_s))
        return TurnEndPredicted(audio_end_s, 0.5, audio_end_s)

    def reset(self) -> None:
        self._asked = False


def test_a_streamed_recording_reaches_the_predictor_whole_and_its_time_is_split_by_speech_and_silence() -> None:
    user = voice((0.5, 1.5), (2.2, 3.0), seconds=6.0)
    predictor = Counting()
    spent = listen(predictor, user, np.zeros_like(user), PadsSettings())
    assert spent.calls == len(predictor.given) == 2
    assert sum(size for size, _, _ in predictor.given) == round(predictor.given[-1][2] * 16_000)
    assert all(size == other for size, other, _ in predictor.given)
    assert spent.talk_s == 6.0
    assert spent.speech_s == pytest.approx(1.8, abs=0.3)
    shares = (spent + spent).shares()
    assert shares["calls"] == 4
    cpu_s = spent.in_speech_cpu_s + spent.in_silence_cpu_s
    assert shares["over_talk"] == pytest.approx(cpu_s / spent.talk_s, abs=1e-4)


def test_bands_hold_what_was_said_and_what_came_of_it() -> None:
    rows = [(0.1, False), (0.9, True), (0.95, False)]
    assert bands(rows) == [
        {"from": 0.0, "to": 0.2, "silences": 1, "said": 0.1, "was": 0.0},
        {"from": 0.8, "to": 1.0, "silences": 2, "said": 0.925, "was": 0.5},
    ]
    assert error(bands(rows)) == pytest.approx((0.1 + 2 * 0.425) / 3)
    assert math.isnan(error([]))


def test_the_reliability_plot_is_an_image_with_a_point_for_each_band() -> None:
    table = bands([(0.3, True), (0.7, False)])
    root = ElementTree.fromstring(plot({"one <1>": table, "two": []}, "Reliability"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["one <1>: 1 silences, said 0.3, was 1.0", "one <1>: 1 silences, said 0.7, was 0.0"]


def test_answers_are_kept_by_what_they_depend_on(tmp_path: Path) -> None:
    def talk(value: int) -> Talk:
        samples = {"A": np.full(100, value, np.int16)}
        return Talk("t", "two_channel", ("A",), samples, np.zeros((1, 1), bool), (), False)

    model = tmp_path / "model"
    model.write_bytes(b"one")
    made: list[int] = []

    def make() -> list[int]:
        made.append(len(made))
        return list(made)

    kept = Kept(tmp_path / "answers", (model,))
    first = kept.get(talk(1), "all", make)
    assert kept.get(talk(1), "all", make) == first == [0]
    kept.get(talk(2), "all", make)
    kept.get(talk(1), "other", make)
    model.write_bytes(b"two")
    kept.get(talk(1), "all", make)
    assert made == [0, 1, 2, 3]
    for path in (tmp_path / "answers").iterdir():
        path.write_text("{torn", encoding="utf-8")
    assert kept.get(talk(1), "all", make) == [0, 1, 2, 3, 4]
    assert Kept(None).get(talk(1), "all", make) == [0, 1, 2, 3, 4, 5]
