"""A causal model of the transformers library as an F16 GGUF file; tokenizer and settings come from a file like it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime.errors import ModelError, SetupError

from ..checkpoints.gguf_file import GgufFile
from ..checkpoints.names import gguf_name, hf_name, rotated_heads, to_pairs

_F16_FILE = 1  # LLAMA_FTYPE_MOSTLY_F16
_NOT_COPIED = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version", "quantize.")
_LARGEST = 65504.0


def write_f16(model: Any, like: GgufFile, target: Path, notes: Mapping[str, str]) -> None:
    """Write ``model``: matrices as F16, vectors as F32, metadata from ``like``, and ``notes`` under ``pads.*`` keys.

    Raises ModelError if the model's tensors are not those of ``like`` in name and shape, SetupError for a full disk.
    """
    import gguf

    weights = _weights(model, like)
    beside = target.with_name(target.name + ".part")
    try:
        writer = gguf.GGUFWriter(beside, like.architecture)
        for field in like.reader.fields.values():
            if not field.name.startswith(_NOT_COPIED):
                kind, inner = field.types[0], field.types[-1] if len(field.types) > 1 else None
                writer.add_key_value(field.name, field.contents(), kind, inner)
        writer.add_file_type(_F16_FILE)
        for key, text in notes.items():
            if text:
                writer.add_string(f"pads.{key}", text)
        for name, array in weights.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        beside.replace(target)
    except OSError as exc:
        beside.unlink(missing_ok=True)
        raise SetupError(f"'{target}' cannot be written: {exc.strerror}; make room or choose another --out") from None


def _weights(model: Any, like: GgufFile) -> dict[str, Any]:
    """The model's tensors by GGUF name, in the order of ``like``."""
    config = model.config
    state = {name: tensor for name, tensor in model.state_dict().items() if not _repeats_input(name, config)}
    found: dict[str, Any] = {}
    for tensor in like.reader.tensors:
        name = hf_name(tensor.name)
        if name is None:  # factors of the rotary frequencies: settings that are stored as a tensor
            found[tensor.name] = np.array(tensor.data)
            continue
        shape = tuple(int(n) for n in reversed(tensor.shape))
        given = tuple(state[name].shape) if name in state else "missing"
        if given != shape:
            raise ModelError(
                f"the checkpoint is of another shape than '{like.path}': {tensor.name} is {given}, not {shape}"
            )
        array = state.pop(name).detach().to("cpu").float().numpy()
        heads = rotated_heads(like.architecture, tensor.name, config.num_attention_heads, config.num_key_value_heads)
        found[tensor.name] = _stored(array if heads is None else to_pairs(array, heads), tensor.name)
    if state:
        odd = next(iter(state))
        raise ModelError(f"the checkpoint has {odd} ({gguf_name(odd) or 'unknown to GGUF'}), which '{like.path}' lacks")
    return found


def _repeats_input(name: str, config: Any) -> bool:
    return name == "lm_head.weight" and bool(config.tie_word_embeddings)


def _stored(array: Any, name: str) -> Any:
    if not np.isfinite(array).all() or np.abs(array).max(initial=0.0) > _LARGEST:
        raise ModelError(f"tensor {name} holds numbers that F16 cannot; the training ran away")
    return np.ascontiguousarray(array, np.float32 if array.ndim == 1 else np.float16)
