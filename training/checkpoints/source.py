"""Where a model to train comes from: a GGUF file, a folder with a Hugging Face checkpoint, or a name on the hub."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pads_runtime.engine.model import Model
from pads_runtime.errors import InputError, ModelError, ModelMissing
from pads_runtime.models import Registry

from ..corpora.gguf_tokenizer import GgufTokenizer
from ..corpora.stream import Tokenizer
from .gguf_file import GgufFile
from .hf_tokenizer import HfTokenizer

_WANTED = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]


@dataclass(frozen=True)
class Source:
    """A model as it was before training."""

    path: Path
    """The GGUF file or the checkpoint's folder."""
    sha256: str
    quantised_as: str | None
    """The type its weights were stored in, if they were quantised: what is made of them carries that loss."""

    @property
    def is_gguf(self) -> bool:
        """Whether it is a GGUF file."""
        return self.path.is_file()

    @property
    def note(self) -> str:
        """What must stand beside every figure made with it; empty for weights that never were quantised."""
        return f"dequantised from {self.quantised_as}" if self.quantised_as else ""

    def model(self, dtype: Any) -> Any:
        """The causal model, in evaluation mode. Raises ModelError if it cannot be loaded."""
        if self.is_gguf:
            return GgufFile(self.path).model(dtype)
        from transformers import AutoModelForCausalLM

        try:
            return AutoModelForCausalLM.from_pretrained(self.path, dtype=dtype).eval()
        except (OSError, ValueError, KeyError, RuntimeError) as exc:
            raise ModelError(f"checkpoint '{self.path}' cannot be loaded: {_one_line(exc)}") from None

    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer. For a GGUF file it keeps the file open until the process ends."""
        return GgufTokenizer(Model(self.path)) if self.is_gguf else HfTokenizer(self.path)


def find_source(name: str) -> Source:
    """Find the model that ``name`` means: a name of the registry, a path, else ``owner/name`` on the hub.

    Raises ModelMissing, ModelError, ModelCorrupt, UsageError.
    """
    path = Path(name)
    if name in Registry.load().entries or name.endswith(".gguf") or path.is_file():
        path = Registry.load().resolve(name)
        return Source(path, _sha256([path]), GgufFile(path).quantised_as)
    if not path.is_dir():
        path = _from_hub(name)
    weights = sorted(path.glob("*.safetensors"))
    if not (path / "config.json").is_file() or not weights:
        raise InputError(f"'{path}' holds no config.json with *.safetensors beside it, so no checkpoint to train")
    return Source(path, _sha256([path / "config.json", *weights]), None)


def _from_hub(name: str) -> Path:
    if name.count("/") != 1:
        raise ModelMissing(f"model '{name}' is no name of the registry, no path, and no OWNER/NAME of the hub")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED))
    except Exception as exc:  # the hub's client raises errors of several libraries
        raise ModelMissing(f"model '{name}' could not be fetched from the hub: {_one_line(exc)}") from None


def _sha256(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest() if len(paths) > 1 else b"")
            if len(paths) == 1:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return digest.hexdigest()


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200]
