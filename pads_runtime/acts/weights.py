"""The classifier's numbers as they lie on disk: TF-IDF vocabulary, idf and logistic-regression coefficients.

The file is a skops archive (https://skops.readthedocs.io), never a pickle: a zip of ``schema.json``, which describes a
tree of typed nodes, and one ``.npy`` file per array. It holds dicts, strings, numbers and numeric arrays, so reading it
runs no code. skops could read it, but imports all of scikit-learn to do so, seconds of every start and much memory; the
few node types are read here instead. The fitted scikit-learn objects themselves are not stored: skops keeps a
dictionary of 200,000 terms as a tree of nodes that takes seconds to read, one array of text takes milliseconds.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelCorrupt, ModelMissing

FORMAT = "pads-acts-1"
TRUSTED_TYPES = {"builtins.dict": "DictNode", "builtins.str": "JsonNode", "numpy.ndarray": "NdArrayNode"}
"""The types a file may hold, with skops' name for how each is stored; numbers and None are JSON, too."""
_MAX_UNPACKED = 256 * 2**20

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ActWeights:
    """A fitted TF-IDF + logistic regression over word 1-2-grams.

    ``terms`` has V n-grams (words joined by one blank); ``idf`` and ``coef`` have shape (V,), float64, in the same
    order; ``intercept`` is the bias of the class DEEP.
    """

    terms: tuple[str, ...]
    idf: Floats
    coef: Floats
    intercept: float


def load_weights(path: Path) -> ActWeights:
    """Read the weights from ``path``.

    Raises ModelMissing if there is no such file, ModelCorrupt if it is not a skops archive, holds any type that is
    not trusted, or its parts do not fit together.
    """
    if not path.is_file():
        raise ModelMissing(f"dialogue-act classifier '{path}' not found; refit it with: python -m training acts")
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ModelCorrupt(f"dialogue-act classifier '{path}' cannot be read: {exc.strerror}") from None
    return _unpack(_read_archive(data, path), path)


def _read_archive(data: bytes, path: Path) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_UNPACKED:
                raise _corrupt(path, "it unpacks to more than a classifier can be")
            return _build(json.loads(archive.read("schema.json")), archive, path)
    except ModelCorrupt:
        raise
    except Exception as exc:  # zipfile, lzma, json and numpy each have errors of their own for damaged bytes
        raise _corrupt(path, f"not a readable skops archive ({type(exc).__name__})") from None


def _build(node: Any, archive: zipfile.ZipFile, path: Path) -> Any:
    """One node of skops' schema as the value it describes, if its type is trusted."""
    name = f"{node['__module__']}.{node['__class__']}"
    if TRUSTED_TYPES.get(name) != node["__loader__"]:
        raise _corrupt(path, f"it holds a type that is not trusted: {name}")
    match node["__loader__"]:
        case "DictNode":
            return {key: _build(value, archive, path) for key, value in node["content"].items()}
        case "NdArrayNode":
            return np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)
        case _:
            return json.loads(node["content"])


def _unpack(tree: Any, path: Path) -> ActWeights:
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise _corrupt(path, f"its format is not '{FORMAT}'")
    text, intercept = tree.get("terms"), tree.get("intercept")
    if not isinstance(text, np.ndarray) or text.dtype != np.uint8 or not isinstance(intercept, float):
        raise _corrupt(path, "terms or intercept are missing")
    if not np.isfinite(intercept):
        raise _corrupt(path, "its intercept is not finite")
    try:
        terms = tuple(text.tobytes().decode("utf-8").split("\n"))
    except UnicodeDecodeError:
        raise _corrupt(path, "its terms are not UTF-8") from None
    idf, coef = (_one_per_term(tree.get(name), name, len(terms), path) for name in ("idf", "coef"))
    return ActWeights(terms, idf, coef, intercept)


def _one_per_term(values: Any, name: str, terms: int, path: Path) -> Floats:
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != (terms,):
        raise _corrupt(path, f"'{name}' does not hold one number per term")
    if not np.isfinite(values).all():
        raise _corrupt(path, f"'{name}' holds a number that is not finite")
    return values


def _corrupt(path: Path, why: str) -> ModelCorrupt:
    return ModelCorrupt(f"dialogue-act classifier '{path}': {why}; refit it with: python -m training acts")
