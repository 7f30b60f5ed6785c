"""A GGUF file through gguf-py: metadata, tensor types, and the weights as a PyTorch model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime.engine.model import check_gguf
from pads_runtime.errors import ModelCorrupt, ModelError

from .names import ARCHITECTURES, hf_name, rotated_heads, to_halves

UNQUANTISED = frozenset({"F32", "F16", "BF16", "F64"})


class GgufFile:
    """An open GGUF file. Raises InputError or ModelCorrupt for a path that is none."""

    def __init__(self, path: Path) -> None:
        import gguf

        check_gguf(path)
        self.path = path
        try:
            self.reader: Any = gguf.GGUFReader(path)
        except (ValueError, KeyError, IndexError, OSError) as exc:
            raise ModelCorrupt(f"model file '{path}' is not a whole GGUF file ({exc}); fetch it again") from None

    def value(self, key: str, default: Any = None) -> Any:
        """A value of the metadata, ``default`` if it is not there."""
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    @property
    def architecture(self) -> str:
        """Such as llama."""
        return str(self.value("general.architecture", "unknown"))

    def types(self) -> Counter[str]:
        """How many tensors there are of each type."""
        return Counter(tensor.tensor_type.name for tensor in self.reader.tensors)

    @property
    def quantised_as(self) -> str | None:
        """The type most of its quantised weights have; None for a file of plain floating-point numbers."""
        weights: Counter[str] = Counter()
        for tensor in self.reader.tensors:
            if tensor.tensor_type.name not in UNQUANTISED:
                weights[tensor.tensor_type.name] += int(tensor.n_elements)
        return weights.most_common(1)[0][0] if weights else None

    def model(self, dtype: Any) -> Any:
        """The weights, dequantised where they were quantised, as a causal model of the transformers library.

        Raises ModelError for an architecture or a rotary scaling that cannot be carried over exactly.
        """
        import torch
        from transformers import AutoModelForCausalLM

        config = self._config()
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        missing, unexpected = model.load_state_dict(
            {name: torch.from_numpy(array) for name, array in self._weights(config).items()}, strict=False
        )
        if unexpected or [name for name in missing if not (config.tie_word_embeddings and name == "lm_head.weight")]:
            odd = (list(unexpected) + list(missing))[0]
            raise ModelError(f"model '{self.path}': tensor {odd} does not belong to a {self.architecture}")
        model.tie_weights()
        return model.eval()

    def _config(self) -> Any:
        from transformers import AutoConfig

        arch = self.architecture
        if arch not in ARCHITECTURES:
            raise ModelError(
                f"model '{self.path}' is of architecture {arch}; training knows {', '.join(ARCHITECTURES)}"
            )
        names = {tensor.name for tensor in self.reader.tensors}
        if "rope_freqs.weight" in names or self.value(f"{arch}.rope.scaling.type", "none") != "none":
            raise ModelError(
                f"model '{self.path}' scales its rotary frequencies, which its GGUF file does not say how; give its "
                "Hugging Face checkpoint with --model FOLDER or --model OWNER/NAME"
            )
        width, heads = self.value(f"{arch}.embedding_length"), self.value(f"{arch}.attention.head_count")
        return AutoConfig.for_model(
            ARCHITECTURES[arch],
            vocab_size=len(self.value("tokenizer.ggml.tokens", ())),
            hidden_size=width,
            intermediate_size=self.value(f"{arch}.feed_forward_length"),
            num_hidden_layers=self.value(f"{arch}.block_count"),
            num_attention_heads=heads,
            num_key_value_heads=self.value(f"{arch}.attention.head_count_kv", heads),
            head_dim=self.value(f"{arch}.attention.key_length", width // heads),
            max_position_embeddings=self.value(f"{arch}.context_length"),
            rms_norm_eps=self.value(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5),
            rope_parameters={"rope_type": "default", "rope_theta": self.value(f"{arch}.rope.freq_base", 10000.0)},
            tie_word_embeddings="output.weight" not in names,
            bos_token_id=self.value("tokenizer.ggml.bos_token_id"),
            eos_token_id=self.value("tokenizer.ggml.eos_token_id"),
            pad_token_id=None,
        )

    def _weights(self, config: Any) -> dict[str, Any]:
        import gguf

        found = {}
        for tensor in self.reader.tensors:
            name = hf_name(tensor.name)
            if name is None:
                raise ModelError(f"model '{self.path}': tensor {tensor.name} is not known for {self.architecture}")
            array = gguf.dequantize(tensor.data, tensor.tensor_type)
            array = np.asarray(array, np.float32).reshape(tuple(int(n) for n in reversed(tensor.shape)))
            heads = rotated_heads(
                self.architecture, tensor.name, config.num_attention_heads, config.num_key_value_heads
            )
            found[name] = np.array(array if heads is None else to_halves(array, heads))
        return found
