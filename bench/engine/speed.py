"""How fast: plain against the bindings' own loop, the adaptive depth against plain, and what drafting could give."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from pads_runtime.engine import sampling
from pads_runtime.engine.cache import TokenCache
from pads_runtime.engine.calibration import Threads, load_costs
from pads_runtime.engine.calibration import measure as measure_costs
from pads_runtime.engine.controller import AdaptiveDepth
from pads_runtime.engine.costs import DepthCosts, exit_ladder
from pads_runtime.engine.depth import DepthPlan
from pads_runtime.engine.exits import Exits
from pads_runtime.engine.library import library
from pads_runtime.engine.model import Model
from pads_runtime.engine.rules import finite_best
from pads_runtime.engine.sampling import Logits
from pads_runtime.engine.speculate import draft_round, plain_round

from ..report import Measurement, measurement, missing
from .common import QUESTION, REPLY_TOKENS, Bench, prompts, serve, talk
from .files import Shape, random_model, requantised

ACCEPTANCES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
FORCED_DRAFTS = (2, 4, 8)
_CONTEXT = 200


def bindings(bench: Bench) -> Iterator[Measurement]:
    """Our plain loop and ``Llama.generate`` in turn. Both run the prompt's last token and every token but the last."""
    engine = bench.engine()
    theirs = library().Llama(
        model_path=str(bench.path),
        n_ctx=engine.n_ctx,
        n_batch=bench.settings.n_batch,
        n_threads=bench.settings.decode_threads,
        n_threads_batch=bench.settings.threads,
        flash_attn=True,
        verbose=False,
    )
    bench.say("plain decoding against the bindings")
    pairs = []
    try:
        engine.open(talk(QUESTION), 1)
        prompt = list(engine.cached_tokens)
        for run in range(3 + (30 if bench.full else 10)):
            before = time.perf_counter()
            engine.open(talk(QUESTION), 1)
            count = len(serve(engine))
            ours_s = time.perf_counter() - before
            before = time.perf_counter()
            generated = theirs.generate(prompt, top_k=1, temp=0.0, repeat_penalty=1.0)
            got = sum(1 for _ in itertools.islice(generated, count))
            theirs_s = time.perf_counter() - before
            assert got == count
            if run >= 3:
                pairs.append((ours_s / count * 1e3, theirs_s / count * 1e3))
    finally:
        theirs.close()
        engine.close()
    yield measurement("plain_token", [ours for ours, _ in pairs])
    yield measurement("bindings_token", [other for _, other in pairs], note="Llama.generate of llama-cpp-python")
    note = "tokens/s per pair; both run as many passes of one token"
    yield measurement("plain_vs_bindings", [b / a for a, b in pairs], "x", at_least=0.97, note=note)


