"""What the whole model says, and what its exits guess, at each position of its own replies. Through llama.cpp.

The reply is served by the engine as it ships. Then its tokens go through once more, exit by exit, and every exit's
guess is taken from the runtime's own draft head. Rows are exact, so this is what the engine would have drafted, and the
last rung says again what the engine served; a reply for which it does not is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.exits import draft_rows
from pads_runtime.engine.model import Model
from pads_runtime.engine.policies import ExitView
from pads_runtime.engine.rules import Coupled, Drawing
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import EngineError
from pads_runtime.frames import Message, Role
from training.corpora.ami_items import read_items
from training.exits.ladder import Ladder

from .counts import Line

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One prompt, what a person answered to it, and the seed of the model's answer."""

    number: int
    messages: tuple[Message, ...]
    response: str
    seed: int


def ami_cases(source: Path, seed: int) -> list[Case]:
    """The 40 evaluation items of AMI behind the product's system prompt. Raises DataError."""
    system = Message(Role.SYSTEM, EngineSettings().system_prompt)
    return [
        Case(item.number, (system, Message(Role.USER, item.prompt)), item.response, case_seed(seed, item.number))
        for item in read_items(source)
    ]


def case_seed(seed: int, number: int) -> int:
    """The seed of one reply, so that no two draw the same numbers."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Told:
    """A reply of the whole model to one case."""

    case: Case
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    """What was served; the token that ended the reply is not among them."""
    text: str
    ended: bool
    """By itself, not at the cap."""
    deep_steps: int
    """Passes after the first token that ended at the last layer."""
    left: int
    """Tokens after the first that left at an exit unverified."""

    @property
    def positions(self) -> int:
        """Positions that a round could draft for: each after the first, that of the ending token included."""
        return len(self.tokens) if self.ended else max(len(self.tokens) - 1, 0)


@dataclass(frozen=True)
class Looked:
    """The n positions of one reply after its first token."""

    served: Tokens
    """(n,): what the whole model says"""
    guesses: Tokens
    """(exits, n)"""
    top: Floats
    """(exits, n): probability of the exit's likeliest token"""
    margin: Floats
    """(exits, n): how far that is ahead of the second's"""

    @property
    def hits(self) -> NDArray[np.bool_]:
        """(exits, n): the guess is what the whole model says."""
        return np.equal(self.guesses, self.served)

    def line(self, at: int, model: Model, max_tokens: int) -> Line:
        """One exit as rounds of drafts see it."""
        ends = np.array([model.ends_reply(int(token)) for token in self.guesses[at]], bool)
        return Line(self.hits[at], ends, max_tokens - 1)


def tell(engine: LlamaEngine, cases: Sequence[Case], max_tokens: int) -> list[Told]:
    """The engine's reply to each case."""
    told = []
    for case in cases:
        engine.open(case.messages, case.seed)
        prompt = engine.cached_tokens
        steps = [engine.step()]
        while not steps[-1].done:
            steps.append(engine.step())
        tokens = tuple(token for step in steps for token in step.tokens)
        text = "".join(step.text for step in steps).strip()
        deep = [step.counts.decode_steps for step in steps[1:]]
        told.append(Told(case, prompt, tokens, text, len(tokens) < max_tokens, sum(deep), deep.count(0)))
    return told


def rule_for(told: Told, settings: EngineSettings, temperature: float) -> Coupled:
    """How the engine draws drafts and served tokens of this reply."""
    return Coupled(Drawing(told.case.seed, temperature, settings.top_k, settings.top_p))


class Notes:
    """Writes down what is seen along one reply."""

    def __init__(self, told: Told, exits: int, rule: Coupled, rows: int) -> None:
        """``rows``: how many tokens an exit may guess."""
        n = told.positions
        floats = [np.zeros((exits, n), np.float32) for _ in range(2)]
        self.looked = Looked(np.zeros(n, np.int64), np.zeros((exits, n), np.int64), *floats)
        self._exits, self._rule, self._rows = exits, rule, rows

    def see(self, at: int, row: int, scores: Floats) -> None:
        """The logits of an exit, or, ``at`` being their number, of the whole model, after token ``row``."""
        to, position = self.looked, row + 1
        if at == self._exits:
            to.served[row] = self._rule.serve(scores, position, None)
            return
        view = ExitView.of(scores[: self._rows], 1.0)
        to.guesses[at, row] = self._rule.draft(scores[: self._rows], position)
        to.top[at, row], to.margin[at, row] = view.top, view.margin


