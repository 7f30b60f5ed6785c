"""Fits TF-IDF and logistic regression, and scores them. Imports scikit-learn, so import it late."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from pads_runtime.acts.weights import ActWeights

from .corpus import Utterance

SEED = 42
MAX_ITER = 1000
THRESHOLD = 0.5

Probabilities = NDArray[np.float64]
Read = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Scores:
    """How well P(deep) > 0.5 agrees with the labels on ``utterances`` utterances."""

    utterances: int
    accuracy: float
    f1_deep: float
    macro_f1: float
    auc: float


@dataclass(frozen=True, slots=True)
class FittedActs:
    """The two fitted scikit-learn objects."""

    vectorizer: TfidfVectorizer
    regression: LogisticRegression

    def p_deep(self, texts: Sequence[str]) -> Probabilities:
        """P(deep) of each text, shape (N,)."""
        probabilities: Probabilities = self.regression.predict_proba(self.vectorizer.transform(texts))[:, 1]
        return probabilities

    def weights(self) -> ActWeights:
        """The same model as plain arrays; scikit-learn numbers its terms in alphabetical order."""
        return ActWeights(
            terms=tuple(self.vectorizer.get_feature_names_out()),
            idf=self.vectorizer.idf_,
            coef=self.regression.coef_[0],
            intercept=float(self.regression.intercept_[0]),
        )


def fit(train: Sequence[Utterance]) -> FittedActs:
    """Fit on the training utterances. The same rows give the same model."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=1)
    features = vectorizer.fit_transform([u.text for u in train])
    regression = LogisticRegression(max_iter=MAX_ITER, random_state=SEED)
    regression.fit(features, [u.deep for u in train])
    return FittedActs(vectorizer, regression)


def score(model: FittedActs, test: Sequence[Utterance], read: Read = str) -> Scores:
    """Score the model on ``test``, with ``read`` applied to each text first."""
    probabilities = model.p_deep([read(u.text) for u in test])
    labels = np.array([u.deep for u in test])
    said = probabilities > THRESHOLD
    return Scores(
        utterances=len(test),
        accuracy=float(accuracy_score(labels, said)),
        f1_deep=float(f1_score(labels, said)),
        macro_f1=float(f1_score(labels, said, average="macro")),
        auc=float(roc_auc_score(labels, probabilities)),
    )


def spoken(text: str) -> str:
    """The text as a recogniser without punctuation would write it: lower-case letters and apostrophes only."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def first_part(share: float) -> Read:
    """Reads the first ``share`` of the words of the spoken form (at least one): a partial transcript."""

    def read(text: str) -> str:
        words = spoken(text).split()
        return " ".join(words[: math.ceil(share * len(words))])

    return read
