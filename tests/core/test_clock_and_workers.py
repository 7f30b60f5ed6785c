"""Virtual time, channels and workers."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from pads_runtime import clock
from pads_runtime.aio import Channel, ChannelClosed, Overflow, Worker
from pads_runtime.errors import WorkerStopped


def test_virtual_time_jumps_to_the_next_timer() -> None:
    async def main() -> tuple[float, float]:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(3600.0)
        return began, asyncio.get_running_loop().time()

    wall = time.monotonic()
    assert clock.run(main, virtual=True) == (0.0, 3600.0)
    assert time.monotonic() - wall < 60.0


def test_asyncio_timeouts_follow_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert clock.run(main, virtual=True) == 5.0


def test_jobs_are_delivered_by_declared_cost_whatever_they_take_on_the_wall() -> None:
    async def main() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []
        workers = [Worker(name) for name in "abc"]

        async def job(worker: Worker, cost: float) -> None:
            await worker.run(time.sleep, random.random() * 0.02, cost=cost)
            seen.append((worker.name, asyncio.get_running_loop().time()))

        async with asyncio.TaskGroup() as group:
            for worker, cost in zip(workers, (0.3, 0.1, 0.3), strict=True):
                group.create_task(job(worker, cost))
        for worker in workers:
            worker.stop()
        return seen

    for _ in range(5):
        assert clock.run(main, virtual=True) == [("b", 0.1), ("a", 0.3), ("c", 0.3)]


def test_jobs_of_one_worker_queue_up_in_virtual_time() -> None:
    async def main() -> list[float]:
        worker = Worker("w")
        done: list[float] = []

        async def job() -> None:
            await worker.run(lambda: None, cost=0.5)
            done.append(asyncio.get_running_loop().time())

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(job())
        worker.stop()
        return done

    assert clock.run(main, virtual=True) == [0.5, 1.0, 1.5]


def test_a_cancelled_job_frees_its_worker_at_once_and_charges_only_the_time_used() -> None:
    async def main() -> tuple[float, float]:
        worker = Worker("w")
        task = asyncio.create_task(worker.run(lambda: None, cost=10.0))
        await asyncio.sleep(2.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await worker.run(lambda: None, cost=1.0)
        worker.stop()
        return asyncio.get_running_loop().time(), worker.busy_s

    assert clock.run(main, virtual=True) == (3.0, 3.0)


def test_a_cancelled_job_tells_native_code_to_stop_under_wall_time() -> None:
    async def main() -> bool:
        worker = Worker("w")
        stop = threading.Event()
        task = asyncio.create_task(worker.run(stop.wait, 30.0, on_cancel=stop.set))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return worker.stop(timeout_s=10.0)

    assert clock.run(main, virtual=False)


@pytest.mark.parametrize("virtual", [True, False])
def test_an_exception_in_a_job_reaches_the_caller(virtual: bool) -> None:
    async def main() -> None:
        worker = Worker("w")
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        assert await worker.run(lambda: 7) == 7
        worker.stop()
        with pytest.raises(WorkerStopped):
            await worker.run(lambda: 7)

    clock.run(main, virtual=virtual)


def test_speed_limits_virtual_time_and_changes_no_event() -> None:
    async def main() -> list[float]:
        times: list[float] = []
        for _ in range(5):
            await asyncio.sleep(0.02)
            times.append(asyncio.get_running_loop().time())
        return times

    wall = time.monotonic()
    paced = clock.run(main, virtual=True, speed=2.0)
    assert time.monotonic() - wall >= 0.05
    assert paced == clock.run(main, virtual=True)


async def test_a_full_audio_channel_drops_the_oldest_and_counts_it() -> None:
    channel: Channel[int] = Channel(2, Overflow.DROP_OLDEST)
    for i in range(5):
        await channel.put(i)
    assert channel.dropped == 3
    assert [await channel.get(), await channel.get()] == [3, 4]


async def test_a_full_token_channel_makes_the_sender_wait() -> None:
    channel: Channel[int] = Channel(1, Overflow.WAIT)
    await channel.put(1)
    sender = asyncio.create_task(channel.put(2))
    await asyncio.sleep(0)
    assert not sender.done()
    assert await channel.get() == 1
    await sender
    await channel.close()
    assert await channel.get() == 2
    with pytest.raises(ChannelClosed):
        await channel.get()
