"""Training the dialogue-act classifier: the published counts, and what happens without the data."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pads_runtime.acts.classifier import TfidfActClassifier
from pads_runtime.config import ROOT
from pads_runtime.errors import DataError
from training.acts.corpus import Utterance, read_corpus, shared_dialogues, without_test_texts
from training.acts.fit import first_part, fit, spoken
from training.acts.store import save_weights

CORPUS = ROOT.parent / "shared" / "data" / "dailydialog"
HEADER = "split\tdialogue\tturn\tact\temotion\ttext"
ROWS = [
    "train\t0\t0\t2\t0\tWhere are you ?",
    "train\t0\t1\t1\t0\tAt home .",
    "train\t1\t0\t3\t0\tCome here .",
    "validation\t0\t0\t1\t0\tWell .",
    "test\t0\t0\t2\t0\tWhere are you ?",
    "test\t0\t1\t1\t0\tAt home .",
    "test\t1\t0\t4\t0\tI will .",
]


def write_corpus(folder: Path, lines: list[str]) -> Path:
    (folder / "dailydialog.tsv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return folder


def train(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "training", "acts", *args], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dailydialog_gives_the_published_counts_and_figures_and_the_shipped_bytes(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"DailyDialog is not on this machine ({CORPUS})")
    done = train("--data", str(CORPUS), "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    counts = ("dropped", "distinct", "kept", "vocabulary", "utterances")
    assert [report[key] for key in counts] == [5825, 1804, 81345, 215529, 7740]
    assert report["accuracy"] == 0.8589
    assert [round(report[key], 3) for key in ("f1_deep", "macro_f1", "auc")] == [0.835, 0.856, 0.929]
    assert report["scores"]["spoken_form"]["accuracy"] == 0.8585
    assert report["scores"]["without_shared_dialogues"]["utterances"] == 7155
    assert report["stored_max_difference"] < 1e-12
    card = (tmp_path / "acts-dailydialog.card.md").read_text()
    assert "CC BY-NC-SA 4.0" in card
    assert report["sha256"] in card


def test_the_shipped_card_describes_the_shipped_file() -> None:
    digest = hashlib.sha256((ROOT / "models" / "acts-dailydialog.skops").read_bytes()).hexdigest()
    assert digest in (ROOT / "models" / "acts-dailydialog.card.md").read_text(encoding="utf-8")


def test_the_corpus_reads_row_by_row(tmp_path: Path) -> None:
    utterances = read_corpus(write_corpus(tmp_path, [HEADER, *ROWS]))
    assert len(utterances) == len(ROWS)
    assert utterances[0] == Utterance("train", 0, "question", "Where are you ?")
    assert [u.deep for u in utterances] == [True, False, True, False, True, False, False]


def test_training_rows_with_a_test_text_are_dropped_and_counted_twice_over(tmp_path: Path) -> None:
    rows = [Utterance("train", 0, "inform", text) for text in ("Yes .", "Yes .", "No .", "Why ?")]
    kept = without_test_texts(rows, [Utterance("test", 0, "inform", text) for text in ("Yes .", "Why ?", "Oh .")])
    assert [u.text for u in kept.kept] == ["No ."]
    assert (kept.dropped, kept.distinct) == (3, 2)


def test_a_dialogue_is_shared_only_when_every_turn_is(tmp_path: Path) -> None:
    utterances = read_corpus(write_corpus(tmp_path, [HEADER, *ROWS]))
    train_rows = [u for u in utterances if u.split == "train"]
    test_rows = [u for u in utterances if u.split == "test"]
    assert shared_dialogues(train_rows, test_rows) == {0}
    assert shared_dialogues(train_rows[1:], test_rows) == frozenset()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["text\tact", "hello\t1"], "line 1"),
        ([HEADER, "train\t0\t0\t2"], "line 2: 4 columns"),
        ([HEADER, ROWS[0], "train\t0\t0\t9\t0\thello"], "line 3"),
        ([HEADER, "dev\t0\t0\t1\t0\thello"], "line 2"),
        ([HEADER, *ROWS[:3]], "no test utterances"),
        ([HEADER], "no train utterances"),
        ([""], "line 1"),
    ],
)
def test_another_layout_is_refused_with_its_line(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_corpus(write_corpus(tmp_path, lines))


@pytest.mark.parametrize("damage", ["plain text", "cut"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress("\n".join([HEADER, *ROWS]).encode())
    (tmp_path / "dailydialog.tsv.gz").write_bytes(b"split\tdialogue" if damage == "plain text" else whole[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read_corpus(tmp_path)


def test_a_missing_corpus_is_fatal_in_one_line_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = train("--data", str(tmp_path / "nowhere"), "--out", str(out), "--json")
    assert done.returncode == 1
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if "FATAL" in line] == [done.stderr.splitlines()[-1]]
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_a_wrong_command_line_is_a_usage_error() -> None:
    assert train().returncode == 2
    assert train("--data", ".", "--jsn").returncode == 2


def test_the_same_rows_give_the_same_bytes_and_the_stored_model_answers_like_the_fitted_one(tmp_path: Path) -> None:
    rows = [u for u in read_corpus(write_corpus(tmp_path, [HEADER, *ROWS])) if u.split == "train"]
    model = fit(rows)
    save_weights(model.weights(), tmp_path / "a.skops")
    save_weights(fit(rows).weights(), tmp_path / "b.skops")
    assert (tmp_path / "a.skops").read_bytes() == (tmp_path / "b.skops").read_bytes()
    texts = ["Where are you ?", "come home", "never seen"]
    stored = TfidfActClassifier.load(tmp_path / "a.skops")
    np.testing.assert_allclose([stored.p_deep(text) for text in texts], model.p_deep(texts), rtol=0, atol=1e-12)
    assert not list(tmp_path.glob("*.part"))


def test_the_spoken_form_has_letters_and_apostrophes_only() -> None:
    assert spoken("Well , I don't know -- 25 of them ?") == "well i don't know of them"
    assert first_part(0.5)("One , two . Three !") == "one two"
    assert first_part(0.5)("") == ""
