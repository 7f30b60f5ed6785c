"""The K/V cache of one conversation and the ledger of the tokens in it, which never disagree.

Two frontiers. The first ``deep`` tokens have been through all layers; those after them, ``pending``, through the layers
below one exit only, and their hidden states there are kept until ``deepen`` takes them through the rest. A context that
never drafts has nothing pending, and its passes are those of plain llama.cpp.

Exactness. A token's keys, values and logits must not depend on how it came into the cache. Three things see to that:
flash attention (its row results do not depend on the number of rows), passes of at most ``PASS_ROWS`` rows, below the
64 at which llama.cpp changes to another attention kernel, and cells in the order of the positions: only the tail is
ever removed, so the freed cells are the next to be filled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config import EngineSettings
from ..errors import ContextFull, EngineDead, EngineError
from .abort import AbortFlag
from .library import LOG, library
from .model import Model
from .native import symbols
from .sampling import Logits

PASS_ROWS = 48
"""Most tokens in one pass. Also bounds what an abort can lose."""
_FLASH_ATTENTION_ON = 1
_SEQUENCE = 0
_ABORTED = 2


def context_length(model: Model, settings: EngineSettings) -> int:
    """Tokens of context: the setting, or what the model was trained for if that is less."""
    return min(settings.n_ctx, model.n_ctx_train or settings.n_ctx)


class TokenCache:
    """One sequence of tokens whose keys and values are in a native context. One thread at a time, but for ``abort``."""

    def __init__(self, model: Model, settings: EngineSettings) -> None:
        self._llama = library()
        self._n_vocab, self._n_embd, self._n_layer = model.n_vocab, model.n_embd, model.n_layer
        self.n_ctx = context_length(model, settings)
        self._rows = min(settings.n_batch, PASS_ROWS)
        self._tokens: list[int] = []
        self._deep = 0
        self._exit: int | None = None
        """The exit at which the pending tokens wait; the next may be another only when none is pending."""
        self._states: symbols.Floats | None = None
        self._scored: dict[int, int] = {}
        self._dead = False
        LOG.clear()
        self._context = self._llama.llama_init_from_model(model.handle, self._parameters(settings))
        if not self._context:
            reason = LOG.reason("not enough memory?")
            raise EngineError(f"no context of {self.n_ctx} tokens for '{model.path}': {reason}; lower engine.n_ctx")
        self._memory = self._llama.llama_get_memory(self._context)
        self._batch = self._new_batch(0)
        self._states_batch: Any = None
        self.abort_flag = AbortFlag()
        self.abort_flag.install(self._context)
        self._warm_up()

    def _new_batch(self, width: int) -> Any:
        batch = self._llama.llama_batch_init(self._rows, width, 1)
        for row in range(self._rows):
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = _SEQUENCE
        return batch

    def enable_exits(self) -> None:
        """Make room for the second depth: exit states and a batch of them. The memory is touched as it is used."""
        if self._states is None:
            self._states = np.empty((self.n_ctx, self._n_embd), np.float32)
            self._states_batch = self._new_batch(self._n_embd)

    def set_draft_head(
        self, exit_layer: int, matrix: symbols.Floats | None, bias: symbols.Floats | None, rows: int
    ) -> None:
        """What the exit scores with; see ``symbols.set_draft_head``. Changes drafts, never what is served."""
        self._need_alive()
        symbols.set_draft_head(self._context, exit_layer, matrix, bias, rows)
        self._scored[exit_layer] = rows or self._n_vocab

    def _parameters(self, settings: EngineSettings) -> Any:
        parameters = self._llama.llama_context_default_params()
        parameters.n_ctx = self.n_ctx
        parameters.n_batch = parameters.n_ubatch = self._rows
        parameters.n_seq_max = 1
        parameters.n_threads, parameters.n_threads_batch = settings.decode_threads, settings.threads
        parameters.flash_attn_type = _FLASH_ATTENTION_ON
        parameters.kv_unified = True
        parameters.swa_full = True  # else a model with a sliding window could not be rolled back
        parameters.no_perf = True
        return parameters

    def _warm_up(self) -> None:
        # The first pass maps the weights into memory; better now than in the first turn.
        try:
            self.extend((0,), logits=True)
            self.trim(0)
        except EngineError:
            self.close()
            raise

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens in the cache; token i is at position i."""
        return tuple(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def common(self, wanted: Sequence[int]) -> int:
        """Length of the longest common prefix of the cache and ``wanted``."""
        limit = min(len(self._tokens), len(wanted))
        return next((i for i in range(limit) if self._tokens[i] != wanted[i]), limit)

    @property
    def deep(self) -> int:
        """Tokens from the beginning that have been through all layers."""
        return self._deep

    @property
    def pending(self) -> int:
        """Tokens at the end that only the layers below the exit have seen."""
        return len(self._tokens) - self._deep

    @property
    def pass_rows(self) -> int:
        """Most tokens in one pass of this cache."""
        return self._rows

    def trim(self, length: int) -> None:
        """Keep the first ``length`` tokens. If the memory cannot be cut there, it is emptied: slower, never wrong.

        Both depths are cut at once. Raises EngineDead if it cannot even be emptied.
        """
        self._need_alive()
        if length < len(self._tokens):
            del self._tokens[length:]
            self._deep = min(self._deep, length)
            self._restore()

    def extend(self, tokens: Sequence[int], logits: bool) -> None:
        """Run ``tokens`` through all layers; ``logits`` asks for the logits after the last of them.

        What is pending is deepened first. Raises ContextFull before anything is run; EngineAborted or EngineError with
        the ledger at the last token that is whole in the cache.
        """
        self._need_room(tokens)
        self.deepen()
        for start in range(0, len(tokens), self._rows):
            chunk = tokens[start : start + self._rows]
            self._run(chunk, logits and start + len(chunk) == len(tokens), None)
            self._deep = len(self._tokens)

    def extend_shallow(self, tokens: Sequence[int], exit_layer: int, logits: bool) -> None:
        """Run ``tokens`` through the layers below ``exit_layer`` and keep their states; they are pending from then on.

        What is pending at another exit is deepened first. Raises like ``extend``.
        """
        self._need_room(tokens)
        if self._exit != exit_layer:
            self.deepen()
            self._exit = exit_layer
        for start in range(0, len(tokens), self._rows):
            chunk = tokens[start : start + self._rows]
            self._run(chunk, logits and start + len(chunk) == len(tokens), exit_layer)

    def deepen(self, logits: bool = False) -> None:
        """Run everything pending through the layers from the exit on; nothing below them is computed again.

        ``logits`` asks for the logits of all of them, and then they must fit into one pass. Raises EngineAborted or
        EngineError; what is not deepened then is still pending.
        """
        self._need_alive()
        assert not logits or 0 < self.pending <= self._rows
        while self.pending:
            self.abort_flag.check()
            self._run_deep(min(self.pending, self._rows), logits)

    def _run(self, chunk: Sequence[int], logits: bool, exit_layer: int | None) -> None:
        batch, position = self._batch, len(self._tokens)
        self.abort_flag.check()
        batch.n_tokens = len(chunk)
        for row, token in enumerate(chunk):
            batch.token[row] = token
            batch.pos[row] = position + row
            batch.logits[row] = 0
        batch.logits[len(chunk) - 1] = logits
        self._decode(batch, 0, exit_layer)
        if exit_layer is not None:
            assert self._states is not None
            states = symbols.exit_states(self._context, len(chunk), self._n_embd)
            self._states[position : position + len(chunk)] = states
        self._tokens += chunk

    def _run_deep(self, rows: int, logits: bool) -> None:
        assert self._states is not None and self._exit is not None
        batch, position = self._states_batch, self._deep
        states = self._states[position : position + rows]
        ctypes.memmove(batch.embd, states.ctypes.data, states.nbytes)
        batch.n_tokens = rows
        for row in range(rows):
            batch.pos[row] = position + row
            batch.logits[row] = logits
        self._decode(batch, self._exit, None)
        self._deep += rows

    def _decode(self, batch: Any, begin: int, end: int | None) -> None:
        """One pass of the layers [begin, end). After a failure the native cache is as the ledger says."""
        if self._states is not None:  # else the library may not know layer ranges
            symbols.set_layer_range(self._context, begin, end)
        position = batch.pos[0]
        LOG.clear()
        code = self._llama.llama_decode(self._context, batch)
        if code == 0:
            return
        self._restore()
        self.abort_flag.check()
        raise EngineError(f"llama.cpp failed at token {position} (code {code}): {LOG.reason('no reason given')}")

    def _restore(self) -> None:
        """Make the native cache equal to the ledger after a trim or a failed pass, or else empty both."""
        if self._cut(len(self._tokens)):
            return
        self._tokens.clear()
        self._deep = 0
        self._llama.llama_memory_clear(self._memory, True)
        if not self._cut(0):
            self._dead = True
            raise EngineDead("llama.cpp cannot empty its cache; restart the session")

    def _cut(self, length: int) -> bool:
        removed = self._llama.llama_memory_seq_rm(self._memory, _SEQUENCE, length, -1)
        last: int = self._llama.llama_memory_seq_pos_max(self._memory, _SEQUENCE)
        return bool(removed) and last == length - 1

    def logits(self, row: int = -1) -> Logits:
        """Logits (n_vocab,) after the last token of the last pass, or its ``row``-th; a view, valid until the next."""
        pointer = self._llama.llama_get_logits_ith(self._context, row)
        if not pointer:
            raise EngineError("llama.cpp gave no logits for the last token")
        scores: Logits = np.ctypeslib.as_array(pointer, (self._n_vocab,))
        return scores

    def draft_logits(self) -> Logits:
        """Logits after the last token of a shallow pass, of the tokens that the exit's head scores: (rows,)."""
        assert self._exit is not None
        return self.logits()[: self._scored.get(self._exit, self._n_vocab)]

    def _need_room(self, tokens: Sequence[int]) -> None:
        self._need_alive()
        if len(self._tokens) + len(tokens) > self.n_ctx:
            raise ContextFull(f"{len(self._tokens)} + {len(tokens)} tokens do not fit into {self.n_ctx}")

    def _need_alive(self) -> None:
        if self._dead or not self._context:
            raise EngineDead("the engine is closed" if not self._context else "the engine is dead; restart the session")

    def close(self) -> None:
        """Free the native context. Idempotent."""
        if self._context:
            self._llama.llama_batch_free(self._batch)
            if self._states_batch is not None:
                self._llama.llama_batch_free(self._states_batch)
            self._llama.llama_free(self._context)
            self._context = None
