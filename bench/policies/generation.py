"""What a policy's replies are like when it decides about its own words, not along the whole model's reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.acceptance.looks import Looker, Told, tell
from bench.bootstrap import interval, ratios, resample_counts
from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import SetupError

Score = Callable[[str, str], float]


@dataclass(frozen=True)
class Serving:
    """What is needed to let a policy reply."""

    model: Model
    settings: EngineSettings
    translators: Translators | None
    p_deep: Callable[[str], float]
    exit_layer: int

    def replies(self, told: Sequence[Told], policy: str, threshold: float) -> tuple[list[Told], float]:
        """The policy's replies to the same prompts, and the share of tokens that a deep pass gave."""
        changes = {
            "exit_layer": self.exit_layer,
            "serve": "confident",
            "exit_policy": policy,
            "confident_threshold": threshold,
            "temperature": 0.0,
        }
        settings = EngineSettings(**(self.settings.model_dump() | changes))
        engine = LlamaEngine(self.model, settings, translators=self.translators, p_deep=self.p_deep)
        try:
            found = tell(engine, [t.case for t in told], settings.max_reply_tokens)
        finally:
            engine.close()
        deep, left = sum(t.deep_steps for t in found), sum(t.left for t in found)
        return found, deep / max(deep + left, 1)


def rouge_l() -> Score:
    """F measure of the longest common subsequence of words (Lin 2004), reference first. Raises SetupError."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise SetupError("ROUGE-L needs rouge-score: ./scripts/setup --dev") from None
    scorer = RougeScorer(["rougeL"])
    return lambda reference, text: float(scorer.score(reference, text)["rougeL"].fmeasure)


def quality(oracle: Sequence[Told], found: Sequence[Told], looker: Looker, score: Score) -> dict[str, Any]:
    """Figures of one policy's replies against the whole model's.

    ``acceptance`` of a reply is the share of its tokens that the whole model would have said in their place, the first
    left out, which is always the whole model's. Replies without one more token have none, and are left out of its mean;
    ``acceptance_conservative`` charges those that are empty as 0.
    """
    accepted = [_accepted(t, looker) for t in found]
    empty = [not t.text for t in found]
    pairs = zip(accepted, empty, strict=True)
    charged = [0.0 if nothing else share for share, nothing in pairs]
    likeness = [score(o.text, t.text) for o, t in zip(oracle, found, strict=True) if o.text]
    return {
        "rouge_l": mean(likeness),
        "same_replies": sum(o.tokens == t.tokens for o, t in zip(oracle, found, strict=True)),
        "empty": mean([float(each) for each in empty]),
        "acceptance": mean([a for a, nothing in zip(accepted, empty, strict=True) if a is not None and not nothing]),
        "acceptance_conservative": mean([a for a in charged if a is not None]),
        "tokens": sum(len(t.tokens) for t in found),
        "oracle_empty": sum(not o.text for o in oracle),
    }


def mean(values: Sequence[float]) -> list[float | None]:
    """The mean over replies, and its interval by reply."""
    if not values:
        return [None, None, None]
    ones = np.ones(len(values))
    low, high = interval(ratios(resample_counts(len(values)), values, ones)) or (None, None)
    return [None if x is None else round(float(x), 4) for x in (np.mean(values), low, high)]


def _accepted(told: Told, looker: Looker) -> float | None:
    if len(told.tokens) < 2:
        return None
    choices = looker.choices(told)[: len(told.tokens) - 1]
    return float(np.mean(choices == np.array(told.tokens[1:])))
