"""Single passes through a model, for measuring: shallow, deep and full, each behind the same prefix."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from .library import LOG, library
from .native import symbols

Floats = npt.NDArray[np.float32]


class Passes:
    """A context with ``prefix`` tokens in it; each method runs one pass at ``prefix`` and leaves what it added.

    ``model`` is a native model handle that must outlive this. Flash attention is on and the rows are exact, as in the
    engine. Raises EngineError for a context that cannot be made or a pass that fails.
    """

    def __init__(
        self, model: Any, threads: int, decode_threads: int | None = None, prefix: int = 200, max_rows: int = 48
    ) -> None:
        """``threads`` run a pass over several rows, ``decode_threads`` (None: as many) one over a single row."""
        self._lib: Any = library()
        self.n_layer: int = self._lib.llama_model_n_layer(model)
        self.n_embd: int = self._lib.llama_model_n_embd(model)
        self.n_vocab: int = self._lib.llama_vocab_n_tokens(self._lib.llama_model_get_vocab(model))
        self.prefix = prefix
        options = self._lib.llama_context_default_params()
        options.n_ctx = prefix + max_rows
        options.n_batch = options.n_ubatch = max_rows
        options.n_seq_max, options.flash_attn_type, options.kv_unified, options.no_perf = 1, 1, True, True
        options.n_threads, options.n_threads_batch = decode_threads or threads, threads
        LOG.clear()
        self._context = self._lib.llama_init_from_model(model, options)
        if not self._context:
            raise EngineError(f"no context to measure in: {LOG.reason('not enough memory?')}")
        self._memory = self._lib.llama_get_memory(self._context)
        self._tokens = self._lib.llama_batch_init(max_rows, 0, 1)
        self._states = self._lib.llama_batch_init(max_rows, self.n_embd, 1)
        for start in range(0, prefix, max_rows):
            self._run_tokens(min(max_rows, prefix - start), start, scores=False)

    def full(self, rows: int) -> None:
        """All layers, scores for every row."""
        symbols.set_layer_range(self._context, 0)
        self._run_tokens(rows, self.prefix, scores=True)

    def shallow(self, exit_layer: int, rows: int, scores: bool, at: int = 0) -> None:
        """The layers below ``exit_layer``, ``at`` positions behind the prefix."""
        symbols.set_layer_range(self._context, 0, exit_layer)
        self._run_tokens(rows, self.prefix + at, scores)

    def states(self, rows: int) -> Floats:
        """The exit states (rows, n_embd) of the last shallow pass."""
        return symbols.exit_states(self._context, rows, self.n_embd)

    def deep(self, exit_layer: int, states: Floats) -> None:
        """The layers from ``exit_layer`` on over the states (n, n_embd) of the positions behind the prefix."""
        symbols.set_layer_range(self._context, exit_layer)
        ctypes.memmove(self._states.embd, states.ctypes.data, states.nbytes)
        self._decode(self._states, len(states), self.prefix, scores=True)

    def trim(self) -> None:
        """Back to the prefix."""
        self._lib.llama_memory_seq_rm(self._memory, 0, self.prefix, -1)

    def draft_head(self, exit_layer: int, draft_vocab: int, translator: bool) -> None:
        """Score the first ``draft_vocab`` tokens at this exit (0: all), through a translator that changes little."""
        matrix = np.full((self.n_embd, self.n_embd), 1e-4, np.float32) if translator else None
        symbols.set_draft_head(self._context, exit_layer, matrix, draft_vocab=draft_vocab)

    def _run_tokens(self, rows: int, at: int, scores: bool) -> None:
        for row in range(rows):
            self._tokens.token[row] = (100 + 7 * (at + row)) % self.n_vocab
        self._decode(self._tokens, rows, at, scores)

    def _decode(self, batch: Any, rows: int, at: int, scores: bool) -> None:
        batch.n_tokens = rows
        for row in range(rows):
            batch.pos[row], batch.n_seq_id[row], batch.logits[row] = at + row, 1, scores
            batch.seq_id[row][0] = 0
        LOG.clear()
        code = self._lib.llama_decode(self._context, batch)
        if code != 0:
            raise EngineError(f"a measured pass of {rows} rows failed (code {code}): {LOG.reason('no reason given')}")

    def close(self) -> None:
        """Free the context. Idempotent."""
        if self._context:
            self._lib.llama_batch_free(self._tokens)
            self._lib.llama_batch_free(self._states)
            self._lib.llama_free(self._context)
            self._context = None
