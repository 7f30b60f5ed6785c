"""How a live talk is told to end by the system: Ctrl-C, a polite kill, a terminal that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """The process was asked to end before the talk had begun; exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Ending:
    """Remembers which signal asked for the end. The first one asks politely, a second Ctrl-C insists."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was Ctrl-C."""
        return self.asked is signal.SIGINT

    @contextlib.contextmanager
    def before_the_talk(self) -> Iterator[None]:
        """While models load, SIGTERM and SIGHUP raise Ended, so that records are closed; Ctrl-C is Python's own."""

        def end(number: int, frame: FrameType | None) -> None:
            self.asked = signal.Signals(number)
            raise Ended

        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def during_the_talk(self, quit_: Callable[[], None], insist: Callable[[], None]) -> Iterator[None]:
        """On the running event loop: the first signal calls ``quit_``, a second Ctrl-C ``insist``."""
        loop = asyncio.get_running_loop()

        def ask(number: signal.Signals) -> None:
            if self.interrupted and number is signal.SIGINT:
                insist()
                return
            if self.asked is None or number is signal.SIGINT:
                self.asked = number
            quit_()

        for number in SIGNALS:
            loop.add_signal_handler(number, ask, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
