"""The weights of a GGUF file and their vocabulary: text to tokens, tokens to bytes, metadata."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError, ModelCorrupt, ModelError
from .library import LOG, library

_UNKNOWN, _CONTROL, _USER_DEFINED = 1, 8, 16  # bits of llama_token_attr
_MAGIC = b"GGUF"
_CACHED_TEXTS = 1024


class Vocabulary(Protocol):
    """What prompt building needs of a model."""

    @property
    def specials(self) -> dict[str, int]:
        """The texts that stand for one token of their own in a template."""
        ...

    @property
    def bos(self) -> int | None:
        """The token every prompt of this model begins with, if it has one."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...]:
        """The tokens of ordinary text; no marker in it becomes a control token."""
        ...


class Model:
    """A loaded model. Owns the native weights until ``close``.

    Raises InputError for a path that cannot be read, ModelCorrupt for a file that is not a whole GGUF model.
    """

    def __init__(self, path: Path) -> None:
        check_gguf(path)
        self._llama = library()
        LOG.clear()
        self._handle = self._llama.llama_model_load_from_file(str(path).encode(), self._parameters())
        if not self._handle:
            reason = LOG.reason("no reason given")
            raise ModelCorrupt(f"model '{path}' cannot be loaded: {reason}; fetch it again or choose another")
        self.path = path
        self._vocab = self._llama.llama_model_get_vocab(self._handle)
        self.n_vocab: int = self._llama.llama_vocab_n_tokens(self._vocab)
        if not self.n_vocab:
            raise ModelCorrupt(f"model '{path}' has no vocabulary; choose a chat model in GGUF format")
        self.n_layer: int = self._llama.llama_model_n_layer(self._handle)
        self.n_embd: int = self._llama.llama_model_n_embd(self._handle)
        self.n_ctx_train: int = self._llama.llama_model_n_ctx_train(self._handle)
        self._read_vocabulary()
        self.tokenize = functools.lru_cache(_CACHED_TEXTS)(self._tokenize)

    def _parameters(self) -> Any:
        parameters = self._llama.llama_model_default_params()
        parameters.n_gpu_layers = 0
        return parameters

    def _read_vocabulary(self) -> None:
        attribute, text = self._llama.llama_vocab_get_attr, self._llama.llama_vocab_get_text
        self.specials: dict[str, int] = {}
        self._control: set[int] = set()
        markers = []
        for token in range(self.n_vocab):
            bits = attribute(self._vocab, token)
            if not bits & (_UNKNOWN | _CONTROL | _USER_DEFINED):
                continue
            name = text(self._vocab, token).decode("utf-8", "replace")
            if name:
                self.specials[name] = token
            if bits & _CONTROL:
                self._control.add(token)
            elif bits & _USER_DEFINED and len(name) > 1 and not name.isspace():
                markers.append(name)
        self._marker = any_of(markers)
        first = self._llama.llama_vocab_bos(self._vocab)
        self.bos: int | None = first if self._llama.llama_vocab_get_add_bos(self._vocab) and first >= 0 else None

    @property
    def handle(self) -> Any:
        """The native model, for the context that runs it."""
        return self._handle

    @property
    def description(self) -> str:
        """Name, architecture and size, in one line."""
        buffer = ctypes.create_string_buffer(256)
        self._llama.llama_model_desc(self._handle, buffer, len(buffer))
        name = self.metadata("general.name") or self.path.stem
        size_mb = self._llama.llama_model_size(self._handle) / 1e6
        return f"{name} ({buffer.value.decode('utf-8', 'replace')}, {size_mb:.0f} MB, {self.n_layer} layers)"

    def metadata(self, key: str) -> str | None:
        """A value of the GGUF's metadata as text, None if it has no such key."""
        read = self._llama.llama_model_meta_val_str
        length = read(self._handle, key.encode(), None, 0)
        if length < 0:
            return None
        buffer = ctypes.create_string_buffer(length + 1)
        read(self._handle, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def token_name(self, which: str) -> str:
        """The text of the ``bos`` or ``eos`` token, as a template writes it; empty if the model has none."""
        token = {"bos": self._llama.llama_vocab_bos, "eos": self._llama.llama_vocab_eos}[which](self._vocab)
        if token < 0:
            return ""
        text: bytes = self._llama.llama_vocab_get_text(self._vocab, token)
        return text.decode("utf-8", "replace")

    def _tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(token for part in cut_markers(text, self._marker) for token in self._encode(part))

    def _encode(self, text: str) -> list[int]:
        if not text:
            return []
        try:
            raw = text.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise InputError(f"text is not valid Unicode: a lone surrogate at character {exc.start}") from None
        room = len(raw) + 2
        buffer = (self._llama.llama_token * room)()
        n = self._llama.llama_tokenize(self._vocab, raw, len(raw), buffer, room, False, False)
        if n < 0:
            raise ModelError(f"model '{self.path}' cannot tokenize a text of {len(raw)} bytes (code {n})")
        return list(buffer[:n])

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; none for a control token."""
        buffer = ctypes.create_string_buffer(64)
        n = self._llama.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = self._llama.llama_token_to_piece(self._vocab, token, buffer, -n, 0, False)
        return buffer.raw[: max(n, 0)]

    def ends_reply(self, token: int) -> bool:
        """Whether the model has finished with this token: end of generation, or any control token.

        A control token that is no formal end (the marker of the next speaker) leaves the reply all the same.
        """
        return token in self._control or bool(self._llama.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        """Free the weights. Idempotent; contexts must be closed before."""
        if self._handle:
            self._llama.llama_model_free(self._handle)
            self._handle = None


def check_gguf(path: Path) -> None:
    """Refuse what is plainly no GGUF file before llama.cpp sees it. Raises InputError or ModelCorrupt."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as exc:
        raise InputError(f"model file '{path}' cannot be read: {exc.strerror}") from None
    if magic != _MAGIC:
        raise ModelCorrupt(f"model file '{path}' is not a GGUF file; fetch it again or choose another")


def cut_markers(text: str, marker: re.Pattern[str]) -> list[str]:
    """``text`` cut inside every marker, so that each part is tokenized as ordinary text.

    llama.cpp leaves control tokens in plain text alone, but matches user-defined ones (Qwen's ``<think>``, Phi's
    ``<|user|>``) anywhere. Parted after its first character, such a marker is only characters.
    """
    cuts = [0, *(found.start() + 1 for found in marker.finditer(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


def any_of(texts: list[str]) -> re.Pattern[str]:
    """A pattern for any of ``texts``, the longest first; for none of them, one that matches nothing."""
    ordered = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(re.escape(text) for text in ordered) if ordered else r"(?!)")
