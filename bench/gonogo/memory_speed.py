"""What this machine's memory gives: the best of reading, copying and STREAM's triad on arrays no cache holds.

McCalpin, "Memory bandwidth and machine balance" (1995). Bytes are those the program asks for; a write that first reads
its cache line costs more than is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ARRAY_MB = 128
_REPEATS = 5


def memory_gb_s(threads: int, array_mb: int = ARRAY_MB, clock: Callable[[], float] = time.perf_counter) -> float:
    """GB/s (10^9) of ``threads`` threads together, the best repeat after one that touches every page."""
    length = array_mb * 1_000_000 // 8 // threads
    parts = [(np.ones(length), np.ones(length), np.ones(length)) for _ in range(threads)]
    kernels: list[tuple[Callable[[Array, Array, Array], object], int]] = [(_read, 1), (_copy, 2), (_triad, 5)]
    best = 0.0
    for kernel, passes in kernels:
        for repeat in range(_REPEATS + 1):
            spent = _together(kernel, parts, clock)
            if repeat:
                best = max(best, passes * length * 8 * threads / spent / 1e9)
    return best


def _together(
    kernel: Callable[[Array, Array, Array], object], parts: list[tuple[Array, Array, Array]], clock: Callable[[], float]
) -> float:
    ready = threading.Barrier(len(parts) + 1)

    def work(part: tuple[Array, Array, Array]) -> None:
        ready.wait()
        kernel(*part)

    workers = [threading.Thread(target=work, args=(part,), name="memory-speed") for part in parts]
    for worker in workers:
        worker.start()
    ready.wait()
    before = clock()
    for worker in workers:
        worker.join()
    return clock() - before


def _read(a: Array, b: Array, c: Array) -> object:
    return np.add.reduce(a)


def _copy(a: Array, b: Array, c: Array) -> object:
    np.copyto(a, b)
    return a


def _triad(a: Array, b: Array, c: Array) -> object:
    np.multiply(c, 3.0, out=a)  # reads one, writes one
    return np.add(a, b, out=a)  # reads two, writes one
