"""The bus: a talk's events to a broker, a broker's orders to a talk, and no broker able to hold the talk up.

``listener`` only puts bytes into a bounded outbox; everything that waits for the broker waits in ``run``, a task of
its own. Orders are handed to the talk as they arrive; nothing is queued on the way in.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import BusSettings
from ..controls import Controls
from ..errors import BrokerRefused, DeviceError
from ..frames import TraceEvent
from .hermes import HermesTranslator
from .inbound import Inbound
from .link import Link, Will, broker_of
from .messages import Translator, encode
from .outbox import Grade, Outbox
from .pace import backoff_s

FAREWELL_S = 1.0
"""How long the end of a talk waits for what was promised to reach the broker."""
STEADY_S = 5.0
"""A connection that held this long was a good one: after it, the waits between tries begin small again."""
TELL_EVERY_S = 10.0
"""Refused orders are told at most this often; the count is in what is told."""

OnState = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class BusStatus:
    """How the bus stands: for a page, a terminal, a log."""

    connected: bool
    where: str
    tries: int
    """How often a connection was begun; ``connections`` of them came about."""
    connections: int
    sent: int
    waiting: int
    dropped: Mapping[str, int]
    """Messages given up, by grade: live, kept, promised."""
    taken: int
    refused: Mapping[str, int]
    """Orders not obeyed, by reason."""
    last_error: str | None


@dataclass
class _Counts:
    tries: int = 0
    connections: int = 0
    sent: int = 0
    last_error: str | None = None
    told_dropped: int = 0
    told_refused: int = 0
    refused_told_s: float = field(default=-TELL_EVERY_S)


class MqttBus:
    """``Trace.listen(bus.listener)`` and a task for ``bus.run()`` are all it takes.

    ``on_state(kind, fields)`` hears of ``bus_connected``, ``bus_lost`` (or not there), ``bus_refused`` (certificate,
    login, access list), ``bus_dropped`` (promised messages given up) and ``bus_input_refused``: each fault once, not
    at every try. Raises ConfigError if a password or certificate file cannot be read.
    """

    def __init__(self, settings: BusSettings, controls: Controls) -> None:
        self._settings = settings
        self._broker = broker_of(settings)
        talk = secrets.token_hex(4)
        self._name = f"pads-{settings.site}-{talk}"
        self._translator = Translator(settings.site, talk, settings.announce_prepared)
        give = settings.hermes_transcripts == "give"
        self._hermes = HermesTranslator(settings.site, talk, give) if settings.hermes else None
        self._inbound = Inbound(settings, controls, self._hermes)
        self._outbox = Outbox(settings.outbox)
        self._wake = asyncio.Event()
        self._talk = {"talk": talk}
        self._status: dict[str, Any] = {"online": True, "state": "idle", "turn": 0, "muted": False}
        self._status_told: dict[str, Any] = {}
        self._counts = _Counts()
        self._linked = False
        self._link: Link | None = None
        self._told: set[tuple[str, str]] = set()
        self.on_state: OnState = lambda kind, fields: None

    # ------------------------------------------------------------ from the talk

    def listener(self, event: TraceEvent) -> None:
        """Take note of what happened. On the event loop; never blocks."""
        for letter in self._translator.letters(event):
            self._outbox.put(letter)
        if self._hermes is not None:
            for letter in self._hermes.letters(event):
                self._outbox.put(letter)
        if event.kind == "state_changed":
            self._status |= {key: event.fields[key] for key in ("state", "turn") if key in event.fields}
        elif event.kind in ("muted", "unmuted"):
            self._status["muted"] = event.kind == "muted"
        self._tell_dropped()
        self._wake.set()

    def status(self) -> BusStatus:
        """How the bus stands now."""
        return BusStatus(
            connected=self._linked,
            where=self._broker.where,
            tries=self._counts.tries,
            connections=self._counts.connections,
            sent=self._counts.sent,
            waiting=len(self._outbox),
            dropped=self._dropped(),
            taken=self._inbound.taken,
            refused=dict(self._inbound.refused),
            last_error=self._counts.last_error,
        )

    # ------------------------------------------------------------ to the broker

    async def run(self) -> None:
        """Keep a connection while this task lives. Cancel it to end the bus: what was promised then gets a second."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began_s, linked_before = loop.time(), self._counts.connections
            self._counts.tries += 1
            try:
                await self._one_connection()
            except BrokerRefused as exc:
                self._fault("bus_refused", str(exc))
            except DeviceError as exc:
                self._fault("bus_lost", str(exc))
            steady = self._counts.connections > linked_before and loop.time() - began_s >= STEADY_S
            failures = 1 if steady else failures + 1
            await asyncio.sleep(backoff_s(failures, self._settings.backoff_min_s, self._settings.backoff_max_s))

    async def _one_connection(self) -> None:
        will = Will(self._topic("status"), encode({"online": False, **self._talk}))
        link = self._link = Link(self._broker, self._name, self._received, will)
        polite = False  # else the broker tells the last will
        try:
            await link.open()
            await self._serve(link)
        except asyncio.CancelledError:
            polite = self._linked and await self._farewell(link)
            raise
        finally:
            self._linked, self._link = False, None
            self._outbox.connected(False)
            await link.close(polite)

    async def _serve(self, link: Link) -> None:
        """Send until the connection ends, and raise why it did. Neither task outlives this call.

        Not a task group: Python 3.11's leaves its task marked as cancelled when a child fails, and a real
        cancellation that meets a fault is lost in it.
        """
        tasks = [asyncio.create_task(link.lost()), asyncio.create_task(self._send(link))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(tasks)
            faults = [task.exception() for task in tasks if not task.cancelled()]
        for fault in faults:
            if fault is not None:
                raise fault

    async def _send(self, link: Link) -> None:
        self._told.clear()
        refused = await link.subscribe(self._inbound.topics)
        if refused:
            self._fault("bus_refused", f"broker {self._broker.where} does not let us hear {', '.join(refused)}")
        self._status_told = {}
        await self._publish_status(link)
        self._linked = True
        self._counts.connections += 1
        self._outbox.connected(True)
        waiting = self._outbox.waiting(Grade.PROMISED) + self._outbox.waiting(Grade.KEPT)
        fields = {"where": self._broker.where, "waiting": waiting, "dropped": self._dropped()}
        self.on_state("bus_connected", fields)
        while True:
            self._wake.clear()
            await self._publish_status(link)
            if not await self._publish_next(link):
                await self._wake.wait()

    async def _publish_next(self, link: Link) -> bool:
        letter = self._outbox.head()
        if letter is None:
            return False
        allowed = await link.publish(letter.topic, letter.data, letter.grade.qos)
        self._outbox.done(letter)  # one that is forbidden stays forbidden
        self._counts.sent += allowed
        if not allowed:
            self._fault("bus_refused", f"broker {self._broker.where} does not let us publish on {letter.topic}")
        return True

    async def _publish_status(self, link: Link) -> None:
        """The retained state: only its newest value counts, so it does not go through the outbox."""
        if self._status_told != self._status:
            state = dict(self._status)
            await link.publish(self._topic("status"), encode({**state, **self._talk}), qos=1, retain=True)
            self._status_told = state

    async def _farewell(self, link: Link) -> bool:
        """Send what was promised and say that we go; a broker that hangs gets a second for it. Whether it heard all."""
        try:
            async with asyncio.timeout(FAREWELL_S) as limit:
                while not limit.expired() and await self._publish_next(link):
                    pass
                await link.publish(self._topic("status"), encode({"online": False, **self._talk}), qos=1, retain=True)
        except (DeviceError, TimeoutError) as exc:
            left = self._outbox.waiting(Grade.PROMISED)
            unsent = f"; {left} promised messages were not sent" if left else ""
            self._fault("bus_lost", (str(exc) or f"broker {self._broker.where} does not answer") + unsent)
            return False
        return True

    def _topic(self, name: str) -> str:
        return f"pads/{self._settings.site}/{name}"

    # ------------------------------------------------------------ from the broker

    def _received(self, topic: str, payload: bytes, retained: bool) -> None:
        now_s = asyncio.get_running_loop().time()
        reason = self._inbound.take(topic, payload, retained, now_s)
        if reason is None or now_s < self._counts.refused_told_s + TELL_EVERY_S:
            return
        total = self._inbound.refused.total()
        fields = {"topic": topic, "reason": reason, "count": total - self._counts.told_refused}
        self._counts.refused_told_s, self._counts.told_refused = now_s, total
        self.on_state("bus_input_refused", fields)

    # ------------------------------------------------------------ what is told of the bus

    def _fault(self, kind: str, reason: str) -> None:
        self._counts.last_error = reason
        if (kind, reason) not in self._told:  # once, not at every try
            self._told.add((kind, reason))
            self.on_state(kind, {"where": self._broker.where, "reason": reason})

    def _tell_dropped(self) -> None:
        """The first promised message that is given up, then each time their number has doubled."""
        promised = self._outbox.dropped[Grade.PROMISED]
        if promised and promised >= 2 * self._counts.told_dropped:
            self._counts.told_dropped = promised
            self.on_state("bus_dropped", self._dropped())

    def _dropped(self) -> dict[str, int]:
        dropped: Counter[Grade] = self._outbox.dropped
        return {grade.name.lower(): dropped[grade] for grade in Grade}


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until they have ended: in Python 3.11 a cancellation that meets an acknowledgement is lost in wait_for."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.05)
