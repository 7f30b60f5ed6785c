"""What waits for the broker: bounded, in order, and clear about what it gives up first. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import IntEnum


class Grade(IntEnum):
    """What a message is worth once it is late."""

    LIVE = 0
    """Worthless late: partial transcripts, probabilities. Not kept while the broker is away; sent at QoS 0."""
    KEPT = 1
    """Useful late: figures. Kept, and the first to go when the outbox is full; QoS 1."""
    PROMISED = 2
    """Kept, and goes only when the outbox holds nothing of less worth; QoS 1."""

    @property
    def qos(self) -> int:
        """MQTT's quality of service: at most once for what is worthless late, at least once for the rest."""
        return 0 if self is Grade.LIVE else 1


@dataclass(frozen=True, slots=True, eq=False)
class Letter:
    """One message as it goes over the wire."""

    topic: str
    data: bytes
    grade: Grade


class Outbox:
    """First in, first out over all grades, at most ``capacity`` letters.

    When it is full, the oldest letter of the lowest grade goes, the new one included. ``dropped`` counts them by grade.
    A letter stays until ``done``: what was on its way when the connection broke is sent again.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queues: dict[Grade, deque[tuple[int, Letter]]] = {grade: deque() for grade in Grade}
        self._serial = 0
        self._live = False
        self.dropped: Counter[Grade] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def waiting(self, grade: Grade) -> int:
        """How many letters of one grade are inside."""
        return len(self._queues[grade])

    def connected(self, connected: bool) -> None:
        """Whether there is a broker: without one, live letters are not kept."""
        self._live = connected
        if not connected:
            self.dropped[Grade.LIVE] += len(self._queues[Grade.LIVE])
            self._queues[Grade.LIVE].clear()

    def put(self, letter: Letter) -> None:
        """Add a letter; never blocks."""
        if letter.grade is Grade.LIVE and not self._live:
            self.dropped[Grade.LIVE] += 1
            return
        self._queues[letter.grade].append((self._serial, letter))
        self._serial += 1
        if len(self) > self._capacity:
            grade = next(grade for grade in Grade if self._queues[grade])
            self._queues[grade].popleft()
            self.dropped[grade] += 1

    def head(self) -> Letter | None:
        """The letter to send next; it stays inside."""
        heads = [queue[0] for queue in self._queues.values() if queue]
        return min(heads)[1] if heads else None

    def done(self, letter: Letter) -> None:
        """``letter`` has been sent (and acknowledged, if it is one that is): it leaves, if it still is inside."""
        queue = self._queues[letter.grade]
        if queue and queue[0][1] is letter:
            queue.popleft()
