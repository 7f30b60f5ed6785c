"""What the session asks of the language model. One worker thread owns it; only ``abort`` may come from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..frames import Message, ReplyStep, WorkCounts


class ReplyEngine(Protocol):
    """A chat model with a prefix cache and branches. Every call is one job of bounded work.

    A reply is a pure function of (messages, seed): how the prompt got into the cache (in pieces, all at once, after
    rollbacks) changes nothing that is served.
    """

    def follow(self, messages: Sequence[Message]) -> WorkCounts:
        """Prefill the history and the open user turn as far as it is stable (the last message, no reply header).

        Keeps the longest common token prefix of what is cached.
        """
        ...

    def open(self, messages: Sequence[Message], seed: int) -> WorkCounts:
        """Bring the cache to the full prompt, reply header included; the next ``step`` serves the first token.

        Drops the oldest turns if the context would overflow. Raises ContextFull if the last turn alone is too long.
        """
        ...

    def step(self) -> ReplyStep:
        """Serve the next token (or verified tokens) of the open reply."""
        ...

    def mark(self) -> int:
        """Remember the present cache; ``rollback`` returns to it."""
        ...

    def rollback(self, mark: int) -> None:
        """Forget everything since ``mark``. Raises EngineDead if that is impossible."""
        ...

    def abort(self) -> None:
        """From any thread: make the running call raise EngineAborted soon; cleared by the next ``rollback``."""
        ...

    def close(self) -> None:
        """Free the native context. Idempotent."""
        ...
