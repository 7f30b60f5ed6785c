"""Timing one call: warm up, throw the first runs away, keep every other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

WARM_UP = 3
"""First runs thrown away: they pay for lazy loading, memory planning and cold caches."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """Wall times of the kept runs in milliseconds, and what each returned."""

    ms: tuple[float, ...]
    results: tuple[T, ...]


def timed(
    call: Callable[[], T],
    runs: int,
    prepare: Callable[[], object] = lambda: None,
    warm_up: int = WARM_UP,
    clock: Callable[[], float] = time.perf_counter,
) -> Timed[T]:
    """Run ``call`` ``warm_up + runs`` times and keep the last ``runs``; ``prepare`` goes before each, untimed."""
    ms: list[float] = []
    results: list[T] = []
    for _ in range(warm_up + runs):
        prepare()
        before = clock()
        result = call()
        ms.append((clock() - before) * 1e3)
        results.append(result)
    return Timed(tuple(ms[warm_up:]), tuple(results[warm_up:]))


def percentile(values: Sequence[float], q: float) -> float:
    """The q-th percentile (0 to 100), interpolated linearly between neighbours."""
    return float(np.percentile(np.asarray(values, np.float64), q))
