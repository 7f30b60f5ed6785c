"""Aborts at random moments of every kind of pass: how soon the engine stops, and that nothing is lost by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.errors import EngineAborted, EngineError

from ..report import Measurement, measurement
from ..timing import percentile
from .common import QUESTION, Bench, Obeying, reply, serve, sized, talk

LIMIT_MS = 20.0
_LONG = 200
_REPLY_AFTER = 8


@dataclass
class Tally:
    """What the aborts of one kind of pass did."""

    ms: list[float]
    intact: int = 0
    equal: int = 0


@dataclass(frozen=True)
class Kind:
    """One kind of pass: what goes before, untimed, and the call that is aborted."""

    name: str
    engine: LlamaEngine
    prepare: Callable[[], object]
    work: Callable[[], object]


def measure(bench: Bench) -> Iterator[Measurement]:
    """``abort_ms`` of all kinds together, and each alone."""
    told = Obeying()
    told.tell(exit_layer := exit_ladder(bench.model.n_layer)[1], 4)
    full = bench.engine(max_reply_tokens=_REPLY_AFTER)
    shallow = bench.engine(told, follow="shallow", exit_layer=exit_layer, max_reply_tokens=_REPLY_AFTER)
    replying = bench.engine(told, exit_layer=exit_layer, max_reply_tokens=_REPLY_AFTER)
    long = talk(sized(full, _LONG) + " and")
    kinds = [
        Kind("prefill", full, lambda: None, lambda: full.follow(long)),
        Kind("shallow", shallow, lambda: None, lambda: shallow.follow(long)),
        Kind("deep", shallow, lambda: shallow.follow(long), lambda: shallow.open(long, 1)),
        Kind("full", full, lambda: None, lambda: _replies(full)),
        Kind("draft", replying, lambda: None, lambda: _replies(replying)),
    ]
    try:
        found: dict[str, Tally] = {}
        for kind in kinds:
            bench.say(f"aborts in {kind.name}")
            found[kind.name] = _aborts(kind, 40, np.random.default_rng(len(found)))
    finally:
        for engine in (full, shallow, replying):
            engine.close()
    every = [ms for tally in found.values() for ms in tally.ms]
    yield measurement(
        "abort_ms_p99",
        [percentile(every, 99)],
        limit=LIMIT_MS,
        note=f"p99 of {len(every)} aborts in {', '.join(found)} passes; the worst took {max(every):.1f} ms",
    )
    for name, tally in found.items():
        yield measurement(f"abort_ms_{name}", tally.ms, note=f"p99 {percentile(tally.ms, 99):.2f}")
    intact = sum(tally.intact for tally in found.values()) / len(every)
    equal = sum(tally.equal for tally in found.values()) / len(every)
    yield measurement("abort_prefix_intact", [intact], "share", at_least=1.0, note=f"of {len(every)}")
    yield measurement("abort_next_reply_equal", [equal], "share", at_least=1.0, note=f"of {len(every)}")


def _replies(engine: LlamaEngine) -> None:
    engine.open(talk(QUESTION), 1)
    while True:
        serve(engine)
        engine.open(talk(QUESTION), 1)


def _aborts(kind: Kind, count: int, rng: np.random.Generator) -> Tally:
    """``count`` aborts that met running work, each checked: the cache at the mark, and the next reply."""
    engine, tally = kind.engine, Tally([])
    undisturbed = reply(engine, talk("Hello!"))
    engine.open(talk(QUESTION), 1)
    other = engine.cached_tokens
    engine.open(talk("Hello!"), 1)
    mark, prefix = engine.mark(), engine.cached_tokens
    lasts = _duration(kind)
    engine.rollback(mark)
    for _ in range(count * 3):
        if len(tally.ms) == count:
            break
        kind.prepare()
        ms = _one(kind, float(rng.uniform(0.02, 0.9)) * lasts)
        engine.rollback(mark)
        if ms is None:  # it was over before the abort came
            continue
        tally.ms.append(ms)
        kept = engine.cached_tokens
        tally.intact += kept == prefix[: len(kept)] and len(kept) >= _common(prefix, other)
        tally.equal += reply(engine, talk("Hello!")) == undisturbed
        engine.open(talk("Hello!"), 1)
        mark = engine.mark()
    return tally


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _duration(kind: Kind) -> float:
    """Seconds that the work takes; at most 0.6, because work may go on for ever."""
    kind.prepare()
    timer = threading.Timer(0.6, kind.engine.abort)
    before = time.perf_counter()
    timer.start()
    try:
        kind.work()
    except EngineAborted:
        pass
    finally:
        spent = time.perf_counter() - before
        timer.cancel()
        timer.join()
    return spent


def _one(kind: Kind, wait_s: float) -> float | None:
    """ms from an abort ``wait_s`` into the work to its end; None if the work had ended before."""
    ended: list[float] = []
    failed: list[EngineError] = []

    def run() -> None:
        try:
            kind.work()
        except EngineAborted:
            ended.append(time.perf_counter())
        except EngineError as exc:
            failed.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(wait_s)
    called = time.perf_counter()
    kind.engine.abort()
    thread.join()
    if failed:
        raise failed[0]
    return (ended[0] - called) * 1e3 if ended else None
