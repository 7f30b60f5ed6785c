"""The same looks through PyTorch: dequantised weights, 32-bit floats, none of our kernels.

transformers reads the GGUF file and runs the layers; what an exit guesses is made here from its hidden state: the
translator if there is one, the model's own norm, and the rows of its own head.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from pads_runtime.config import EngineSettings
from pads_runtime.engine.exits import draft_rows
from pads_runtime.engine.model import Model
from pads_runtime.engine.translators import Translators
from pads_runtime.errors import ModelError

from .looks import Looked, Notes, Told, rule_for

MISSING = "PyTorch is not installed: ./scripts/setup --training"


def missing() -> str | None:
    """Why there is nothing to compare with here; None if there is."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        return MISSING
    return None


class TorchModel:
    """One GGUF file as a PyTorch module."""

    def __init__(self, model: Model, settings: EngineSettings, exits: Sequence[int]) -> None:
        """Raises ModelError for a file that transformers cannot read."""
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(settings.threads)
        path = model.path
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # its progress bars know no switch
                self._net: Any = AutoModelForCausalLM.from_pretrained(
                    path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True
                )
        except Exception as exc:  # whatever transformers says of a file it cannot read
            raise ModelError(f"model '{path}' cannot be read by transformers: {' '.join(str(exc).split())}") from None
        self._net.eval()
        self._exits, self._settings = tuple(exits), settings
        self._rows = draft_rows(settings.draft_vocab, model.n_vocab) or model.n_vocab

    def look(self, told: Told, heads: Sequence[Translators | None], temperature: float) -> list[Looked]:
        """What the exits guess where the reply was ``told``, once for each of ``heads``; None is bare exits.

        The text is the one that llama.cpp served; what counts as right is what this model says after it.
        """
        import torch

        n, first = told.positions, len(told.prompt)
        if not n:
            rule = rule_for(told, self._settings, temperature)
            return [Notes(told, len(self._exits), rule, self._rows).looked for _ in heads]
        with torch.inference_mode():
            tokens = torch.tensor([[*told.prompt, *told.tokens[:n]]])
            states = self._net.model(input_ids=tokens, output_hidden_states=True, use_cache=False).hidden_states
            whole = self._net.lm_head(states[-1][0, first:]).numpy()  # the last state is behind the norm already
            looked = []
            for translators in heads:
                notes = Notes(told, len(self._exits), rule_for(told, self._settings, temperature), self._rows)
                for at, k in enumerate(self._exits):
                    self._see(notes, at, self._guess(states[k][0, first:], translators, k))
                self._see(notes, len(self._exits), whole)
                looked.append(notes.looked)
        return looked

    @staticmethod
    def _see(notes: Notes, at: int, logits: Any) -> None:
        for row, scores in enumerate(logits):
            notes.see(at, row, scores)

    def _guess(self, state: Any, translators: Translators | None, k: int) -> np.ndarray[Any, Any]:
        import torch

        matrix, bias = translators.at(k) if translators is not None else (None, None)
        moved = state
        if matrix is not None:
            moved = moved + state @ torch.from_numpy(matrix).T
        if bias is not None:
            moved = moved + torch.from_numpy(bias)
        scores = self._net.model.norm(moved) @ self._net.lm_head.weight[: self._rows].T
        found: np.ndarray[Any, Any] = scores.numpy()
        return found
