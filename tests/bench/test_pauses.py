"""Pauses, on plain spans and on the real corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.pauses import Pauses, ami_pauses, between_speakers, gaps, switchboard_pauses
from pads_runtime.config import ROOT
from pads_runtime.corpora.ami import AmiCorpus
from pads_runtime.corpora.switchboard import Conversation, conversations
from pads_runtime.errors import DataError

DATA = ROOT.parent / "shared" / "data"


def test_a_gap_that_someone_else_reaches_into_is_no_pause() -> None:
    own = [(0.0, 1.0), (2.0, 3.0), (5.0, 6.0)]
    assert list(gaps(own, [])) == [1.0, 2.0]
    assert list(gaps(own, [(1.5, 1.6)])) == [2.0]
    assert list(gaps(own, [(0.0, 9.0)])) == []
    assert list(gaps(own, [(2.5, 4.0)])) == [1.0]


def test_who_only_touches_a_gap_does_not_reach_into_it_and_a_point_inside_does() -> None:
    own = [(0.0, 1.0), (2.0, 3.0)]
    assert list(gaps(own, [(0.5, 1.0), (2.0, 2.5)])) == [1.0]
    assert list(gaps(own, [(1.5, 1.5)])) == []
    assert list(gaps(own, [(1.0, 1.0), (2.0, 2.0)])) == [1.0]


def test_every_speaker_has_pauses_and_the_others_are_everyone_else() -> None:
    sides = {"A": [(0.0, 1.0), (4.0, 5.0)], "B": [(6.0, 7.0), (8.0, 9.0)], "C": [(2.0, 3.0)]}
    assert list(between_speakers(sides)) == [1.0]


def test_the_share_of_pauses_a_step_fits_counts_equal_ones() -> None:
    found = Pauses("x", "r", "m", 1, (0.1, 0.2, 0.4, 0.8))
    assert found.share_at_least(0.4) == 0.5
    assert found.share_at_least(0.0) == 1.0
    assert found.share_at_least(0.81) == 0.0
    assert found.as_json()["p50_s"] == 0.3


def test_empty_words_are_an_error_and_not_a_median_of_nothing(tmp_path: Path) -> None:
    words = tmp_path / "words" / "ES1a.A.words.xml"
    words.parent.mkdir()
    words.write_text("<root/>", encoding="utf-8")
    with pytest.raises(DataError, match="not one pause"):
        ami_pauses(AmiCorpus(tmp_path))
    with pytest.raises(DataError, match="not one pause"):
        switchboard_pauses([Conversation("1", {"A": [(0, 5)], "B": []})])


@pytest.mark.slow
def test_ami_has_18895_pauses_of_words_and_10852_of_every_timed_element() -> None:
    if not (DATA / "ami_nxt").is_dir():
        pytest.skip("the AMI annotations are not beside this checkout")
    words, every, with_cut_off = ami_pauses(AmiCorpus(DATA / "ami_nxt" / "ami_manual_nxt.tar.xz"))
    assert (words.talks, len(words.lengths_s), words.as_json()["p50_s"]) == (171, 18_895, 0.81)
    assert (len(every.lengths_s), every.as_json()["p50_s"]) == (10_852, 1.4)
    assert (len(with_cut_off.lengths_s), with_cut_off.as_json()["p50_s"]) == (9_865, 1.54)


@pytest.mark.slow
def test_switchboard_has_283072_gaps_within_a_side() -> None:
    if not (DATA / "switchboard_timed").is_dir():
        pytest.skip("Switchboard's word times are not beside this checkout")
    found = switchboard_pauses(conversations(DATA / "switchboard_timed"))
    assert (found.talks, len(found.lengths_s)) == (2_438, 283_072)
    assert found.as_json()["p50_s"] == 0.369
    assert found.as_json()["p90_s"] == 0.918
