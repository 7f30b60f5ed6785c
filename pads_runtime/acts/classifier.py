"""Says from the words alone whether an utterance wants the deep model: TF-IDF and logistic regression.

The arithmetic is scikit-learn's ``TfidfVectorizer(ngram_range=(1, 2))`` and ``LogisticRegression.predict_proba``,
written out for one short text, where scikit-learn spends nearly all of its time on checks and sparse matrices.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from .weights import ActWeights, load_weights

_WORD = re.compile(r"\b\w\w+\b")
"""scikit-learn's default token pattern: words of two letters and more, so "what's" reads as "what"."""


class TfidfActClassifier:
    """An ActClassifier. Stateless after construction, so any thread may call it."""

    def __init__(self, weights: ActWeights) -> None:
        self._index = {term: i for i, term in enumerate(weights.terms)}
        # Plain lists: picking single numbers out of an array costs more than all the arithmetic here.
        self._idf: list[float] = weights.idf.tolist()
        self._coef: list[float] = weights.coef.tolist()
        self._intercept = weights.intercept

    @classmethod
    def load(cls, path: Path) -> TfidfActClassifier:
        """Read a classifier file. Raises ModelMissing or ModelCorrupt."""
        return cls(load_weights(path))

    def p_deep(self, text: str) -> float:
        """P(question or directive), in [0, 1]. Text without a letter or digit gives 0.

        Case and punctuation make no difference, so a recogniser's bare partial reads like a written sentence.
        """
        if not any(map(str.isalnum, text)):
            return 0.0
        words = _WORD.findall(text.lower())
        pairs = (f"{first} {second}" for first, second in pairwise(words))
        dot = square = 0.0
        for term, count in Counter([*words, *pairs]).items():
            i = self._index.get(term)
            if i is not None:
                weight = count * self._idf[i]
                dot += weight * self._coef[i]
                square += weight * weight
        score = self._intercept + (dot / math.sqrt(square) if square else 0.0)
        return _sigmoid(score)


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)
