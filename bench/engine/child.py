"""One process that decodes, alone and beside busy ones, and says how fast and how large it was. Run by resources.py.

python -m bench.engine.child '{"model": FILE, "threads": 2, "two_depths": false, "seconds": 2.0, "repeats": 2}'
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pads_runtime.config import EngineSettings
from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.model import Model
from pads_runtime.process import peak_rss_mb

from .common import QUESTION, Obeying, serve, talk

MODES = {"alone": None, "beside": 0, "beside_nice": 10}
"""Name to the niceness of the busy process beside."""
_BUSY = "import os, sys\nos.nice(int(sys.argv[1]))\nprint(flush=True)\nwhile True:\n    pass\n"


def main() -> None:
    """Read the job from the command line, write what was found to stdout."""
    job = json.loads(sys.argv[1])
    model = Model(Path(job["model"]))
    told = Obeying()
    two_depths = bool(job["two_depths"])
    if two_depths:
        told.tell(exit_ladder(model.n_layer)[1], 2)
    settings = EngineSettings(
        threads=job["threads"],
        decode_threads=job["threads"],
        max_reply_tokens=64,
        exit_layer="auto" if two_depths else "none",
    )
    engine = LlamaEngine(model, settings, controller=told if two_depths else None)
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(job["repeats"]):
        for mode, niceness in MODES.items():
            with _busy(niceness):
                rates[mode].append(_rate(engine, job["seconds"]))
    if not job["repeats"]:
        _rate(engine, 1.0)
    found: dict[str, Any] = {mode: statistics.median(values) for mode, values in rates.items() if values}
    found["peak_mb"] = peak_rss_mb()
    found["mapped_share"], found["mapped_mb"] = _mapped(Path(job["model"]))
    print(json.dumps(found))


def _rate(engine: LlamaEngine, seconds: float) -> float:
    """Tokens/s of decoding."""
    tokens, spent = 0, 0.0
    while spent < seconds:
        engine.open(talk(QUESTION), 1)
        before = time.perf_counter()
        tokens += len(serve(engine)) - 1  # the first comes from the prompt
        spent += time.perf_counter() - before
    return tokens / spent


@contextmanager
def _busy(niceness: int | None) -> Iterator[None]:
    if niceness is None:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", _BUSY, str(niceness)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def _mapped(model: Path) -> tuple[float, float]:
    """Mapped bytes of the model file over its size, and how much of it this process has in memory, MB."""
    try:
        lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("nan"), float("nan")
    kb = {"Size:": 0, "Rss:": 0}
    inside = False
    for line in lines:
        head = line.split()
        if not head[0].endswith(":"):
            inside = line.endswith(str(model.resolve()))
        elif inside and head[0] in kb:
            kb[head[0]] += int(head[1])
    return kb["Size:"] * 1024 / model.stat().st_size, kb["Rss:"] / 1024


if __name__ == "__main__":
    main()
