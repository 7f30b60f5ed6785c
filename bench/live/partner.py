"""Someone who talks with ``pads talk`` over the rig: starts it, speaks into its microphone, hears what it says.

Three clocks meet here: the talk's own, and those of the two recordings. Each is laid onto ``time.monotonic`` by what
was seen of it least late, so a busy machine makes the match no worse as long as it is quick once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pads_runtime.config import ROOT
from pads_runtime.dashboard.tail import Tail
from pads_runtime.frames import TraceEvent

from ..harness.child import ChildFailed
from .rig import Recording, Rig, Samples

LOADS_WITHIN_S = 90.0
ENDS_WITHIN_S = 30.0
_LOOK_S = 0.004
DEVICES = ("audio.input_device=pads_mic", "audio.output_device=pads_speaker", "audio.echo=off")
"""Nothing of the loudspeaker gets into the microphone here unless the rig is told so."""


class Partner:
    """One ``pads talk`` that runs, with both sides recorded. Made by ``talking``."""

    def __init__(self, rig: Rig, folder: Path, overrides: Sequence[str]) -> None:
        """``folder`` gets the run and what the process prints."""
        self.rig, self._folder = rig, folder
        self._runs = folder / "runs"
        self._events: list[TraceEvent] = []
        self._origin_s = float("inf")
        self._done = threading.Event()
        self._out = folder / "stdout.txt"
        settings = (*DEVICES, f"run.dir={self._runs}", *overrides)
        words = [sys.executable, "-m", "pads_runtime.cli", "talk", "--plain"]
        for setting in settings:
            words += ["--set", setting]
        with self._out.open("wb") as out, (folder / "stderr.txt").open("wb") as err:
            environment = {**os.environ, **rig.env}
            self.process = subprocess.Popen(
                words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()
        self.room: Recording
        self.speaker: Recording

    # ------------------------------------------------------------ what happened

    @property
    def events(self) -> list[TraceEvent]:
        """The trace so far."""
        return self._events[:]

    @property
    def run(self) -> Path:
        """The talk's run folder."""
        (folder,) = self._runs.iterdir()
        return folder

    def printed(self) -> str:
        """What it printed so far, both streams."""
        return "".join(
            (self._folder / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout.txt", "stderr.txt")
        )

    def _last_line(self) -> str:
        return (self.printed().strip().splitlines() or ["it said nothing"])[-1][:300]

    def figures(self) -> dict[str, Any]:
        """The summary in the record, once the talk has ended."""
        summary: dict[str, Any] = json.loads((self.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
        return summary

    def mark(self) -> int:
        """Where the trace stands: ``wait`` looks from here on."""
        return len(self._events)

    def wait(
        self,
        kind: str | Callable[[TraceEvent], bool],
        since: int = 0,
        within_s: float = 60.0,
    ) -> TraceEvent:
        """The first event of ``kind`` from ``since`` on. Raises ChildFailed when it does not come or the talk ends."""
        fits = (lambda event: event.kind == kind) if isinstance(kind, str) else kind
        give_up_s = time.monotonic() + within_s
        seen = since
        while True:
            ended = self.process.poll() is not None and self._done.wait(1.0)
            while seen < len(self._events):
                if fits(self._events[seen]):
                    return self._events[seen]
                seen += 1
            if ended or time.monotonic() > give_up_s:
                why = f"it has ended ({self._last_line()})" if ended else f"nothing for {within_s:.0f} s"
                wanted = f"'{kind}'" if isinstance(kind, str) else "what was waited for"
                raise ChildFailed(f"no {wanted} in the talk: {why}", self.printed()[-4000:])
            time.sleep(_LOOK_S)

    # ------------------------------------------------------------ sound

    def say(self, samples: Samples, seconds_later: float = 0.0) -> subprocess.Popen[bytes]:
        """Speak into the microphone: int16 at ROOM_RATE; returns at once."""
        time.sleep(seconds_later)
        return self.rig.play(samples)

    def monotonic_s(self, event_s: float) -> float:
        """A time of the talk's as ``time.monotonic()``."""
        return self._origin_s + event_s

    def sample_at(self, recording: Recording, event_s: float) -> int:
        """The sample of ``recording`` that sounded at the time ``event_s`` of the talk."""
        return max(0, round((self.monotonic_s(event_s) - recording.started_s) * recording.rate))

    # ------------------------------------------------------------ its end

    def end(self) -> int:
        """Ask the talk to end and wait for it; returns its exit code. Idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ChildFailed("the talk did not end when it was told to", self.printed()[-4000:]) from None
        self._done.wait(2.0)
        return code

    def close(self) -> None:
        """Let nothing of it go on."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._follower.join(5.0)

    # ------------------------------------------------------------ the follower's thread

    def _follow(self) -> None:
        tail: Tail | None = None
        while True:
            over = self.process.poll() is not None
            if tail is None:
                found = list(self._runs.glob("*/trace.jsonl"))
                tail = Tail(found[0]) if found else None
            if tail is not None:
                self._take(tail)
            if over:
                self._done.set()
                return
            time.sleep(_LOOK_S)

    def _take(self, tail: Tail) -> None:
        for event in tail.read():
            # Seen so late at least: the time at which the talk began is never later than this.
            self._origin_s = min(self._origin_s, time.monotonic() - event.t_s)
            self._events.append(event)


@contextlib.contextmanager
def talking(rig: Rig, folder: Path, overrides: Sequence[str] = ()) -> Iterator[Partner]:
    """A talk that listens, with both sides recorded from before its first word. Raises ChildFailed."""
    with rig.record("room") as room, rig.record("speaker") as speaker:
        partner = Partner(rig, folder, overrides)
        partner.room, partner.speaker = room, speaker
        try:
            partner.wait("session_started", within_s=LOADS_WITHIN_S)
            yield partner
        except ChildFailed as exc:
            exc.add_note(exc.output)
            raise
        finally:
            partner.close()
