"""One export: adapter to merged weights to F16, then each quantised type from that F16 file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pads_runtime.errors import InputError, ModelError, SetupError

from ..checkpoints.needs import check_installed

Say = Callable[[str], None]


@dataclass(frozen=True)
class Export:
    """What to export and where to."""

    source: Path
    """A folder with an adapter, a run's work folder that has one, or an F16 GGUF file (which is only quantised)."""
    out: Path
    kinds: tuple[str, ...]
    model: str = ""
    """What the adapter was trained on; empty takes what its run wrote down."""
    like: str = ""
    """A GGUF file of the same model, for tokenizer and settings; empty takes the model itself if it is one."""
    name: str = ""
    """Of the files; empty takes the model's."""
    checkpoint: bool = False
    """Also keep the merged weights as a Hugging Face checkpoint."""


def export(job: Export, say: Say) -> dict[str, Any]:
    """Write the files and return what they are. Raises a PadsError for whatever is wrong."""
    check_installed()
    from .quantise import check_kinds, quantise

    check_kinds(list(job.kinds))
    _make(job.out)
    if job.source.is_file():
        f16, note = job.source, _note_of(job.source)
    else:
        f16, note = _merged_f16(job, say)
    stem = re.sub(r"[-.]F16$", "", f16.stem)
    files = []
    for kind in job.kinds:
        made = quantise(f16, kind, job.out / f"{stem}-{kind}.gguf")
        say(str(made))
        files.append({"file": str(made.path), "kind": kind, "types": made.types, "fell_back": made.fell_back})
    return {"f16": str(f16), "weights": note or "never quantised before", "files": files}


def _merged_f16(job: Export, say: Say) -> tuple[Path, str]:
    import torch

    from ..checkpoints.gguf_file import GgufFile
    from ..checkpoints.source import find_source
    from ..layerskip.lora import merged, origin
    from .f16 import write_f16

    adapter = _adapter(job.source)
    wrote = origin(adapter)
    name = job.model or str(wrote.get("model_path") or "")
    if not name:
        raise InputError(f"adapter '{adapter}' does not say what it was trained on; give it with --model")
    source = find_source(name)
    if wrote.get("model_sha256") not in (None, source.sha256):
        raise ModelError(
            f"adapter '{adapter}' was trained on another model than '{source.path}'; give that with --model"
        )
    if not (job.like or source.is_gguf):
        raise InputError(
            f"'{source.path}' is a checkpoint: tokenizer and settings are taken from a GGUF file of the same model, of "
            "any type; give one with --like"
        )
    like = find_source(job.like).path if job.like else source.path
    say(f"merging {adapter} into {source.path.name}" + (f" ({source.note})" if source.note else ""))
    model = merged(source.model(torch.float32), adapter)
    stem = job.name or f"{re.sub(r'[.-](Q[0-9]|F16|BF16|F32).*$', '', source.path.stem)}-layerskip"
    if job.checkpoint:
        model.save_pretrained(job.out / stem)
        say(f"wrote the merged checkpoint {job.out / stem}")
    target = job.out / f"{stem}-F16.gguf"
    notes = {"trained_by": "layerskip", "base_sha256": source.sha256, "weights": source.note}
    write_f16(model, GgufFile(like), target, notes)
    say(f"wrote {target}, {target.stat().st_size / 1e6:.0f} MB")
    return target, source.note


def _adapter(folder: Path) -> Path:
    for path in (folder, folder / "adapter"):
        if (path / "adapter_config.json").is_file():
            return path
    raise InputError(f"'{folder}' is neither a GGUF file nor a folder with an adapter (adapter_config.json)")


def _note_of(path: Path) -> str:
    from ..checkpoints.gguf_file import GgufFile

    return str(GgufFile(path).value("pads.weights", ""))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SetupError(f"folder '{folder}' cannot be made: {exc.strerror}; choose another with --out") from None


def kinds_of(text: str) -> Sequence[str]:
    """The types named in an option, in order."""
    return [part.strip().upper() for part in text.split(",") if part.strip()]
