"""Writes the classifier's file. The same weights give the same bytes, so that its sha256 can be registered."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import skops.io

from pads_runtime.acts.weights import FORMAT, ActWeights

_DATE = (1980, 1, 1, 0, 0, 0)
_SCHEMA = "schema.json"


def save_weights(weights: ActWeights, path: Path) -> None:
    """Write a skops archive to ``path``, beside it first and then renamed into place."""
    tree = {
        "format": FORMAT,
        "terms": np.frombuffer("\n".join(weights.terms).encode("utf-8"), dtype=np.uint8),
        "idf": weights.idf,
        "coef": weights.coef,
        "intercept": weights.intercept,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(_canonical(skops.io.dumps(tree)))
    beside.replace(path)


def _canonical(archive: bytes) -> bytes:
    """The same archive without what differs from run to run: object addresses, member names made of them, dates."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        schema = json.loads(source.read(_SCHEMA))
        names: dict[str, str] = {}
        _renumber(schema, {}, names)
        members = {new: source.read(old) for old, new in names.items()}
    members[_SCHEMA] = json.dumps(schema, indent=1).encode("utf-8")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        for name, data in members.items():
            target.writestr(zipfile.ZipInfo(name, _DATE), data, compress_type=zipfile.ZIP_LZMA)
    return packed.getvalue()


def _renumber(node: Any, ids: dict[int, int], names: dict[str, str]) -> None:
    """Replace addresses by 0, 1, 2... in order of appearance, and collect the members' new names."""
    if isinstance(node, dict):
        if "__id__" in node:
            node["__id__"] = ids.setdefault(node["__id__"], len(ids))
        if isinstance(node.get("file"), str):
            node["file"] = names.setdefault(node["file"], f"{len(names)}.npy")
        for value in node.values():
            _renumber(value, ids, names)
    elif isinstance(node, list):
        for value in node:
            _renumber(value, ids, names)
