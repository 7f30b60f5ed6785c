"""Translators: one small linear map an exit, from its hidden state to what the last layer would make of it.

``models/exits-<name>.npz`` holds, for each exit k, ``A_<k>`` float16 (n_embd, n_embd), or its factors ``U_<k>``
(n_embd, r) and ``V_<k>`` (r, n_embd) with A = U V, and ``b_<k>`` float32 (n_embd,); and ``meta``, a JSON text with
``model_sha256``, ``draft_vocab`` and ``exits``. The exit scores h + A h + b. It is read without pickle.

A translator belongs to the weights it was fitted for and says so by their hash. One of other weights would draft
nonsense: harmless to what is served, but slow, so it is refused.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Translators:
    """The translators of one model by exit."""

    path: Path
    model_sha256: str
    draft_vocab: int
    """Rows of the head that they were fitted for."""
    matrices: Mapping[int, Floats]
    biases: Mapping[int, Floats]

    @classmethod
    def load(cls, path: Path, model_sha256: str) -> Translators:
        """Read a file that was fitted for the model of that hash. Raises ModelError, one line, for any other."""
        arrays = _read(path)
        try:
            meta = json.loads(_text(arrays["meta"]))
            fitted_for, exits = str(meta["model_sha256"]), [int(k) for k in meta["exits"]]
            matrices = {k: _matrix(arrays, k) for k in exits}
            biases = {k: arrays[f"b_{k}"].astype(np.float32) for k in exits}
            loaded = cls(path, fitted_for, int(meta["draft_vocab"]), matrices, biases)
        except KeyError as exc:
            raise ModelError(f"translator '{path}' has no {exc}; fit it again") from None
        except (ValueError, TypeError) as exc:
            raise ModelError(f"translator '{path}' is malformed: {' '.join(str(exc).split())}; fit it again") from None
        if fitted_for != model_sha256:
            raise ModelError(
                f"translator '{path}' was fitted for another model (sha256 {fitted_for[:12]}, this one is "
                f"{model_sha256[:12]}); set engine.translator to none or to this model's"
            )
        return loaded

    @property
    def exits(self) -> tuple[int, ...]:
        """The exits that have a translator."""
        return tuple(sorted(self.matrices))

    def at(self, exit_layer: int) -> tuple[Floats | None, Floats | None]:
        """Matrix (n_embd, n_embd) and bias (n_embd,) of an exit, None where it has none."""
        return self.matrices.get(exit_layer), self.biases.get(exit_layer)

    def check_fits(self, n_embd: int, n_layer: int) -> None:
        """Raises ModelError if an array is not of this model's shape or holds what is not a number."""
        for k in self.exits:
            matrix, bias = self.matrices[k], self.biases[k]
            if matrix.shape != (n_embd, n_embd) or bias.shape != (n_embd,) or not 1 <= k < n_layer:
                raise ModelError(
                    f"translator '{self.path}': exit {k} is {matrix.shape} and {bias.shape}, which fits no model of "
                    f"{n_layer} layers of {n_embd}"
                )
            if not (np.isfinite(matrix).all() and np.isfinite(bias).all()):
                raise ModelError(f"translator '{self.path}': exit {k} holds values that are not numbers; fit it again")


def fitted_for(path: Path) -> str:
    """sha256 of the model that a translator file was fitted for. Raises ModelError."""
    try:
        return str(json.loads(_text(_read(path, only="meta")["meta"]))["model_sha256"])
    except (KeyError, ValueError, TypeError):
        raise ModelError(f"translator '{path}' does not say what model it was fitted for; fit it again") from None


def _read(path: Path, only: str | None = None) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if only in (None, name)}
    except OSError as exc:
        raise ModelError(f"translator '{path}' cannot be read: {exc.strerror or exc}") from None
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as exc:
        raise ModelError(f"translator '{path}' is no npz file: {' '.join(str(exc).split())}") from None


def _text(meta: NDArray[Any]) -> str:
    return meta.tobytes().decode("utf-8") if meta.dtype == np.uint8 else str(meta[()])


def _matrix(arrays: Mapping[str, NDArray[Any]], k: int) -> Floats:
    if f"U_{k}" in arrays:
        low: Floats = arrays[f"U_{k}"].astype(np.float32) @ arrays[f"V_{k}"].astype(np.float32)
        return low
    return arrays[f"A_{k}"].astype(np.float32)
