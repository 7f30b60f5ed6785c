"""Training the turn-end heads: resume, leaks, targets, readers, export."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.turn_end.activity import Span
from bench.turn_end.completeness import Label
from bench.turn_end.corpora import Ask, Talk, asks, heard
from pads_runtime.errors import DataError, ModelCorrupt, PadsError
from pads_runtime.models import Registry
from pads_runtime.turn.vap import VapPredictor
from training.vap import fit
from training.vap.augment import augmented
from training.vap.examples import end_target, vap_target
from training.vap.readers import Recording, ami_words, find_recordings
from training.vap.splits import check_no_leak, groups

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def talk(name: str = "t", seed: int = 1, seconds: float = 6.0) -> Talk:
    rng = np.random.default_rng(seed)
    samples = {side: (rng.standard_normal(round(seconds * 16_000)) * 3_000).astype(np.int16) for side in "AB"}
    active = np.zeros((2, round(seconds * 100)), dtype=bool)
    active[0, 100:200] = True
    active[1, 240:400] = True
    found = (Span(name, "A", 2.0, 2.4, seconds, True),)
    return Talk(name, "two_channel", ("A", "B"), samples, active, found, False)


def recording(name: str, *speakers: str, seed: int = 1) -> Recording:
    return Recording(talk(name, seed), frozenset(speakers))


def problem(rows: int = 60, classes: int = 2, strength: float = 1.0) -> fit.Problem:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((rows, 5)).astype(np.float32)
    target = (x[:, 0] > 0).astype(np.int64) if classes == 2 else np.arange(rows) % classes
    return fit.Problem(x, target, np.ones(rows, np.float32), classes, strength)


# ---------------------------------------------------------------- fitting


def test_a_fit_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    for classes in (2, 4):
        whole = fit.fit(problem(classes=classes), 120)
        checkpoint = tmp_path / f"{classes}.npz"
        fit.fit(problem(classes=classes), 70, checkpoint, every=10)
        seen: list[int] = []
        resumed = fit.fit(problem(classes=classes), 120, checkpoint, every=10, log=lambda step, loss: seen.append(step))  # noqa: B023
        assert seen[0] == 80
        assert np.array_equal(whole[0], resumed[0])
        assert np.array_equal(whole[1], resumed[1])


def test_a_fit_finds_the_column_that_decides_and_reaches_the_penalised_optimum() -> None:
    given = problem(rows=200)
    weights, bias = fit.fit(given, 2_000)
    p = fit.predict(given.x, weights, bias)
    assert abs(weights[0, 0]) > 3 * np.abs(weights[1:, 0]).max()
    # At the optimum the weighted residuals balance, because the bias is not penalised.
    assert float((p - given.target).mean()) == pytest.approx(0.0, abs=1e-3)


def test_a_rows_weight_counts_like_that_many_rows() -> None:
    given = problem()
    twice = fit.Problem(
        np.concatenate([given.x, given.x[:10]]),
        np.concatenate([given.target, given.target[:10]]),
        np.ones(70, np.float32),
        2,
        1.0,
    )
    weighted = fit.Problem(given.x, given.target, np.array([2.0] * 10 + [1.0] * 50, np.float32), 2, 1.0)
    assert np.allclose(fit.fit(twice, 200)[0], fit.fit(weighted, 200)[0], atol=1e-9)


# ---------------------------------------------------------------- leaks


def test_a_held_out_dialogue_slipped_in_under_another_name_stops_the_run() -> None:
    with pytest.raises(DataError, match="'copy' holds the same audio as held-out 'original'"):
        check_no_leak([recording("copy", "x")], [recording("original", "y")])


def test_a_shared_speaker_or_name_stops_the_run() -> None:
    with pytest.raises(DataError, match="speaker 'ann' of held-out 'b' also speaks in 'a'"):
        check_no_leak([recording("a", "ann", "bob", seed=1)], [recording("b", "ann", seed=2)])
    with pytest.raises(DataError, match="'a' is held out and trained on"):
        check_no_leak([recording("a", "x", seed=1)], [recording("a", "y", seed=2)])


def test_other_people_in_other_recordings_are_no_leak() -> None:
    check_no_leak([recording("a", "ann", seed=1)], [recording("b", "bob", seed=2)])


def test_recordings_that_share_speakers_through_others_form_one_group() -> None:
    items = [recording("a", "1", "2"), recording("b", "3"), recording("c", "2", "4"), recording("d", "4", "5")]
    assert groups(items) == [["a", "c", "d"], ["b"]]


# ---------------------------------------------------------------- targets


def test_vaps_class_is_the_activity_of_both_sides_bin_by_bin() -> None:
    t = talk()
    # At 1.9 s: A speaks 0.1 of the first 0.2 s; B from 2.4 s: bins 1.9-2.1-2.5-3.1-3.9.
    assert vap_target(t, "A", Ask(1.9, None, None)) == 0b10000011
    assert vap_target(t, "B", Ask(1.9, None, None)) == 0b00111000
    assert vap_target(t, "A", Ask(4.5, None, None)) == -1


def test_p_ends_target_is_the_label_or_else_the_next_speaker() -> None:
    t, key = talk(), ("t", "A", 2.0)
    pause = Ask(2.1, 0.1, 0)
    assert end_target(t, "A", pause, {}) == 1.0
    assert end_target(t, "A", pause, {key: Label.UNFINISHED}) == 0.0
    assert np.isnan(end_target(t, "A", pause, {key: Label.AMBIGUOUS}))
    assert end_target(t, "A", Ask(1.8, None, None), {}) == 1.0
    assert end_target(t, "A", Ask(1.6, None, None), {}) == 0.0


def test_the_answer_of_the_other_side_is_not_heard_before_the_decision() -> None:
    t = talk()
    user, agent = heard(t, "A", Ask(3.0, 1.0, 0))
    assert len(user) == len(agent) == 48_000
    assert not agent[32_000:].any()
    assert agent[:32_000].any()
    assert t.samples["B"][32_000:48_000].any()


def test_a_predictor_is_asked_every_tenth_of_a_second() -> None:
    moments = asks(talk(), "A", in_speech=True)
    assert sum(ask.span is None for ask in moments) == 10
    assert [ask.silence_s for ask in moments if ask.span == 0] == [round(0.1 * k, 1) for k in range(1, 11)]


# ---------------------------------------------------------------- augmentation


def test_a_copy_is_the_same_every_time_and_keeps_its_silences_and_labels() -> None:
    t, labels = talk(), {("t", "A", 2.0): Label.COMPLETE}
    first, told = augmented(t, labels, 1)
    again, _ = augmented(t, labels, 1)
    other, _ = augmented(t, labels, 2)
    assert np.array_equal(first.samples["A"], again.samples["A"])
    assert len(first.samples["A"]) != len(other.samples["A"])
    pace = t.active.shape[1] / first.active.shape[1]
    assert 0.89 < pace < 1.12
    assert first.spans[0].start_s == pytest.approx(2.0 / pace, abs=0.02)
    assert told[("t+1", "A", first.spans[0].start_s)] is Label.COMPLETE
    assert np.flatnonzero(first.active[0])[-1] == pytest.approx(199 / pace, abs=1.5)


# ---------------------------------------------------------------- readers


def ami_folder(root: Path, headsets: bool) -> Path:
    (root / "words").mkdir(parents=True)
    (root / "corpusResources").mkdir()
    audio = root / "amicorpus" / "M1" / "audio"
    audio.mkdir(parents=True)
    spoken = {"A": [(1.0, 1.5), (1.6, 2.0)], "B": [(3.0, 4.0)]}
    rng = np.random.default_rng(0)
    for place, (speaker, times) in enumerate(spoken.items()):
        rows = "".join(f'<w nite:id="{i}" starttime="{a}" endtime="{b}">x</w>' for i, (a, b) in enumerate(times))
        (root / "words" / f"M1.{speaker}.words.xml").write_text(
            f'<nite:root xmlns:nite="http://nite.sourceforge.net/">{rows}'
            '<w starttime="2.0" endtime="2.0" punc="true">.</w><w>y</w><vocalsound starttime="5" endtime="6"/>'
            "</nite:root>",
            encoding="utf-8",
        )
        if headsets:
            noise = (rng.standard_normal(6 * 16_000) * 0.01).astype(np.float32)
            soundfile.write(audio / f"M1.Headset-{1 - place}.wav", noise, 16_000)
    if not headsets:
        soundfile.write(
            audio / "M1.Mix-Headset.wav", (rng.standard_normal(6 * 16_000) * 0.01).astype(np.float32), 16_000
        )
    people = "".join(
        f'<speaker nxt_agent="{who}" global_name="P{who}" channel="{1 - place}"/>' for place, who in enumerate("AB")
    )
    (root / "corpusResources" / "meetings.xml").write_text(
        f'<root><meeting observation="M1">{people}</meeting></root>', encoding="utf-8"
    )
    return root


def test_amis_layout_is_read_with_headsets_and_the_corpus_names_of_people(tmp_path: Path) -> None:
    (found,) = find_recordings(ami_folder(tmp_path / "ami", headsets=True))
    assert found.speakers == {"PA", "PB"}
    assert not found.talk.mixed
    first, last = found.talk.spans[0], found.talk.spans[-1]
    assert (first.channel, first.shift, first.start_s, first.end_s) == ("A", False, 1.5, 1.6)
    assert (last.channel, last.shift, last.start_s, last.end_s) == ("A", True, 2.0, 3.0)
    b = soundfile.read(tmp_path / "ami/amicorpus/M1/audio/M1.Headset-0.wav", dtype="int16")[0]
    assert np.array_equal(found.talk.samples["B"], b)


def test_amis_mix_serves_where_there_are_no_headsets(tmp_path: Path) -> None:
    (found,) = find_recordings(ami_folder(tmp_path / "ami", headsets=False))
    assert found.talk.mixed
    assert not found.talk.other("A").any()


def test_words_without_times_and_punctuation_are_left_out(tmp_path: Path) -> None:
    root = ami_folder(tmp_path / "ami", headsets=True)
    assert ami_words(root / "words" / "M1.A.words.xml") == [(1.0, 1.5), (1.6, 2.0)]
    torn = tmp_path / "torn.words.xml"
    torn.write_text("<w", encoding="utf-8")
    with pytest.raises(DataError, match="no NXT words file"):
        ami_words(torn)


def test_stereo_recordings_take_their_speakers_from_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        soundfile.write(tmp_path / f"{name}.wav", (rng.standard_normal((32_000, 2)) * 0.1).astype(np.float32), 16_000)
    assert [r.speakers for r in find_recordings(tmp_path)] == [{"one/A", "one/B"}, {"two/A", "two/B"}]
    rows = ["file\tchannel\tspeaker", "one.wav\tA\tann", "one.wav\tB\tbob", "two.wav\tA\tann", "two.wav\tB\tcy"]
    (tmp_path / "speakers.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert groups(find_recordings(tmp_path)) == [["one", "two"]]


def test_a_folder_without_recordings_is_an_error_of_one_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(DataError) as told:
            find_recordings(folder)
        assert "\n" not in str(told.value)


# ---------------------------------------------------------------- export and the whole run


def encoder_file() -> Path:
    pytest.importorskip("onnx", reason="writing graphs needs the extra [training]")
    try:
        return Registry.load().resolve("smart-turn-v3.2")
    except PadsError as exc:
        pytest.skip(f"the turn model is not on this machine: {exc}")


def test_an_exported_graph_equals_the_heads_it_was_made_of(tmp_path: Path) -> None:
    source = encoder_file()
    from training.vap import graph

    rng = np.random.default_rng(5)
    heads = graph.Heads(
        (rng.standard_normal(graph.FEATURES) * 0.02).astype(np.float32),
        0.3,
        (rng.standard_normal((graph.FEATURES, 256)) * 0.02).astype(np.float32),
        (rng.standard_normal(256) * 0.1).astype(np.float32),
    )
    graph.build(source, heads, tmp_path / "g.onnx")
    predictor = VapPredictor(tmp_path / "g.onnx", ())
    t = talk()
    p_end, classes, x = predictor.answer(t.samples["A"], t.samples["B"], 0.3)
    assert x.shape == (1, graph.FEATURES)
    assert x[0, graph.ENCODED] == pytest.approx(0.3)
    expected = fit.predict(x, heads.vap.astype(np.float64), heads.vap_bias.astype(np.float64))[0]
    assert p_end == pytest.approx(float(fit.sigmoid(x[0].astype(np.float64) @ heads.end + 0.3)), abs=1e-3)
    assert classes == pytest.approx(expected, abs=1e-3)


def test_the_cut_encoder_agrees_with_the_whole_one_where_four_seconds_are_all_there_is(smart_turn: Path) -> None:
    from pads_runtime.turn.smart_turn import SmartTurnPredictor

    # Not equal: the whole one also attends to 4 s of zeros. Close enough to be the same network, rightly cut.
    whole = SmartTurnPredictor(smart_turn, ())
    folder = DATA / "vap_phrases" / "audio"
    if not folder.is_dir():
        pytest.skip("the phrases are not on this machine")
    from pads_runtime.audio.files import read_audio

    predictor = VapPredictor(Registry.load().resolve("vap-turn"), ())
    pairs = []
    for path in sorted(folder.glob("*.flac"))[:12]:
        samples = read_audio(path)
        x = predictor.answer(samples, np.zeros(0, np.int16), 0.2)[2]
        pairs.append((float(fit.sigmoid(x[:, 0].astype(np.float64))[0]), whole.completeness(samples)))
    assert np.corrcoef(np.array(pairs).T)[0, 1] > 0.7


@pytest.fixture
def smart_turn() -> Path:
    return encoder_file()


def test_another_network_is_no_encoder(tmp_path: Path) -> None:
    encoder_file()
    from training.vap import graph

    graph.build(encoder_file(), graph.Heads.zero(), tmp_path / "a.onnx")
    with pytest.raises(ModelCorrupt, match="is not smart-turn"):
        graph.build(tmp_path / "a.onnx", graph.Heads.zero(), tmp_path / "b.onnx")


@pytest.mark.slow
def test_a_run_on_recordings_of_ones_own_ends_with_a_model_and_a_card_and_refuses_a_leak(tmp_path: Path) -> None:
    encoder_file()
    source = DATA / "spokenwoz_sample"
    if not source.is_dir():
        pytest.skip("no recordings on this machine")
    from training.vap.run import Options, run

    data = tmp_path / "calls"
    data.mkdir()
    for name in ("SNG0072", "SNG0480"):
        sound, rate = soundfile.read(source / f"{name}.flac", dtype="int16")
        soundfile.write(data / f"{name}.wav", sound[: 24 * rate], rate)
    options = Options(data, tmp_path / "out", tmp_path / "work", steps=20)
    first = run(options, lambda line: None)
    again = run(options, lambda line: None)
    assert first["sha256"] == again["sha256"]
    assert first["export_max_difference"] < 1e-3
    assert "CC BY-NC" in (tmp_path / "out" / "vap-turn.card.md").read_text(encoding="utf-8")
    assert (tmp_path / "work" / "metrics.jsonl").read_text(encoding="utf-8").count('"step": 20') >= 3
    shutil.copy(data / "SNG0072.wav", data / "innocent.wav")
    with pytest.raises(DataError, match="leak: 'innocent' holds the same audio as held-out 'SNG0072'"):
        run(Options(data, tmp_path / "out", tmp_path / "work", 20, held_out=("SNG0072",)), lambda line: None)
