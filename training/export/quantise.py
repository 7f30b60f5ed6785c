"""F16 to the quantised types, by llama.cpp's own quantiser, once and never from what is quantised already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pads_runtime.engine.library import LOG, library
from pads_runtime.errors import ModelError, SetupError, UsageError

from ..checkpoints.gguf_file import UNQUANTISED, GgufFile

KINDS = {"Q4_K_M": 15, "Q4_0": 2, "Q5_K_M": 17, "Q6_K": 18, "Q8_0": 7}
"""Name to llama.cpp's ``llama_ftype``."""
_BLOCK = 256
"""Weights in a block of a K type: a matrix whose rows are no multiple of it gets another type."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """What came of one quantisation."""

    path: Path
    kind: str
    types: dict[str, int]
    """Tensors of each type."""
    fell_back: int
    """Matrices that could not have the type's own blocks."""
    row: int
    """Width of the narrowest of them; 0 if there is none."""

    def __str__(self) -> str:
        types = ", ".join(f"{count} {name}" for name, count in self.types.items())
        size = f"{self.path.name}: {self.path.stat().st_size / 1e6:.0f} MB, {types}"
        if not self.fell_back:
            return size
        return (
            f"{size}; {self.fell_back} matrices fell back to other types, because their rows of {self.row} are no "
            f"multiple of {_BLOCK}, the block of {self.kind}"
        )


def check_kinds(kinds: list[str]) -> None:
    """Raises UsageError for a type that is not offered."""
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--types {kind}: there are {', '.join(KINDS)}")


def quantise(source: Path, kind: str, target: Path, threads: int = 2) -> Quantised:
    """Write ``source`` as ``kind``. Raises ModelError for a source that is quantised already, SetupError otherwise."""
    already = GgufFile(source).quantised_as
    if already is not None:
        raise ModelError(
            f"'{source}' is quantised already ({already}): quantising it again would add one rounding error to "
            "another; give the F16 file it was made from"
        )
    llama = library()
    parameters = llama.llama_model_quantize_default_params()
    parameters.ftype, parameters.nthread = KINDS[kind], threads
    beside = target.with_name(target.name + ".part")
    LOG.clear()
    if llama.llama_model_quantize(str(source).encode(), str(beside).encode(), parameters) != 0:
        beside.unlink(missing_ok=True)
        raise SetupError(f"'{target}' cannot be written as {kind}: {LOG.reason('is the disk full?')}")
    beside.replace(target)
    return _counted(target, kind)


def _counted(path: Path, kind: str) -> Quantised:
    types: Counter[str] = Counter()
    narrow = []
    for tensor in GgufFile(path).reader.tensors:
        name, row = tensor.tensor_type.name, int(tensor.shape[0])
        types[name] += 1
        if "_K" in kind and name not in UNQUANTISED and not name.endswith("_K") and row % _BLOCK:
            narrow.append(row)
    return Quantised(path, kind, dict(types.most_common()), len(narrow), min(narrow, default=0))
