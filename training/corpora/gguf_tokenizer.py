"""The tokenizer of a GGUF model, as the engine itself uses it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pads_runtime.engine.model import Model
from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import ModelError


class GgufTokenizer:
    """Implements :class:`training.corpora.stream.Tokenizer` on an open model, which it does not own."""

    def __init__(self, model: Model) -> None:
        """Raises ModelError if the model has no chat template."""
        source = model.metadata("tokenizer.chat_template")
        if source is None:
            raise ModelError(f"model '{model.path}' has no chat template; choose an instruct or chat model")
        self.template = ChatTemplate(source, model.token_name("bos"), model.token_name("eos"))
        self.specials, self.bos, self.tokenize = model.specials, model.bos, model.tokenize
        self._piece = functools.cache(lambda token: model.piece(token) or b"\n")

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; where a control token stands, a line break."""
        return b"".join(map(self._piece, tokens)).decode("utf-8", "replace")
