"""Server-sent events to many browsers. Each holds the newest of every kind and no more, however slowly it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

CLIENTS = 32
"""More streams at once are refused."""


class Full(Exception):
    """As many streams are open as may be."""


class Subscription:
    """What one browser has not been sent yet: one payload a kind, the newest; an older one is replaced unsent."""

    def __init__(self, waiting: dict[str, str]) -> None:
        self._waiting = dict(waiting)
        self._wake = asyncio.Event()
        self._closed = False
        if waiting:
            self._wake.set()

    def put(self, kind: str, payload: str) -> None:
        self._waiting[kind] = payload
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    async def batches(self, heartbeat_s: float) -> AsyncIterator[dict[str, str]]:
        """What to send next; an empty batch after ``heartbeat_s`` of nothing. Ends when closed."""
        while not self._closed:
            try:
                async with asyncio.timeout(heartbeat_s):
                    await self._wake.wait()
            except TimeoutError:
                yield {}
                continue
            self._wake.clear()
            batch, self._waiting = self._waiting, {}
            if batch:
                yield batch


class Hub:
    """Keeps the newest payload of each kind and passes it to every subscription."""

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}
        self._open: set[Subscription] = set()
        self.someone = asyncio.Event()
        """Set while anybody watches."""

    def publish(self, kind: str, payload: str) -> None:
        """Pass ``payload`` on unless it is what everybody has already."""
        if self._newest.get(kind) == payload:
            return
        self._newest[kind] = payload
        for subscription in self._open:
            subscription.put(kind, payload)

    def subscribe(self) -> Subscription:
        """A new stream, which begins with the newest of each kind. Raises Full."""
        if len(self._open) >= CLIENTS:
            raise Full
        subscription = Subscription(self._newest)
        self._open.add(subscription)
        self.someone.set()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """End a stream. Idempotent."""
        subscription.close()
        self._open.discard(subscription)
        if not self._open:
            self.someone.clear()
            self._newest.clear()  # it grows old while nobody watches

    def close(self) -> None:
        """End all streams."""
        for subscription in list(self._open):
            self.leave(subscription)
