"""The tokenizer of a Hugging Face checkpoint, in the form that prompts are built with."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pads_runtime.engine.model import any_of, cut_markers
from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import ModelError


class HfTokenizer:
    """Implements :class:`training.corpora.stream.Tokenizer`. Raises ModelError without a tokenizer or chat template."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, KeyError) as exc:
            raise ModelError(f"checkpoint '{folder}' has no tokenizer that can be read: {_one_line(exc)}") from None
        source = self._tokenizer.chat_template
        if not isinstance(source, str):
            raise ModelError(f"checkpoint '{folder}' has no chat template; choose an instruct or chat model")
        self.template = ChatTemplate(source, self._tokenizer.bos_token or "", self._tokenizer.eos_token or "")
        self.specials: dict[str, int] = {
            added.content: token for token, added in self._tokenizer.added_tokens_decoder.items()
        }
        self._marker: re.Pattern[str] = any_of([text for text in self.specials if len(text) > 1])
        first = self._tokenizer("").input_ids
        self.bos: int | None = first[0] if first else None
        self.tokenize = functools.lru_cache(1024)(self._tokenize)

    def _tokenize(self, text: str) -> tuple[int, ...]:
        parts = cut_markers(text, self._marker)
        return tuple(token for part in parts for token in self._tokenizer(part, add_special_tokens=False).input_ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; where a control token stands, its name between line breaks."""
        names = {token: f"\n{name}\n" for name, token in self.specials.items()}
        pieces: list[str] = []
        run: list[int] = []
        for token in [*tokens, None]:
            if token is None or token in names:
                pieces.append(self._tokenizer.decode(run) if run else "")
                pieces.append(names[token] if token is not None else "")
                run = []
            else:
                run.append(token)
        return "".join(pieces)


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200]
