"""The file of a model's translators: plain arrays, the same fit giving the same bytes.

``A_<k>`` float16 (n_embd, n_embd) and ``b_<k>`` float32 (n_embd,) for each exit k, and ``meta``, a JSON text:
``model_sha256``, ``draft_vocab``, ``exits``, ``figures``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .fit import Translator


def save(found: Mapping[int, Translator], meta: Mapping[str, Any], path: Path) -> None:
    """Write beside ``path``, then rename into place."""
    arrays: dict[str, Any] = {"meta": np.array(json.dumps(meta, sort_keys=True))}
    for exit_layer, translator in sorted(found.items()):
        arrays[f"A_{exit_layer}"] = translator.matrix.astype(np.float16)
        arrays[f"b_{exit_layer}"] = translator.bias.astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        np.savez_compressed(file, **arrays)
    beside.replace(path)


def load(path: Path) -> tuple[dict[int, Translator], dict[str, Any]]:
    """The translators of a file, by exit, and its meta."""
    with np.load(path, allow_pickle=False) as file:
        meta: dict[str, Any] = json.loads(str(file["meta"]))
        found = {
            k: Translator(file[f"A_{k}"].astype(np.float32), file[f"b_{k}"].astype(np.float32)) for k in meta["exits"]
        }
    return found, meta