class Looker:
    """Looks at replies from every exit of one model, with translators or bare. One thread."""

    def __init__(self, model: Model, settings: EngineSettings, exits: Sequence[int], longest: int) -> None:
        """``longest``: tokens of the longest prompt and reply together."""
        self._ladder = Ladder(model, exits, longest, settings.threads)
        self._model, self._settings = model, settings
        self._rows = draft_rows(settings.draft_vocab, model.n_vocab) or model.n_vocab
        self._at: tuple[int, ...] = ()

    def use(self, translators: Translators | None) -> None:
        """From now on the exits guess through these translators; None for bare exits."""
        heads = {k: translators.at(k) if translators is not None else (None, None) for k in self._ladder.exits}
        self._ladder.use_heads(heads, self._rows if self._rows < self._model.n_vocab else 0)

    def look(self, told: Told, temperature: float) -> Looked:
        """What each exit guesses where the reply was ``told``, drawn as the engine draws drafts.

        Raises EngineError if the whole model does not say what it said before.
        """
        looked = self._looked(told, temperature)
        again = [int(token) for token in looked.served]
        last = self._model.ends_reply(again[-1]) if told.ended and again else True
        if again[: len(told.tokens) - 1] != list(told.tokens[1:]) or not last:
            raise EngineError(f"item {told.case.number}: run again, the model says something else; are rows exact?")
        return looked

    def choices(self, told: Told) -> Tokens:
        """What the whole model would say, greedily, at each position of a reply that need not be its own: (n,)."""
        return self._looked(told, 0.0).served

    def _looked(self, told: Told, temperature: float) -> Looked:
        notes = Notes(told, len(self._ladder.exits), rule_for(told, self._settings, temperature), self._rows)
        self._prompt(told.prompt)
        self._ladder.look(told.tokens[: told.positions], notes.see)
        return notes.looked

    def loss(self, told: Told) -> tuple[float, int]:
        """Sum of -log p, in nats, of what the person answered, at full depth, and its number of tokens."""
        tokens = self._model.tokenize(told.case.response)
        found: list[float] = []

        def see(at: int, row: int, scores: Floats) -> None:
            if at == len(self._ladder.exits):
                found.append(nats(scores, tokens[row]))

        self._prompt(told.prompt[:-1])
        self._ladder.look((told.prompt[-1], *tokens[:-1]), see)
        return sum(found), len(tokens)

    def _prompt(self, tokens: tuple[int, ...]) -> None:
        common = next((i for i, pair in enumerate(zip(tokens, self._at, strict=False)) if pair[0] != pair[1]), None)
        self._ladder.trim(min(len(tokens), len(self._at)) if common is None else common)
        self._ladder.look(tokens[len(self._ladder) :], None)
        self._at = tokens

    def close(self) -> None:
        """Free the context. Idempotent."""
        self._ladder.close()


@contextmanager
def looking(
    model: Model, settings: EngineSettings, exits: Sequence[int], told: Sequence[Told], max_tokens: int
) -> Iterator[Looker]:
    """A Looker with room for replies of ``max_tokens`` to the prompts of ``told``, and for what people answered.

    It is closed at the end.
    """
    longest = max(len(t.prompt) + max(max_tokens, len(model.tokenize(t.case.response))) for t in told)
    looker = Looker(model, settings, exits, longest)
    try:
        yield looker
    finally:
        looker.close()


def nats(scores: Floats, token: int) -> float:
    """-log of the probability of ``token`` by the logits (n,)."""
    wide = scores.astype(np.float64)
    peak = wide.max()
    return float(peak + np.log(np.exp(wide - peak).sum()) - wide[token])
