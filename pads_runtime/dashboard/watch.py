"""The talk that the page shows: the latest one that runs, else the latest that ran. Reads its record and nothing else,
so a talk does not know whether it is watched."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..view.state import Reply, Seen, reduce
from ..view.words import gate, speaker
from . import records
from .tail import Tail
from .tracks import KEEP_S, Tracks, mark, since

LOOK_AGAIN_S = 1.0
"""How often another talk is looked for."""
LOOK_AT = 30
"""How many of the latest runs are looked at."""
SAME_S = 2.0
"""While nothing happens the page is told the time only this often; its own clock runs on."""
LINES = 14
"""Lines of the talk that are passed on."""


class Watcher:
    """Call ``poll`` every now and then, in one thread at a time."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._record: records.Record | None = None
        self._tail: Tail | None = None
        self._seen, self._tracks = Seen(), Tracks()
        self._looked_s = float("-inf")
        self._offset_s = float("-inf")
        """The talk's time, as far as it can be known from outside, minus this process's."""
        self._told: dict[str, Any] | None = None
        self._told_s = float("-inf")

    @property
    def pid(self) -> int | None:
        """The process of the talk that runs."""
        return self._record.pid if self._record is not None and self._record.is_live else None

    def poll(self) -> dict[str, Any] | None:
        """What is to be seen now, as plain JSON; None while there is no talk."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_AGAIN_S:
            self._looked_s = now_s
            self._look()
        if self._record is None or self._tail is None:
            return None
        for event in self._tail.read():
            self._seen = reduce(self._seen, event)
            self._tracks = mark(self._tracks, event)
            self._offset_s = max(self._offset_s, event.t_s - time.monotonic())
        snapshot = self._snapshot(self._record)
        same = self._told is not None and self._told | {"now_s": snapshot["now_s"]} == snapshot
        if not same or now_s - self._told_s >= SAME_S:
            self._told, self._told_s = snapshot, now_s
        return self._told

    def _look(self) -> None:
        found = [record for record in records.latest(self._base, LOOK_AT) if record.has_trace]
        chosen = next((record for record in found if record.is_live), found[0] if found else None)
        if chosen is None or self._record is None or chosen.name != self._record.name:
            self._follow(chosen)
        self._record = chosen

    def _follow(self, record: records.Record | None) -> None:
        """Begin with another talk. What its trace holds already happened as long ago as the file was written."""
        path = records.file_of(self._base, record.name, "trace.jsonl") if record is not None else None
        self._tail = Tail(path) if path is not None else None
        self._seen, self._tracks = Seen(), Tracks()
        self._offset_s = float("-inf")
        if self._tail is None or path is None:
            return
        for event in self._tail.read():
            self._seen = reduce(self._seen, event)
            self._tracks = mark(self._tracks, event)
        try:
            age_s = max(0.0, time.time() - path.stat().st_mtime)
        except OSError:
            age_s = 0.0
        self._offset_s = self._seen.t_s + age_s - time.monotonic()

    def _snapshot(self, record: records.Record) -> dict[str, Any]:
        seen = self._seen
        live = record.is_live and not seen.ended
        # Virtual time may be ahead of the wall or behind it; the talk's last event is all that is known of it.
        running = live and record.clock != "virtual"
        now_s = max(seen.t_s, time.monotonic() + self._offset_s) if running else seen.t_s
        return {
            "run": record.name,
            "purpose": record.purpose,
            "state": record.state if not seen.ended or record.state != "running" else "ending",
            "live": live,
            "ticks": running,
            "theta": record.theta,
            "now_s": round(now_s, 2),
            "tracks": since(self._tracks, now_s - KEEP_S),
            "seen": _plain(seen, now_s),
        }


def _plain(seen: Seen, now_s: float) -> dict[str, Any]:
    return {
        "turn": seen.turn,
        "speaker": speaker(seen),
        "gate": gate(seen),
        "state": seen.state.value,
        "speaking": seen.speaking,
        "muted": seen.muted,
        "stable": seen.stable,
        "unstable": seen.unstable,
        "p_end": seen.p_end,
        "p_deep": seen.p_deep,
        "reply": None if seen.reply is None else _reply(seen.reply, now_s),
        "said": [[line.turn, line.who, line.text, line.note] for line in seen.said[-LINES:]],
        "last": None if seen.last is None else asdict(seen.last),
        "counts": asdict(seen.counts),
        "notices": [[notice.t_s, notice.text] for notice in seen.notices],
    }


def _reply(reply: Reply, now_s: float) -> dict[str, Any]:
    """A reply on its way: ``said`` has begun to sound, ``waiting`` has not."""
    begun = [p.text for p in reply.phrases if p.starts_s is not None and p.starts_s <= now_s]
    return {
        "prepared": reply.prepared,
        "committed": reply.committed,
        "playing": reply.playing,
        "said": " ".join(begun),
        "waiting": reply.waiting_text(now_s),
    }
