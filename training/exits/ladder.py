"""Passes that go up the layers exit by exit, so that one computation of each layer shows the states at every exit.

[0, e1) leaves the states at e1, [e1, e2) takes them up to e2, and so on; the last rung ends in the model's own logits
and output state. By the exactness of layer ranges this is the full pass, bit for bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pads_runtime.engine.cache import PASS_ROWS
from pads_runtime.engine.library import LOG, library
from pads_runtime.engine.model import Model
from pads_runtime.engine.native import symbols
from pads_runtime.errors import ContextFull, EngineError, InputError

Floats = NDArray[np.float32]
Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class Rows:
    """What the model thought at n successive positions."""

    states: Floats
    """(n, exits, n_embd): the hidden state at each exit"""
    outputs: Floats
    """(n, n_embd): the state after the last layer and the output norm"""
    choices: Tokens
    """(n,): the token of the largest logit over the whole vocabulary"""

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all ``parts``, at least one, in order."""
        return cls(
            np.concatenate([part.states for part in parts]),
            np.concatenate([part.outputs for part in parts]),
            np.concatenate([part.choices for part in parts]),
        )


class Ladder:
    """One sequence of tokens in a context of its own, run exit by exit. ``close`` it before the model."""

    def __init__(self, model: Model, exits: Sequence[int], n_ctx: int, threads: int = 1) -> None:
        self._llama = library()
        self._model = model
        self.exits = checked_exits(exits, model.n_layer)
        self.n_ctx = n_ctx
        parameters = self._llama.llama_context_default_params()
        parameters.n_ctx, parameters.n_seq_max = n_ctx, 1
        parameters.n_batch = parameters.n_ubatch = PASS_ROWS
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type, parameters.kv_unified, parameters.no_perf = 1, True, True
        LOG.clear()
        self._context = self._llama.llama_init_from_model(model.handle, parameters)
        if not self._context:
            raise EngineError(f"no context of {n_ctx} tokens: {LOG.reason('not enough memory?')}")
        self._memory = self._llama.llama_get_memory(self._context)
        self._token_batch = self._llama.llama_batch_init(PASS_ROWS, 0, 1)
        self._state_batch = self._llama.llama_batch_init(PASS_ROWS, model.n_embd, 1)
        self._length = 0
        try:
            symbols.set_layer_range(self._context, 0, self.exits[0])
        except EngineError:
            self.close()
            raise

    def __len__(self) -> int:
        return self._length

    def trim(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        if length < self._length and not self._llama.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise EngineError(f"llama.cpp cannot cut its cache at token {length}")
        self._length = min(self._length, length)

    def extend(self, tokens: Sequence[int]) -> Rows:
        """Run ``tokens`` after those before. Raises ContextFull before anything is run, EngineError if a pass fails."""
        if self._length + len(tokens) > self.n_ctx:
            raise ContextFull(f"{self._length} + {len(tokens)} tokens do not fit into {self.n_ctx}")
        return Rows.joined([self._climb(tokens[i : i + PASS_ROWS]) for i in range(0, len(tokens), PASS_ROWS)])

    def use_heads(self, heads: Mapping[int, tuple[Floats | None, Floats | None]], draft_vocab: int) -> None:
        """Have the runtime's own draft heads guess at the exits: exit -> (matrix, bias), None for a bare exit's."""
        for exit_layer, (matrix, bias) in heads.items():
            symbols.set_draft_head(self._context, exit_layer, matrix, bias, draft_vocab)

    def guesses(self, tokens: Sequence[int]) -> Tokens:
        """What each exit guesses after each token (n, exits), through the heads as they are set; same errors."""
        found = []
        for start in range(0, len(tokens), PASS_ROWS):
            chunk = tokens[start : start + PASS_ROWS]
            found.append(np.empty((len(chunk), len(self.exits)), np.int32))
            states: Floats | None = None
            for at, (begin, end) in enumerate(zip((0, *self.exits), self.exits, strict=False)):
                self._decode(chunk, states, begin, end, outputs=True)
                found[-1][:, at] = self._argmax(len(chunk))
                states = symbols.exit_states(self._context, len(chunk), self._model.n_embd)
            # Cells were taken by the first rung; the layers above the last exit stay empty and are never read.
            self._length += len(chunk)
        return np.concatenate(found)

    def look(self, tokens: Sequence[int], see: Callable[[int, int, Floats], None] | None) -> None:
        """Run ``tokens`` exit by exit; ``see(at, row, scores)`` is shown the logits (n_vocab,) after each of them.

        ``at`` counts the exits, and is len(exits) for the whole model, which comes last. The logits are a view, valid
        during the call only, those of an exit scored by its head (``use_heads``). Raises like ``extend``.
        """
        if self._length + len(tokens) > self.n_ctx:
            raise ContextFull(f"{self._length} + {len(tokens)} tokens do not fit into {self.n_ctx}")
        for start in range(0, len(tokens), PASS_ROWS):
            chunk = tokens[start : start + PASS_ROWS]
            states: Floats | None = None
            for at, (begin, end) in enumerate(zip((0, *self.exits), (*self.exits, None), strict=True)):
                self._decode(chunk, states, begin, end, outputs=see is not None)
                for row in range(len(chunk) if see is not None else 0):
                    assert see is not None
                    see(at, start + row, self._scores(row))
                if end is not None:
                    states = symbols.exit_states(self._context, len(chunk), self._model.n_embd)
            self._length += len(chunk)

    def _climb(self, chunk: Sequence[int]) -> Rows:
        states: list[Floats] = []
        for begin, end in zip((0, *self.exits), self.exits, strict=False):
            self._decode(chunk, states[-1] if states else None, begin, end, outputs=False)
            states.append(symbols.exit_states(self._context, len(chunk), self._model.n_embd))
        self._llama.llama_set_embeddings(self._context, True)
        try:
            self._decode(chunk, states[-1], self.exits[-1], None, outputs=True)
            choices, outputs = self._argmax(len(chunk)), self._outputs(len(chunk))
        finally:
            self._llama.llama_set_embeddings(self._context, False)
        self._length += len(chunk)
        return Rows(np.stack(states, axis=1), outputs, choices)

    def _decode(self, chunk: Sequence[int], states: Floats | None, begin: int, end: int | None, outputs: bool) -> None:
        batch = self._token_batch if states is None else self._state_batch
        batch.n_tokens = len(chunk)
        for row, token in enumerate(chunk):
            if states is None:
                batch.token[row] = token
            batch.pos[row], batch.n_seq_id[row], batch.logits[row] = self._length + row, 1, outputs
            batch.seq_id[row][0] = 0
        if states is not None:
            ctypes.memmove(batch.embd, np.ascontiguousarray(states, np.float32).ctypes.data, states.nbytes)
        symbols.set_layer_range(self._context, begin, end)
        LOG.clear()
        code = self._llama.llama_decode(self._context, batch)
        if code != 0:
            self._llama.llama_memory_seq_rm(self._memory, 0, self._length, -1)
            raise EngineError(
                f"llama.cpp failed at token {self._length} (code {code}): {LOG.reason('no reason given')}"
            )

    def _argmax(self, n: int) -> Tokens:
        return np.array([np.argmax(self._scores(row)) for row in range(n)], np.int32)

    def _scores(self, row: int) -> Floats:
        pointer = self._llama.llama_get_logits_ith(self._context, row)
        if not pointer:
            raise EngineError("llama.cpp gave no logits; is this a chat model?")
        scores: Floats = np.ctypeslib.as_array(pointer, (self._model.n_vocab,))
        return scores

    def _outputs(self, n: int) -> Floats:
        rows = [self._llama.llama_get_embeddings_ith(self._context, row) for row in range(n)]
        if not all(rows):
            raise EngineError("llama.cpp gave no output states; is this a chat model?")
        return np.stack([np.ctypeslib.as_array(row, (self._model.n_embd,)).copy() for row in rows])

    def close(self) -> None:
        """Free the native context. Idempotent."""
        if self._context:
            self._llama.llama_batch_free(self._token_batch)
            self._llama.llama_batch_free(self._state_batch)
            self._llama.llama_free(self._context)
            self._context = None


def checked_exits(exits: Sequence[int], n_layer: int) -> tuple[int, ...]:
    """The exits in rising order. Raises InputError for one that the model does not have."""
    wrong = [k for k in exits if not 1 <= k < n_layer]
    if wrong or not exits:
        raise InputError(f"exits {wrong or 'none'}: a model of {n_layer} layers has exits 1 to {n_layer - 1}")
    return tuple(sorted(set(exits)))
