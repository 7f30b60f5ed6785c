"""The lean classifier against scikit-learn's own arithmetic, and against damaged files."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from pads_runtime.acts.classifier import TfidfActClassifier
from pads_runtime.acts.weights import FORMAT, ActWeights, load_weights
from pads_runtime.config import ROOT
from pads_runtime.errors import ModelCorrupt, ModelMissing

SHIPPED = ROOT / "models" / "acts-dailydialog.skops"
VOCABULARY = (
    "what is the time tell me a story about you and I do not know don't it's where can could please thanks "
    "naïve café ÉTÉ 25 3.5 x_y o'clock well-known I'm one two Three"
)
WORDS = VOCABULARY.split()


def made_up_text(rng: random.Random) -> str:
    words = rng.choices(WORDS, k=rng.randint(1, 25))
    return "".join(word + rng.choice([" ", " ", ", ", ". ", "? ", "  ", " - "]) for word in words)


@pytest.fixture(scope="module")
def fitted() -> tuple[TfidfVectorizer, LogisticRegression]:
    rng = random.Random(1)
    texts = [made_up_text(rng) for _ in range(400)]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=1)
    features = vectorizer.fit_transform(texts)
    return vectorizer, LogisticRegression(max_iter=1000).fit(features, ["?" in text for text in texts])


@pytest.fixture(scope="module")
def lean(fitted: tuple[TfidfVectorizer, LogisticRegression]) -> TfidfActClassifier:
    vectorizer, regression = fitted
    return TfidfActClassifier(
        ActWeights(
            tuple(vectorizer.get_feature_names_out()),
            vectorizer.idf_,
            regression.coef_[0],
            float(regression.intercept_[0]),
        )
    )


@pytest.fixture(scope="module")
def shipped() -> TfidfActClassifier:
    return TfidfActClassifier.load(SHIPPED)


def test_the_lean_arithmetic_equals_scikit_learn_on_five_thousand_texts(
    fitted: tuple[TfidfVectorizer, LogisticRegression], lean: TfidfActClassifier
) -> None:
    rng = random.Random(2)
    # Every third text has words the vocabulary has never seen.
    texts = [made_up_text(rng) + ("zebra xylophone" if i % 3 == 0 else "") for i in range(5000)] + ["I", "a b", "zzz"]
    vectorizer, regression = fitted
    expected = regression.predict_proba(vectorizer.transform(texts))[:, 1]
    np.testing.assert_allclose([lean.p_deep(text) for text in texts], expected, rtol=0, atol=1e-12)
    assert expected.std() > 0.05, "the comparison would prove nothing on constant output"


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "—", "\n\t", "🙂", "' \" \u2019"])
def test_text_without_a_letter_or_digit_is_never_deep(lean: TfidfActClassifier, text: str) -> None:
    assert lean.p_deep(text) == 0.0


def test_case_and_punctuation_make_no_difference(shipped: TfidfActClassifier) -> None:
    assert shipped.p_deep("What time is it, please?") == shipped.p_deep("what time is it please")


def test_the_curly_apostrophe_reads_like_the_straight_one(shipped: TfidfActClassifier) -> None:
    assert shipped.p_deep("What\u2019s the matter?") == shipped.p_deep("what's the matter")


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("what time does the train leave", True),
        ("could you tell me how to get to the station", True),
        ("please open the window", True),
        ("yes that sounds good to me", False),
        ("i went to the cinema yesterday", False),
        ("thank you very much", False),
    ],
)
def test_the_shipped_model_tells_questions_and_requests_from_statements(
    shipped: TfidfActClassifier, text: str, deep: bool
) -> None:
    assert (shipped.p_deep(text) > 0.5) == deep


def test_a_very_long_text_stays_a_probability(shipped: TfidfActClassifier) -> None:
    assert 0.0 <= shipped.p_deep("and then what happened " * 5000) <= 1.0


def test_skops_itself_reads_the_same_weights_from_the_shipped_file() -> None:
    tree = skops.io.load(SHIPPED, trusted=[])
    ours = load_weights(SHIPPED)
    assert tuple(tree["terms"].tobytes().decode().split("\n")) == ours.terms
    assert np.array_equal(tree["idf"], ours.idf)
    assert np.array_equal(tree["coef"], ours.coef)
    assert tree["intercept"] == ours.intercept


def test_the_shipped_file_is_small_and_holds_the_published_vocabulary() -> None:
    assert SHIPPED.stat().st_size < 10_000_000
    assert len(load_weights(SHIPPED).terms) == 215_529


def good_tree() -> dict[str, object]:
    return {
        "format": FORMAT,
        "terms": np.frombuffer(b"hello\nworld", dtype=np.uint8),
        "idf": np.array([1.0, 2.0]),
        "coef": np.array([0.5, -0.5]),
        "intercept": 0.1,
    }


def test_a_well_formed_file_loads(tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    path.write_bytes(skops.io.dumps(good_tree()))
    assert load_weights(path).terms == ("hello", "world")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("format", "other", "format"),
        ("terms", "hello", "terms"),
        ("terms", np.frombuffer(b"\xff\xfe\nx", dtype=np.uint8), "UTF-8"),
        ("idf", np.array([1.0]), "idf"),
        ("coef", np.array([0.5, np.nan]), "coef"),
        ("coef", np.array([0.5, 0.5], dtype=np.float32), "coef"),
        ("intercept", None, "intercept"),
        ("intercept", float("inf"), "intercept"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused_by_name(tmp_path: Path, key: str, value: object, reason: str) -> None:
    path = tmp_path / "m.skops"
    path.write_bytes(skops.io.dumps(good_tree() | {key: value}))
    with pytest.raises(ModelCorrupt, match=reason):
        load_weights(path)


def test_a_file_with_a_type_that_is_not_trusted_is_refused_before_it_is_built(tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    for foreign in (random.Random(1), LogisticRegression(), np.array([object()]), len, {"a": {1, 2}}):
        path.write_bytes(skops.io.dumps(good_tree() | {"idf": foreign}))
        with pytest.raises(ModelCorrupt):
            load_weights(path)
    path.write_bytes(skops.io.dumps(good_tree() | {"extra": random.Random(1)}))
    with pytest.raises(ModelCorrupt, match=r"not trusted: random\.Random"):
        load_weights(path)


@pytest.mark.parametrize("damage", ["not a zip", "cut in half", "no schema", "empty"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.skops"
    whole = SHIPPED.read_bytes()
    path.write_bytes(
        {"not a zip": b"GGUF" * 100, "cut in half": whole[: len(whole) // 2], "empty": b""}.get(damage, b"")
    )
    if damage == "no schema":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("0.npy", b"x")
    with pytest.raises(ModelCorrupt) as caught:
        load_weights(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_says_how_to_refit(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="python -m training acts"):
        load_weights(tmp_path / "nothing.skops")
