"""Workers, channels and virtual time where things go wrong."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from pads_runtime import clock
from pads_runtime.aio import Channel, ChannelClosed, Overflow, Worker
from pads_runtime.clock import LoopClock, ManualClock
from pads_runtime.errors import WorkerBusy, WorkerStopped

BOTH_CLOCKS = pytest.mark.parametrize("virtual", [True, False])


def raising(error: BaseException) -> Any:
    raise error


@BOTH_CLOCKS
def test_a_job_that_raises_stop_iteration_does_not_hang_its_caller(virtual: bool) -> None:
    async def main() -> None:
        worker = Worker("w")
        with pytest.raises(RuntimeError, match="StopIteration"):
            await worker.run(lambda: next(iter(())))
        worker.stop()

    clock.run(main, virtual=virtual)


@BOTH_CLOCKS
def test_a_job_that_raises_system_exit_reaches_its_caller_and_the_worker_lives(virtual: bool) -> None:
    async def main() -> int:
        worker = Worker("w")
        with pytest.raises(SystemExit):
            await worker.run(raising, SystemExit(3))
        result = await worker.run(lambda: 7)
        worker.stop()
        return result

    assert clock.run(main, virtual=virtual) == 7


def test_a_cost_that_cannot_be_read_reaches_the_caller_instead_of_stopping_time() -> None:
    async def main() -> None:
        worker = Worker("w")
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 0, cost=lambda result: 1 / result)
        await asyncio.sleep(1.0)
        worker.stop()

    clock.run(main, virtual=True)


async def test_a_full_worker_refuses_more_and_still_stops() -> None:
    worker = Worker("w", capacity=2)
    begun, gate = threading.Event(), threading.Event()
    running = asyncio.create_task(worker.run(lambda: (begun.set(), gate.wait(30.0))))
    await asyncio.to_thread(begun.wait, 30.0)
    queued = [asyncio.create_task(worker.run(lambda: None)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(WorkerBusy, match="worker 'w' already has 2 jobs waiting"):
        await worker.run(lambda: None)
    assert not worker.stop(timeout_s=0.0)
    gate.set()
    await asyncio.gather(running, *queued)  # what was queued is finished
    assert worker.stop(timeout_s=5.0)
    with pytest.raises(WorkerStopped):
        await worker.run(lambda: None)


async def test_a_job_cancelled_before_its_turn_is_not_begun_under_wall_time() -> None:
    worker = Worker("w")
    gate, begun = threading.Event(), threading.Event()
    first = asyncio.create_task(worker.run(gate.wait, 30.0))
    second = asyncio.create_task(worker.run(begun.set))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    gate.set()
    await first
    await worker.run(lambda: None)
    assert not begun.is_set()
    worker.stop()


def test_a_cancelled_job_computes_to_its_end_under_virtual_time() -> None:
    async def main() -> bool:
        worker, begun = Worker("w"), threading.Event()
        task = asyncio.create_task(worker.run(lambda: (time.sleep(0.02), begun.set()), cost=9.0))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(1.0)  # time stands still until the job has computed
        worker.stop()
        return begun.is_set()

    assert clock.run(main, virtual=True)


def test_stopping_twice_is_harmless() -> None:
    worker = Worker("w")
    assert worker.stop()
    assert worker.stop()


def test_a_loop_that_is_gone_does_not_break_the_worker() -> None:
    worker, gate = Worker("w"), threading.Event()

    async def main() -> None:
        task = asyncio.create_task(worker.run(gate.wait, 30.0))
        await asyncio.sleep(0)
        task.cancel()

    clock.run(main, virtual=False)
    gate.set()
    assert worker.stop(timeout_s=5.0)


async def test_closing_a_channel_wakes_a_waiting_reader_and_a_waiting_sender() -> None:
    empty: Channel[int] = Channel(1, Overflow.WAIT)
    full: Channel[int] = Channel(1, Overflow.WAIT)
    await full.put(1)
    reader, sender = asyncio.create_task(empty.get()), asyncio.create_task(full.put(2))
    await asyncio.sleep(0)
    await empty.close()
    await full.close()
    await full.close()
    for task in (reader, sender):
        with pytest.raises(ChannelClosed):
            await task
    assert await full.get() == 1
    with pytest.raises(ChannelClosed):
        await full.put(3)


async def test_a_cancelled_reader_loses_no_item() -> None:
    channel: Channel[int] = Channel(4, Overflow.DROP_OLDEST)
    reader = asyncio.create_task(channel.get())
    await asyncio.sleep(0)
    await channel.put(1)
    reader.cancel()
    await asyncio.wait({reader})
    assert len(channel) == 1
    assert await channel.get() == 1


def test_sleeping_until_a_past_time_lets_others_run_and_moves_no_time() -> None:
    async def main() -> tuple[list[str], float]:
        now, order = LoopClock(), []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        await now.sleep_until(-5.0)
        order.append("sleeper")
        await task
        return order, now.now()

    assert clock.run(main, virtual=True) == (["other", "sleeper"], 0.0)


async def test_a_manual_clock_never_goes_back() -> None:
    manual = ManualClock(2.0)
    await manual.sleep_until(1.0)
    assert manual.now() == 2.0
    await manual.sleep_until(3.0)
    assert manual.now() == 3.0


def test_an_error_in_main_ends_the_virtual_run_and_its_tasks() -> None:
    ended: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            ended.append("child")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await asyncio.sleep(1.0)
            raise ValueError("main")

    with pytest.raises(ExceptionGroup):
        clock.run(main, virtual=True)
    assert ended == ["child"]
