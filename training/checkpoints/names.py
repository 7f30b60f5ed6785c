"""The names that one tensor has in a GGUF file and in a Hugging Face checkpoint, for llama, qwen2 and qwen3.

llama.cpp rotates neighbouring pairs of a head's values for llama and the two halves of a head for the qwens; Hugging
Face always rotates halves. So the rows of llama's query and key matrices stand in another order in the two.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""GGUF's name of an architecture to the library's ``model_type``."""
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE_BACK = {theirs: ours for ours, theirs in _WHOLE.items()}
_IN_LAYER_BACK = {theirs: ours for ours, theirs in _IN_LAYER.items()}
_GGUF = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_HF = re.compile(r"model\.layers\.(\d+)\.([\w.]+)\.(weight|bias)")


def hf_name(gguf_name: str) -> str | None:
    """The checkpoint's name of a GGUF tensor; None if there is none (``rope_freqs.weight``, say).

    >>> hf_name("blk.3.attn_q.weight"), hf_name("output_norm.weight"), hf_name("rope_freqs.weight")
    ('model.layers.3.self_attn.q_proj.weight', 'model.norm.weight', None)
    """
    found = _GGUF.fullmatch(gguf_name)
    if found is None:
        return _WHOLE.get(gguf_name)
    inner = _IN_LAYER.get(found[2])
    return inner and f"model.layers.{found[1]}.{inner}.{found[3]}"


def gguf_name(hf_name: str) -> str | None:
    """The GGUF name of a checkpoint's tensor; None if there is none.

    >>> gguf_name("model.layers.3.mlp.down_proj.weight"), gguf_name("lm_head.weight")
    ('blk.3.ffn_down.weight', 'output.weight')
    """
    found = _HF.fullmatch(hf_name)
    if found is None:
        return _WHOLE_BACK.get(hf_name)
    inner = _IN_LAYER_BACK.get(found[2])
    return inner and f"blk.{found[1]}.{inner}.{found[3]}"


def rotated_heads(architecture: str, gguf_name: str, heads: int, kv_heads: int) -> int | None:
    """How many heads the rows of a tensor are that stand in another order in the two; None if they do not."""
    found = _GGUF.fullmatch(gguf_name)
    if architecture != "llama" or found is None:
        return None
    return {"attn_q": heads, "attn_k": kv_heads}.get(found[2])


def to_pairs(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows (heads * width, ...) from halves (Hugging Face) to neighbouring pairs (llama.cpp)."""
    return _swapped(array, (heads, 2, len(array) // heads // 2))


def to_halves(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """The inverse of :func:`to_pairs`."""
    return _swapped(array, (heads, len(array) // heads // 2, 2))


def _swapped(array: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[Any]:
    split = array.reshape(*shape, *array.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(array.shape)
