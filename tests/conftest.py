"""What holds for every test: nothing it started may outlive it; and what several folders of tests need."""

from __future__ import annotations

import asyncio
import asyncio.runners
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pads_runtime.errors import PadsError
from pads_runtime.models import Registry

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell, which has its children ignore Ctrl-C; the commands under test must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)

THREADS_END_WITHIN_S = 5.0
TASKS_END_WITHIN_S = 0.1


def _workers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("pads-")}


@pytest.fixture(autouse=True)
def nothing_leaks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves asyncio tasks on its loop or worker threads alive; both get a moment to end.

    Every loop here is closed by ``asyncio.Runner`` (by pytest-asyncio's and by ``pads_runtime.clock.run``), which
    cancels what is left over before it closes the loop: that is where leftovers are seen.
    """
    leaked: list[str] = []
    cancel_all_tasks = asyncio.runners._cancel_all_tasks  # type: ignore[attr-defined]

    def note_and_cancel(loop: asyncio.AbstractEventLoop) -> None:
        left = asyncio.all_tasks(loop)
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=TASKS_END_WITHIN_S))
            leaked.extend(repr(task.get_coro()) for task in left if not task.done())
        cancel_all_tasks(loop)

    monkeypatch.setattr(asyncio.runners, "_cancel_all_tasks", note_and_cancel)
    before = _workers()
    yield
    give_up_s = time.monotonic() + THREADS_END_WITHIN_S
    while (left := _workers() - before) and time.monotonic() < give_up_s:
        time.sleep(0.005)
    leaked.extend(f"thread {thread.name}" for thread in left)
    if leaked:
        pytest.fail("leaked: " + ", ".join(leaked))


@pytest.fixture(scope="session")
def pads_command() -> list[str]:
    """The words that start the command."""
    script = Path(sys.executable).with_name("pads")
    return [str(script)] if script.exists() else [sys.executable, "-m", "pads_runtime.cli"]


@pytest.fixture(scope="session")
def models() -> Registry:
    """The registry; the test is skipped where an embedded model is missing."""
    registry = Registry.load()
    for entry in registry.entries.values():
        if entry.embedded:
            try:
                registry.path(entry.name)
            except PadsError as exc:
                pytest.skip(f"an embedded model is not on this machine: {exc}")
    return registry
