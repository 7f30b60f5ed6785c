"""The K/V cache of one conversation and the ledger of the tokens in it, which never disagree.

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
from ..errors import ContextFull, EngineAborted, EngineDead, EngineError
from .library import LOG, library
from .model import Model
from .sampling import Logits

PASS_ROWS = 48
"""Most tokens in one pass. Also bounds what an abort can lose."""
_FLASH_ATTENTION_ON = 1
_SEQUENCE = 0
_ABORTED = 2


def context_length(model: Model, settings: EngineSettings) -> int:
    """Tokens of context: the setting, or what the model was trained for if that is less."""
    return min(settings.n_ctx, model.n_ctx_train or settings.n_ctx)


class AbortFlag:
    """A flag that any thread may raise and llama.cpp reads before every node of its graph.

    The callback is libc's ``strlen`` on two bytes of ours: "" is 0, false, and one byte is 1, true. A Python callback
    would be called hundreds of times a token and wait for the interpreter lock each time, so a busy event loop would
    stall the model.
    """

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(2)
        self._strlen = ctypes.CDLL(None).strlen

    def install(self, context: Any) -> None:
        """Have ``context`` obey this flag, which must outlive it."""
        llama = library()
        callback = ctypes.cast(self._strlen, llama.ggml_abort_callback)
        llama.llama_set_abort_callback(context, callback, ctypes.cast(self._bytes, ctypes.c_void_p))

    def raise_(self) -> None:
        """Ask for the running pass to stop; stays until ``clear``."""
        self._bytes[0] = b"\x01"

    def clear(self) -> None:
        """Let passes run again."""
        self._bytes[0] = b"\x00"

    def check(self) -> None:
        """Raises EngineAborted while the flag is up."""
        if self._bytes[0] != b"\x00":
            raise EngineAborted("the engine was told to stop; roll back to a mark before the next call")


class TokenCache:
    """One sequence of tokens whose keys and values are in a native context. One thread at a time, but for ``abort``."""

    def __init__(self, model: Model, settings: EngineSettings) -> None:
        self._llama = library()
        self._n_vocab = model.n_vocab
        self.n_ctx = context_length(model, settings)
        self._rows = min(settings.n_batch, PASS_ROWS)
        self._tokens: list[int] = []
        self._dead = False
        LOG.clear()
        self._context = self._llama.llama_init_from_model(model.handle, self._parameters(settings))
        if not self._context:
            reason = LOG.reason("not enough memory?")
            raise EngineError(f"no context of {self.n_ctx} tokens for '{model.path}': {reason}; lower engine.n_ctx")
        self._memory = self._llama.llama_get_memory(self._context)
        self._batch = self._llama.llama_batch_init(self._rows, 0, 1)
        for row in range(self._rows):
            self._batch.n_seq_id[row] = 1
            self._batch.seq_id[row][0] = _SEQUENCE
        self.abort_flag = AbortFlag()
        self.abort_flag.install(self._context)
        self._warm_up()

    def _parameters(self, settings: EngineSettings) -> Any:
        parameters = self._llama.llama_context_default_params()
        parameters.n_ctx = self.n_ctx
        parameters.n_batch = parameters.n_ubatch = self._rows
        parameters.n_seq_max = 1
        parameters.n_threads = parameters.n_threads_batch = settings.threads
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

    def trim(self, length: int) -> None:
        """Keep the first ``length`` tokens. If the memory cannot be cut there, it is emptied: slower, never wrong.

        Raises EngineDead if it cannot even be emptied.
        """
        self._need_alive()
        if length < len(self._tokens):
            del self._tokens[length:]
            self._restore()

    def extend(self, tokens: Sequence[int], logits: bool) -> None:
        """Run ``tokens`` after those in the cache; ``logits`` asks for the logits after the last of them.

        Raises ContextFull before anything is run; EngineAborted or EngineError with the ledger at the last token that
        is whole in the cache.
        """
        self._need_alive()
        if len(self._tokens) + len(tokens) > self.n_ctx:
            raise ContextFull(f"{len(self._tokens)} + {len(tokens)} tokens do not fit into {self.n_ctx}")
        for start in range(0, len(tokens), self._rows):
            chunk = tokens[start : start + self._rows]
            self.abort_flag.check()
            self._run(chunk, logits and start + len(chunk) == len(tokens))

    def _run(self, chunk: Sequence[int], logits: bool) -> None:
        batch, position = self._batch, len(self._tokens)
        batch.n_tokens = len(chunk)
        for row, token in enumerate(chunk):
            batch.token[row] = token
            batch.pos[row] = position + row
            batch.logits[row] = 0
        batch.logits[len(chunk) - 1] = logits
        LOG.clear()
        code = self._llama.llama_decode(self._context, batch)
        if code == 0:
            self._tokens += chunk
            return
        self._restore()
        self.abort_flag.check()
        raise EngineError(f"llama.cpp failed at token {position} (code {code}): {LOG.reason('no reason given')}")

    def _restore(self) -> None:
        """Make the native cache equal to the ledger after a trim or a failed pass, or else empty both."""
        if self._cut(len(self._tokens)):
            return
        self._tokens.clear()
        self._llama.llama_memory_clear(self._memory, True)
        if not self._cut(0):
            self._dead = True
            raise EngineDead("llama.cpp cannot empty its cache; restart the session")

    def _cut(self, length: int) -> bool:
        removed = self._llama.llama_memory_seq_rm(self._memory, _SEQUENCE, length, -1)
        last: int = self._llama.llama_memory_seq_pos_max(self._memory, _SEQUENCE)
        return bool(removed) and last == length - 1

    def logits(self) -> Logits:
        """Logits (n_vocab,) after the last token of the last ``extend``; a view, valid until the next."""
        pointer = self._llama.llama_get_logits_ith(self._context, -1)
        if not pointer:
            raise EngineError("llama.cpp gave no logits for the last token")
        row: Logits = np.ctypeslib.as_array(pointer, (self._n_vocab,))
        return row

    def _need_alive(self) -> None:
        if self._dead or not self._context:
            raise EngineDead("the engine is closed" if not self._context else "the engine is dead; restart the session")

    def close(self) -> None:
        """Free the native context. Idempotent."""
        if self._context:
            self._llama.llama_batch_free(self._batch)
            self._llama.llama_free(self._context)
            self._context = None
