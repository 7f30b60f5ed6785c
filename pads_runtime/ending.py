"""How what runs for hours is told to end by the system: Ctrl-C, a polite kill, a terminal that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """Remembers which signal asked for the end. The first one asks politely, a second Ctrl-C insists.

    A signal that is ignored when the process begins (``nohup``, a shell's background job) stays ignored.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was Ctrl-C."""
        return self.asked is signal.SIGINT

    @contextlib.contextmanager
    def before(self) -> Iterator[None]:
        """While models load: a terminal that goes away ends it as Ctrl-C does, so that records are closed."""
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            yield
            return
        handler = signal.signal(signal.SIGHUP, _interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, handler)

    @contextlib.contextmanager
    def during(self, quit_: Callable[[], object], insist: Callable[[], object]) -> Iterator[None]:
        """On the running event loop: the first signal calls ``quit_``, a second Ctrl-C ``insist``."""
        loop = asyncio.get_running_loop()

        def ask(number: signal.Signals) -> None:
            if self.interrupted and number is signal.SIGINT:
                insist()
                return
            if self.asked is None or number is signal.SIGINT:
                self.asked = number
            quit_()

        before = {number: signal.getsignal(number) for number in SIGNALS}
        heard = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, ask, number)
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
