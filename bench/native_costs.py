"""What one pass costs in the patched llama.cpp: shallow, deep and full, with and without a draft head.

    python -m bench.native_costs [--model NAME or GGUF file] [--exits 6,15] [--rows 1,2,4,8] [--runs 30] [--threads 1]

Medians in ms over ``--runs`` passes after 5 discarded ones, behind a prefix of 200 tokens, row-exact kernels on unless
said otherwise. The draft head is a random translator and the first 8,192 rows of the output matrix.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime.engine.library import library
from pads_runtime.engine.native import symbols
from pads_runtime.errors import PadsError
from pads_runtime.models import Registry

PREFIX, PROMPT, DISCARDED, DRAFT_VOCAB = 200, 256, 5, 8_192


class Passes:
    """A context with a prefix in it; each method runs one pass behind the prefix and removes what it added."""

    def __init__(self, path: Path, threads: int) -> None:
        self._lib: Any = library()
        self._model = self._lib.llama_model_load_from_file(str(path).encode(), self._lib.llama_model_default_params())
        if not self._model:
            raise PadsError(f"'{path}' is not a model that llama.cpp loads; give a GGUF file")
        options = self._lib.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch, options.flash_attn_type = 1024, 512, 512, 1
        options.n_threads = options.n_threads_batch = threads
        self.context = self._lib.llama_init_from_model(self._model, options)
        self._memory = self._lib.llama_get_memory(self.context)
        self.n_embd = self._lib.llama_model_n_embd(self._model)
        self._tokens = self._lib.llama_batch_init(512, 0, 1)
        self._states = self._lib.llama_batch_init(512, self.n_embd, 1)
        self.tokens(PREFIX, at=0, outputs=False)

    def tokens(self, n: int, at: int = PREFIX, outputs: bool = True) -> None:
        """Decode ``n`` tokens, with logits for each or for none."""
        for row in range(n):
            self._tokens.token[row] = 100 + 7 * row
        self._decode(self._tokens, n, at, outputs)

    def states(self, states: Any) -> None:
        """Continue from hidden states (n, n_embd), with logits for each."""
        ctypes.memmove(self._states.embd, states.ctypes.data, states.nbytes)
        self._decode(self._states, len(states), PREFIX, True)

    def trim(self) -> None:
        """Back to the prefix."""
        self._lib.llama_memory_seq_rm(self._memory, 0, PREFIX, -1)

    def _decode(self, batch: Any, n: int, at: int, outputs: bool) -> None:
        batch.n_tokens = n
        for row in range(n):
            batch.pos[row], batch.n_seq_id[row], batch.logits[row] = at + row, 1, outputs
            batch.seq_id[row][0] = 0
        code = self._lib.llama_decode(self.context, batch)
        if code != 0:
            raise PadsError(f"llama.cpp failed (code {code}) in a pass of {n} rows at position {at}")


def median_ms(run: Callable[[], None], runs: int, before: Callable[[], None]) -> float:
    """Median time of ``run``, each time after an untimed ``before``."""
    times = []
    for _ in range(DISCARDED + runs):
        before()
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times[DISCARDED:]), 2)


def measure(passes: Passes, exits: Sequence[int], rows: Sequence[int], runs: int) -> dict[str, float]:
    """Name of the pass to its median in ms."""
    found: dict[str, float] = {}
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((passes.n_embd, passes.n_embd)).astype(np.float32) / passes.n_embd
    for exact in (True, False):
        symbols.set_row_exact(exact)
        mark = "" if exact else " row-exact off"
        for n in rows:
            found[f"full({n}){mark}"] = median_ms(lambda n=n: passes.tokens(n), runs, passes.trim)  # type: ignore[misc]
        few = max(runs // 10, 3)
        found[f"prompt({PROMPT}){mark}"] = median_ms(lambda: passes.tokens(PROMPT, outputs=False), few, passes.trim)
    symbols.set_row_exact(True)
    for k in exits:
        symbols.set_layer_range(passes.context, 0, k)
        found[f"shallow({k})"] = median_ms(lambda: passes.tokens(1), runs, passes.trim)
        found[f"shallow({k}) no logits"] = median_ms(lambda: passes.tokens(1, outputs=False), runs, passes.trim)
        symbols.set_draft_head(passes.context, k, draft_vocab=DRAFT_VOCAB)
        found[f"shallow({k}) first rows"] = median_ms(lambda: passes.tokens(1), runs, passes.trim)
        symbols.set_draft_head(passes.context, k, matrix, draft_vocab=DRAFT_VOCAB)
        found[f"shallow({k}) draft head"] = median_ms(lambda: passes.tokens(1), runs, passes.trim)
        for n in rows:
            found[f"deep({k}, {n})"] = _deep(passes, k, n, runs)
    symbols.set_layer_range(passes.context, 0)
    return found


def _deep(passes: Passes, k: int, n: int, runs: int) -> float:
    states = np.zeros((n, passes.n_embd), np.float32)

    def shallow() -> None:
        passes.trim()
        symbols.set_layer_range(passes.context, 0, k)
        passes.tokens(n, outputs=False)
        states[:] = symbols.exit_states(passes.context, n, passes.n_embd)
        symbols.set_layer_range(passes.context, k)

    return median_ms(lambda: passes.states(states), runs, shallow)


def main(argv: list[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.native_costs", description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct", help="name in the registry, or a GGUF file")
    parser.add_argument("--exits", default="6,10,15,20", help="layers to exit at")
    parser.add_argument("--rows", default="1,2,4,8", help="tokens in a pass")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    try:
        path = Path(options.model)
        passes = Passes(path if path.suffix == ".gguf" else Registry.load().path(options.model), options.threads)
        exits, rows = ([int(part) for part in text.split(",")] for text in (options.exits, options.rows))
        print(json.dumps(measure(passes, exits, rows, options.runs), indent=1))
    except PadsError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