def adaptive(bench: Bench) -> Iterator[Measurement]:
    """The adaptive depth against plain decoding, replies in turn, for the model as it is and as Q4_0."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _adaptive(bench, "q4_1" if "Q4_1" in bench.path.name else "as_is")
        model = Model(requantised(bench.path, Path(folder)))
        try:
            yield from _adaptive(replace(bench, model=model), "q4_0")
        finally:
            model.close()


def _adaptive(bench: Bench, name: str) -> Iterator[Measurement]:
    bench.say(f"costs of the model, {name}")
    threads = Threads.of(bench.settings)
    costs = load_costs(bench.path, threads)
    if costs is None:
        costs = measure_costs(bench.model, threads, rounds=5)
    for trained in (False, True):
        figure = f"adaptive_vs_plain_{'trained' if trained else 'untrained'}_{name}"
        if trained and bench.translators is None:
            yield missing(figure, "this checkout has no translator for the model", "x")
            continue
        bench.say(figure)
        ratios, drafting = _against_plain(bench, costs, trained)
        made = " (requantised from the model's own weights)" if name == "q4_0" else ""
        note = f"tokens/s over plain, replies of {REPLY_TOKENS}, step by step in turn; {drafting:.0%} drafted{made}"
        yield measurement(figure, ratios, "x", at_least=0.98, note=note)


def _against_plain(bench: Bench, costs: DepthCosts, trained: bool) -> tuple[list[float], float]:
    """Ratio of the times of each reply, and the share of rounds that drafted.

    Both replies are made at once, a step of the one after a step of the other: what else the machine does meets both.
    """
    controller = AdaptiveDepth(costs, exit_ladder(bench.model.n_layer))
    plain, drafting = bench.engine(), bench.engine(controller, trained)
    ratios, drafted, rounds = [], 0, 0
    try:
        for number, text in enumerate(prompts()[:: 1 if bench.full else 4]):
            spent = {plain: 0.0, drafting: 0.0}
            left = [drafting, plain] if number % 2 else [plain, drafting]
            for engine in left:
                engine.open(talk(text), 1)
                engine.step()
            while left:
                for engine in tuple(left):
                    before = time.perf_counter()
                    step = engine.step()
                    spent[engine] += time.perf_counter() - before
                    if engine is drafting:
                        drafted, rounds = drafted + (step.counts.drafted > 0), rounds + 1
                    if step.done:
                        left.remove(engine)
            if number:  # the first replies pay for cold caches
                ratios.append(spent[plain] / spent[drafting])
    finally:
        plain.close()
        drafting.close()
    return ratios, drafted / max(rounds, 1)


def ceiling(bench: Bench, with_1b: bool) -> Iterator[Measurement]:
    """Speed-up over plain decoding when drafts are right as often as told: what an exit would have to reach."""
    yield from _ceiling(bench, "default")
    if not with_1b:
        yield missing("ceiling_1b", "run with --with-1b: it writes 700 MB of random weights to a temporary folder", "x")
        return
    with tempfile.TemporaryDirectory() as folder:
        bench.say("writing a model of random weights")
        model = Model(random_model(Path(folder) / "random-1b.gguf", Shape()))
        try:
            yield from _ceiling(replace(bench, model=model, translators=None), "1b")
        finally:
            model.close()


def _ceiling(bench: Bench, name: str) -> Iterator[Measurement]:
    ladder = exit_ladder(bench.model.n_layer)
    settings = bench.settings.model_copy(update={"exit_layer": ladder[0]})
    cache = TokenCache(bench.model, settings)
    rounds = 20 if bench.full else 6
    try:
        exits = Exits(bench.model, settings, cache, None)
        for exit_layer in ladder:
            exits.prepare(exit_layer)
        cache.extend([100 + i % 900 for i in range(_CONTEXT)], logits=False)
        for exit_layer in ladder if bench.full else ladder[:3]:
            bench.say(f"ceiling of {name}, exit {exit_layer}")
            for draft_len in FORCED_DRAFTS:
                found = [_forced(cache, DepthPlan(exit_layer, draft_len, ""), a, rounds) for a in ACCEPTANCES]
                curve = ", ".join(f"{a:g}: {ratio:.2f}" for a, ratio in zip(ACCEPTANCES, found, strict=True))
                even = break_even(ACCEPTANCES, found)
                note = f"speed-up by acceptance {curve}; breaks even at {'none' if even is None else f'{even:.2f}'}"
                # The figure is that of drafts that are always right; the whole curve stands in the note.
                yield measurement(f"ceiling_{name}_exit{exit_layer}_x{draft_len}", found[-1:], "x", note=note)
    finally:
        cache.close()


class Forced:
    """A rule under which a draft is right with a given probability, at the cost of the real rule."""

    def __init__(self, acceptance: float, seed: int) -> None:
        self._acceptance, self._rng = acceptance, np.random.default_rng(seed)

    def draft(self, logits: Logits, position: int) -> int:
        """See Rule."""
        sampling.greedy(logits)
        return 100 + position % 900

    def serve(self, logits: Logits, position: int, draft: int | None) -> int:
        """See Rule."""
        finite_best(logits)
        if draft is None:
            return 100 + position % 900
        return draft if self._rng.random() < self._acceptance else draft + 1


def _forced(cache: TokenCache, plan: DepthPlan, acceptance: float, rounds: int) -> float:
    """Tokens/s of forced rounds over those of plain ones, run in turn."""
    rule = Forced(acceptance, plan.draft_len)
    drafted_s, plain_s = [], []
    for number in range(rounds + 1):
        before = time.perf_counter()
        draft_round(cache, 99, plan, rule, 0, lambda _: False)
        between = time.perf_counter()
        cache.trim(_CONTEXT)
        again = time.perf_counter()
        plain_round(cache, 99, rule, 0)
        after = time.perf_counter()
        cache.trim(_CONTEXT)
        if number:
            drafted_s.append(between - before)
            plain_s.append(after - again)
    # The cost does not depend on what is accepted, so the expected number of tokens is exact where few rounds are not.
    expected = sum(acceptance**i for i in range(plan.draft_len + 1))
    return expected * float(np.median(plain_s)) / float(np.median(drafted_s))


def break_even(acceptances: tuple[float, ...], ratios: list[float]) -> float | None:
    """Where the line through the points first reaches 1; None if it never does."""
    for (a, low), (b, high) in itertools.pairwise(zip(acceptances, ratios, strict=True)):
        if low >= 1.0:
            return a
        if high >= 1.0:
            return a + (1.0 - low) / (high - low) * (b - a)
    return None
