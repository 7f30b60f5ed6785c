"""The benchmark's arithmetic on hand-made silences whose right answers can be counted on fingers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.turn_end.activity import Span, activity, spans
from bench.turn_end.completeness import LABELS, Label, read_labels, require_all
from bench.turn_end.metrics import auc, balanced_accuracy, draws, interval, weighted_f1
from bench.turn_end.policy import Policy, Scored, best_cut, best_latency_s, chosen, costs, grid, pareto
from bench.turn_end.run import runtime_fires_s
from bench.turn_end.score import Speech, carried_over, classification, counted, lead, lead_of, trade_off
from pads_runtime.config import TurnSettings
from pads_runtime.errors import DataError

MOMENTS = (0.1, 0.2, 0.3)


def silence(hold: bool, length_s: float, *p_end: float, talk: str = "t") -> Scored:
    return Scored(talk, hold, length_s, MOMENTS[: len(p_end)], p_end)


def test_a_policy_fires_at_the_first_moment_after_its_delay_that_reaches_the_threshold() -> None:
    span = silence(False, 2.0, 0.9, 0.4, 0.6)
    assert Policy(0.5, 0.1, 1.0).fires_s(span, 0.0) == pytest.approx(0.1)
    assert Policy(0.5, 0.2, 1.0).fires_s(span, 0.0) == pytest.approx(0.3)
    assert Policy(0.5, 0.2, 1.0).fires_s(span, 0.05) == pytest.approx(0.35)
    assert Policy(0.95, 0.1, 1.0).fires_s(span, 0.0) == 1.0
    assert Policy(None, 0.0, 0.7).fires_s(span, 0.0) == 0.7


def test_compute_time_never_outlasts_the_timeout() -> None:
    assert Policy(0.5, 0.1, 0.3).fires_s(silence(False, 2.0, 0.1, 0.1, 0.9), 0.05) == pytest.approx(0.3)


def test_cutoffs_and_latency_are_what_counting_gives() -> None:
    found = costs(
        [
            silence(True, 0.25, 0.9),
            silence(True, 1.0, 0.1, 0.1, 0.1),
            silence(False, 3.0, 0.8),
            silence(False, 3.0, 0.2),
        ],
        [Policy(0.5, 0.1, 0.8), Policy(None, 0.0, 0.2)],
        0.0,
    )
    cut, wait = found.rates(np.ones(1))
    # Threshold: fires at 0.1 in the first hold (cut), at 0.8 in the second (cut); ends take 0.1 and 0.8.
    assert cut.tolist() == [1.0, 1.0]
    assert wait.tolist() == pytest.approx([0.45, 0.2])


def test_firing_exactly_when_the_speaker_resumes_is_no_cutoff() -> None:
    found = costs([silence(True, 0.2), silence(False, 1.0)], [Policy(None, 0.0, 0.2), Policy(None, 0.0, 0.1)], 0.0)
    assert found.rates(np.ones(1))[0].tolist() == [0.0, 1.0]


def test_operating_points_and_the_front_come_from_policies_within_the_budget() -> None:
    cut, wait = np.array([0.5, 0.1, 0.05, 0.05]), np.array([0.2, 0.4, 0.9, 1.0])
    assert best_latency_s(cut, wait, 0.05) == 0.9
    assert best_latency_s(cut, wait, 0.10) == 0.4
    assert math.isnan(best_latency_s(cut, wait, 0.01))
    assert best_cut(cut, wait, 0.4) == 0.1
    assert chosen(cut, wait, 0.10) == 1
    assert chosen(cut, wait, 0.0) is None
    assert pareto(cut, wait) == [0, 1, 2]


def test_silence_alone_is_swept_as_timeouts_and_every_delay_is_below_its_timeout() -> None:
    policies = grid((0.5,), (0.2,))
    assert all(p.timeout_s > p.delay_s for p in policies if p.threshold is not None)
    assert sum(p.threshold is None for p in policies) == len({p.timeout_s for p in policies})


def test_a_perfect_predictor_has_no_cutoffs_at_its_first_moment() -> None:
    items = [silence(True, 1.0, 0.0, 0.0, 0.0), silence(False, 2.0, 1.0, 1.0, 1.0)]
    found = trade_off(costs(items, grid(), 0.0))
    assert found["latency_ms_at_5pct"].value == pytest.approx(100.0)
    assert found["cutoffs_at_300ms"].value == 0.0


def test_carried_over_policies_are_chosen_without_the_talk_they_are_scored_on() -> None:
    easy = [silence(True, 0.5, talk="a"), silence(False, 2.0, talk="a")]
    hard = [silence(True, 0.9, talk="b"), silence(False, 2.0, talk="b")]
    found = carried_over(costs([*easy, *hard], [Policy(None, 0.0, t) for t in (0.5, 0.9)], 0.0))
    # b alone allows 0.9 s, which never cuts a; a alone allows 0.5 s, which cuts b.
    assert found["carried_cutoffs_5pct"].value == 0.5
    assert found["carried_latency_ms_5pct"].value == pytest.approx(700.0)


def test_auc_counts_ties_as_half() -> None:
    assert auc([0.9, 0.5], [0.5, 0.1]) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert math.isnan(auc([], [0.5]))


def test_balanced_accuracy_and_weighted_f1_of_a_counted_table() -> None:
    hit, kept = [True, True, True, False], [True, False]
    assert balanced_accuracy(hit, kept) == pytest.approx((0.75 + 0.5) / 2)
    # shift: tp 3, fp 1, fn 1 -> 0.75; hold: tp 1, fp 1, fn 1 -> 0.5; weights 4 and 2
    assert weighted_f1(hit, kept) == pytest.approx((0.75 * 4 + 0.5 * 2) / 6)


def test_scalar_figures_read_the_answer_at_two_tenths_of_a_second() -> None:
    items = [silence(hold, 1.0, float(hold), float(not hold), talk=talk) for hold in (True, False) for talk in "ab"]
    assert classification(items)["auc"].value == 1.0
    assert classification(items)["balanced_accuracy"].value == 1.0


def test_the_bootstrap_draws_talks_and_is_the_same_every_time() -> None:
    assert (draws(4, 10).sum(axis=1) == 4).all()
    assert (draws(4, 10) == draws(4, 10)).all()
    low, high = interval(lambda w: float(w @ np.array([1.0, 3.0]) / w.sum()), 2)
    assert (low, high) == (1.0, 3.0)


def test_holds_count_from_two_tenths_to_five_seconds_and_by_their_label() -> None:
    def span(at: float, length: float, shift: bool) -> Span:
        return Span("t", "A", at, at + length, at + length, shift)

    items = [span(1, 0.1, False), span(2, 0.3, False), span(3, 6.0, False), span(10, 0.1, True), span(11, 0.4, False)]
    labels = {("t", "A", 2): Label.UNFINISHED, ("t", "A", 10): Label.COMPLETE, ("t", "A", 11): Label.COMPLETE}
    assert [i for i, _ in counted(items, "next_speaker", labels)] == [1, 3, 4]
    assert [i for i, _ in counted(items, "completeness", labels)] == [1, 3]


def test_lead_is_the_unbroken_run_above_the_threshold_before_the_end() -> None:
    rows = ((9.5, 0.9), (9.6, 0.1), (9.7, 0.8), (9.8, 0.9))
    channel = Speech("t", rows, (9.85,), (((0.1, 0.2), (0.2, 0.7)),))
    assert lead_of(channel, 0, 0.5) == pytest.approx(0.15)
    assert lead_of(channel, 0, 0.95) == -1.0
    late = Speech("t", ((9.8, 0.1),), (9.85,), (((0.1, 0.2), (0.2, 0.7)),))
    assert lead_of(late, 0, 0.5) == -0.2


def test_the_lead_threshold_comes_from_the_other_talks() -> None:
    def talk(name: str, idle: float, near: float) -> Speech:
        return Speech(name, (*((t / 10, idle) for t in range(50)), (9.9, near)), (10.0,), ((),))

    found = lead([talk("a", 0.2, 0.9), talk("b", 0.2, 0.9)])
    assert found["lead_ms"] == 100.0
    assert found["noticed_before_share"] == 1.0


def test_the_runtime_rule_waits_by_the_latest_answer_that_has_come() -> None:
    settings = TurnSettings()
    sure = Scored("t", False, 3.0, (0.2, 0.5), (0.9, 0.95))
    doubtful = Scored("t", False, 3.0, (0.2, 0.5), (0.9, 0.05))
    assert runtime_fires_s(sure, settings, 0.05) == settings.confirm_min_s
    assert runtime_fires_s(doubtful, settings, 0.05) == settings.confirm_max_s
    assert runtime_fires_s(Scored("t", False, 3.0, (), ()), settings, 0.05) == settings.confirm_max_s


def tone(*loud_s: tuple[float, float], seconds: float = 6.0, level: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(7)
    x = rng.standard_normal(round(seconds * 16_000)) * 1e-4
    for start, end in loud_s:
        x[round(start * 16_000) : round(end * 16_000)] += rng.standard_normal(round((end - start) * 16_000)) * level
    return np.clip(x * 32768 / 4, -32768, 32767).astype(np.int16)


def test_silences_know_their_speaker_their_length_and_who_spoke_next() -> None:
    a, b = tone((1.0, 2.0), (2.5, 3.0), (5.0, 5.6)), tone((3.4, 4.4))
    found = spans("t", activity([a, b]), ("A", "B"))
    assert [(s.channel, s.shift) for s in found] == [("A", False), ("A", True), ("B", True)]
    assert [s.start_s for s in found] == pytest.approx([2.0, 3.0, 4.4], abs=0.02)
    assert [s.length_s for s in found] == pytest.approx([0.5, 0.4, 0.6], abs=0.02)
    assert found[1].resume_s == pytest.approx(5.0, abs=0.02)


def test_crosstalk_is_no_speech_and_a_short_closure_no_silence() -> None:
    a = tone((1.0, 2.0), (2.05, 3.0))
    b = tone((1.0, 3.0), level=0.3 / 300) + tone((3.5, 4.0))
    active = activity([a, b])
    assert not active[1, 110:290].any()
    assert active[0, 110:290].all()


def test_every_label_row_is_of_the_written_form_and_a_missing_one_is_named() -> None:
    labels = read_labels()
    assert len(labels) == LABELS.read_text(encoding="utf-8").count("\n") - 1
    assert set(labels.values()) == set(Label)
    with pytest.raises(DataError, match=r"'nobody' channel A at 1\.00 s"):
        require_all(labels, [Span("nobody", "A", 1.0, 2.0, 2.0, True)])


def test_a_label_row_of_another_form_is_named_by_its_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "labels.tsv"
    path.write_text("dialogue\tchannel\ttime_s\tlabel\nt\tA\t1.0\tcomplete\nt\tA\tsoon\tcomplete\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 3"):
        read_labels(path)
