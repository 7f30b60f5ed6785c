"""What following a turn while it is spoken buys at its end, and what it wastes when the last words change."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.frames import WorkCounts

from ..report import Measurement, measurement
from .common import Bench, Obeying, sized, talk

TURN_TOKENS = (32, 128, 512)
_CHANGED_WORDS = ("a", "rather", "unusual")
_SHORT_QUESTION = "Could you tell me what he did in the winter?"


def measure(bench: Bench) -> Iterator[Measurement]:
    """``ttft_after_commit_ms`` and ``follow_waste`` for each way to follow and each length of turn."""
    exit_layer = exit_ladder(bench.model.n_layer)[1]
    told = Obeying()
    told.tell(exit_layer, 4)
    engines = {
        "none": bench.engine(),
        "shallow": bench.engine(told, follow="shallow", exit_layer=exit_layer),
        "full": bench.engine(),
    }
    depth = {"none": 0.0, "shallow": exit_layer / bench.model.n_layer, "full": 1.0}
    runs = 10 if bench.full else 3
    try:
        for tokens in TURN_TOKENS:
            text = sized(engines["full"], tokens, _SHORT_QUESTION)
            for follow, engine in engines.items():
                bench.say(f"time to the first token, {tokens} token turn, follow {follow}")
                spent = [_turn(engine, text, follow != "none") for _ in range(runs)]
                length = engine.token_count(text)
                note = f"a turn of {length} tokens, from the last word known to the first token"
                yield measurement(f"ttft_after_commit_ms_{tokens}_follow_{follow}", [ms for ms, _ in spent], note=note)
                if follow != "none":
                    wasted = _waste(engine, text)
                    note = (
                        f"tokens run up to the exit or end and thrown away; {wasted * depth[follow]:.1f} tokens' work"
                    )
                    yield measurement(f"follow_waste_{tokens}_follow_{follow}", [wasted], "tokens", note=note)
    finally:
        for engine in engines.values():
            engine.close()


def _turn(engine: LlamaEngine, text: str, follow: bool) -> tuple[float, WorkCounts]:
    """ms from the end of the turn to its first token, and the work in that time. The system prompt is cached."""
    engine.open(talk(""), 1)
    if follow:
        words = text.split(" ")
        for count in range(max(len(words) - 8, 1), len(words) + 1):
            engine.follow(talk(" ".join(words[:count])))
    before = time.perf_counter()
    counts = engine.open(talk(text), 1)
    step = engine.step()
    return (time.perf_counter() - before) * 1e3, counts + step.counts


def _waste(engine: LlamaEngine, text: str) -> int:
    """Tokens that were followed and are of no use when the last three words turn out to be others."""
    engine.open(talk(""), 1)
    engine.follow(talk(text))
    followed = engine.cached_tokens
    changed = " ".join([*text.split(" ")[:-3], *_CHANGED_WORDS])
    engine.follow(talk(changed))
    kept = engine.cached_tokens
    same = next((i for i, (a, b) in enumerate(zip(followed, kept, strict=False)) if a != b), len(kept))
    return len(followed) - same
