"""What the one-depth engine costs: prefill and decode per token, abort, rollback, and the same loop in the bindings.

    python -m bench.engine_plain [--model NAME or GGUF file] [--runs 10] [--aborts 100] [--json]

Our loop and ``Llama.generate`` of llama-cpp-python decode the same prompt greedily in turn, on contexts with the same
threads, batch and flash attention, so that a change of the machine's load meets both. Aborts come from another thread
at random moments (fixed seed) of a running prefill or reply; the time is from the call to the exception.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console

from pads_runtime.config import EngineSettings
from pads_runtime.engine.cache import PASS_ROWS
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import library
from pads_runtime.errors import EngineAborted, PadsError
from pads_runtime.frames import Message, Role
from pads_runtime.models import Registry

from .report import Measurement, measurement, report
from .timing import timed

REPLY_TOKENS = 64
QUESTION = "Please write a long story about a lighthouse keeper, his dog and a very cold winter by the northern sea."
SENTENCE = "The keeper lit the lamp each evening, wrote the weather into his book, and thought of the town. "


def measure(model: str, runs: int, aborts: int) -> list[Measurement]:
    """All figures for one model."""
    path = Registry.load().resolve(model)
    settings = EngineSettings(model=model, max_reply_tokens=REPLY_TOKENS)
    engine = LlamaEngine.load(path, settings)
    try:
        ours, theirs = _decoding(engine, settings, str(path), runs)
        return [
            _prefill(engine, runs),
            measurement("decode_token", ours),
            measurement("decode_token_bindings", theirs, note="Llama.generate of llama-cpp-python"),
            measurement(
                "plain_vs_bindings", [b / a for a, b in zip(ours, theirs, strict=True)], "x", note="tokens/s, per pair"
            ),
            measurement("step_overhead", _overhead(engine, runs), note="everything in a step but llama_decode"),
            measurement("rollback_64_tokens", _rollbacks(engine, runs)),
            measurement("abort_in_prefill", _aborts(engine, aborts, lambda: engine.open(_talk(SENTENCE * 40), 1))),
            measurement("abort_in_reply", _aborts(engine, aborts, lambda: _reply(engine))),
        ]
    finally:
        engine.close()


def _talk(text: str) -> list[Message]:
    return [Message(Role.SYSTEM, EngineSettings().system_prompt), Message(Role.USER, text)]


def _reply(engine: LlamaEngine) -> int:
    """Open the reply and serve it to the end; the number of its tokens."""
    engine.open(_talk(QUESTION), 1)
    return _serve(engine)


def _serve(engine: LlamaEngine) -> int:
    served = 0
    while True:
        step = engine.step()
        served += len(step.tokens)
        if step.done:
            return served


def _prefill(engine: LlamaEngine, runs: int) -> Measurement:
    mark = engine.mark()
    talk = _talk(SENTENCE * 20)
    done = timed(lambda: engine.open(talk, 1), runs, prepare=lambda: engine.rollback(mark))
    tokens = done.results[0].prefilled
    note = f"{tokens} tokens from an empty cache, {PASS_ROWS} a pass"
    return measurement("prefill_token", [ms / tokens for ms in done.ms], note=note)


def _decoding(engine: LlamaEngine, settings: EngineSettings, path: str, runs: int) -> tuple[list[float], list[float]]:
    """ms per token of our loop and of the bindings' own, run in turn."""
    bindings = library().Llama(
        model_path=path,
        n_ctx=engine.n_ctx,
        n_batch=settings.n_batch,
        n_threads=settings.decode_threads,
        n_threads_batch=settings.threads,
        flash_attn=True,
        verbose=False,
    )
    engine.open(_talk(QUESTION), 1)
    prompt = list(engine.cached_tokens)

    def theirs() -> int:
        generated = bindings.generate(prompt, top_k=1, temp=0.0, repeat_penalty=1.0)
        next(generated)
        return sum(1 for _ in itertools.islice(generated, REPLY_TOKENS - 1))

    times: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 2):
        engine.open(_talk(QUESTION), 1)
        first = engine.step()
        ours_ms = timed(lambda: _serve(engine), 1, warm_up=0)
        if first.done or ours_ms.results[0] != REPLY_TOKENS - 1:
            raise PadsError(f"the reply ended before {REPLY_TOKENS} tokens; measure another model or question")
        theirs_ms = timed(theirs, 1, warm_up=0)
        if run >= 2:
            times[0].append(ours_ms.ms[0] / (REPLY_TOKENS - 1))
            # generate() runs the last prompt token again before the first token, which is as much work as a token.
            times[1].append(theirs_ms.ms[0] / REPLY_TOKENS)
    bindings.close()
    return times


def _overhead(engine: LlamaEngine, runs: int) -> list[float]:
    """ms per step that are not llama_decode's, from its own clock around the native call."""
    llama = engine._cache._llama
    native, spent = llama.llama_decode, [0.0]

    def clocked(context: object, batch: object) -> int:
        before = time.perf_counter()
        code: int = native(context, batch)
        spent[0] += time.perf_counter() - before
        return code

    per_step = []
    llama.llama_decode = clocked
    try:
        for _ in range(runs):
            engine.open(_talk(QUESTION), 1)
            spent[0], before = 0.0, time.perf_counter()
            steps = _serve(engine)
            per_step.append((time.perf_counter() - before - spent[0]) * 1e3 / steps)
    finally:
        llama.llama_decode = native
    return per_step


def _rollbacks(engine: LlamaEngine, runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        engine.open(_talk(QUESTION), 1)
        mark = engine.mark()
        _serve(engine)
        before = time.perf_counter()
        engine.rollback(mark)
        times.append((time.perf_counter() - before) * 1e3)
    return times


def _aborts(engine: LlamaEngine, count: int, work: Callable[[], object]) -> list[float]:
    """ms from ``abort`` to EngineAborted in a thread that repeats ``work``, at random moments of it."""
    rng = np.random.default_rng(1)
    engine.open(_talk("Hello!"), 1)
    mark = engine.mark()
    times: list[float] = []
    for wait in rng.uniform(0.02, 0.4, count):
        stopped: list[float] = []

        def repeat(stopped: list[float] = stopped) -> None:
            try:
                while True:
                    work()
                    engine.rollback(mark)
            except EngineAborted:
                stopped.append(time.perf_counter())

        thread = threading.Thread(target=repeat)
        thread.start()
        time.sleep(wait)
        called = time.perf_counter()
        engine.abort()
        thread.join(5)
        while thread.is_alive():  # the abort fell on the rollback, which clears it
            called = time.perf_counter()
            engine.abort()
            thread.join(5)
        times.append((stopped[0] - called) * 1e3)
        engine.rollback(mark)
    return times


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine_plain", description=__doc__)
    parser.add_argument("--model", default=EngineSettings().model)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--aborts", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gc.disable()
    try:
        rows = measure(options.model, options.runs, options.aborts)
    except PadsError as exc:
        print(f"FATAL: {exc}", file=sys.stderr)
        raise SystemExit(exc.exit_code) from None
    done = report("engine_plain", rows, ["python", "-m", "bench.engine_plain", *sys.argv[1:]])
    if options.json:
        print(json.dumps(done.as_json(), ensure_ascii=False))
    else:
        done.show(Console())


if __name__ == "__main__":
    main()
