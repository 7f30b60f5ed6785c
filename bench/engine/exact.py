"""Is self-speculative greedy decoding plain greedy decoding, and is that what an unpatched llama.cpp does?"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence

from pads_runtime.engine.costs import exit_ladder
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.frames import Message

from ..report import Measurement, measurement, missing
from .common import REPLY_TOKENS, Bench, Obeying, prompts, reply, sized, talk

DRAFT_LENS = (1, 2, 3, 4, 5, 6)
CROSSED = (256, 512, 1024)
"""Cells at which llama.cpp's kernels change; replies to long prompts cross each."""

_BEFORE = 16
"""Cells left of a boundary for the reply's beginning."""

Config = tuple[int, int, bool]
"""Exit, draft length, with the translator."""

_STOCK = """
import json, sys
import llama_cpp
job = json.load(sys.stdin)
model = llama_cpp.Llama(model_path=job["model"], n_ctx=1024, n_batch=48, n_ubatch=48, n_threads=job["decode_threads"],
                        n_threads_batch=job["threads"], flash_attn=True, verbose=False)
replies = []
for prompt in job["prompts"]:
    model.reset()
    tokens = model.generate(prompt, top_k=1, temp=0.0, repeat_penalty=1.0)
    replies.append([token for token, _ in zip(tokens, range(job["tokens"]))])
print(json.dumps({"version": llama_cpp.__version__, "replies": replies,
                  "patched": hasattr(llama_cpp.llama_cpp._lib, "llama_set_layer_range")}))
"""


def measure(bench: Bench) -> Iterator[Measurement]:
    """All figures of exactness."""
    told = Obeying()
    plain = bench.engine()
    kinds = [False, True] if bench.translators is not None else [False]
    engines = {trained: bench.engine(told, trained) for trained in kinds}
    try:
        short = [talk(text) for text in prompts()]
        bench.say(f"plain greedy replies to {len(short)} prompts")
        wanted = [reply(plain, messages) for messages in short]
        # Some prompts that fill the first 256 cells nearly, where kernels of a released build change.
        fuller = [talk(sized(plain, tokens)) for tokens in (90, 120, 164)]
        yield from _stock(bench, plain, short + fuller, wanted + [reply(plain, messages) for messages in fuller])
        grid = list(itertools.product(exit_ladder(bench.model.n_layer), DRAFT_LENS, kinds))
        jobs = _jobs(grid, len(short), bench.full)
        found = _compare(bench, engines, told, [(short[i], wanted[i], config) for i, config in jobs])
        yield _figure("identical", found, f"{len(short)} prompts, {len(grid)} of (exit, draft length, translator)")
        plain.open(talk(""), 1)
        around = len(plain.cached_tokens)
        long = [(cells, talk(sized(plain, cells - around - _BEFORE))) for cells in CROSSED]
        crossing = []
        for cells, messages in long:
            plain.open(messages, 1)
            before = len(plain.cached_tokens)
            answer = reply(plain, messages)
            bench.say(f"{before} cells before a reply of {len(answer)}, to cross {cells}")
            if before < cells < before + len(answer):
                picked = grid if bench.full else grid[CROSSED.index(cells) :: 9]
                crossing += [(messages, answer, config) for config in picked]
        crossed = sorted({next(c for c, m in long if m is messages) for messages, _, _ in crossing})
        yield _figure("identical_long", _compare(bench, engines, told, crossing), f"replies that cross {crossed} cells")
        if bench.translators is None:
            yield missing("identical_with_translator", "this checkout has no translator for the model")
    finally:
        for engine in (plain, *engines.values()):
            engine.close()


def _jobs(grid: Sequence[Config], n_prompts: int, full: bool) -> list[tuple[int, Config]]:
    """Which prompt meets which configuration: all of them, or each of both at least once."""
    if full:
        return list(itertools.product(range(n_prompts), grid))
    count = max(n_prompts, len(grid))
    return [(i % n_prompts, grid[i % len(grid)]) for i in range(count)]


def _compare(
    bench: Bench,
    engines: dict[bool, LlamaEngine],
    told: Obeying,
    jobs: Sequence[tuple[list[Message], tuple[int, ...], Config]],
) -> list[tuple[bool, int]]:
    """For each job whether the reply is the wanted one, and its length."""
    found = []
    for number, (messages, wanted, (exit_layer, draft_len, trained)) in enumerate(jobs):
        if number % 20 == 0:
            bench.say(f"drafted replies, {number} of {len(jobs)}")
        told.tell(exit_layer, draft_len)
        got = reply(engines[trained], messages)
        found.append((got == wanted, len(wanted)))
        if got != wanted:
            at = next(
                (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted))
            )
            bench.say(f"DIFFERS at token {at}: exit {exit_layer}, drafts {draft_len}, translator {trained}")
    return found


def _figure(name: str, found: list[tuple[bool, int]], what: str) -> Measurement:
    if not found:
        return missing(name, f"no reply to compare: {what}")
    share = sum(same for same, _ in found) / len(found)
    note = f"{len(found)} replies, {sum(n for _, n in found)} tokens (up to {REPLY_TOKENS} each); {what}"
    return measurement(name, [share], "share", at_least=1.0, note=note)


def _stock(
    bench: Bench, plain: LlamaEngine, talks: list[list[Message]], wanted: list[tuple[int, ...]]
) -> Iterator[Measurement]:
    name = "plain_equals_unpatched"
    if bench.stock_python is None:
        yield missing(
            name, "no unpatched build at hand: give --stock-python, a Python with llama-cpp-python as released"
        )
        return
    bench.say("the same replies by an unpatched llama.cpp")
    starts = []
    for messages in talks:
        plain.open(messages, 1)
        starts.append(list(plain.cached_tokens))
    job = {
        "model": str(bench.path),
        "threads": bench.settings.threads,
        "decode_threads": bench.settings.decode_threads,
        "tokens": REPLY_TOKENS,
        "prompts": starts,
    }
    command = [str(bench.stock_python), "-c", _STOCK]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        yield missing(name, f"the unpatched build failed: {reason}")
        return
    theirs = json.loads(done.stdout)
    if theirs["patched"]:
        yield missing(name, "--stock-python has our patched build, not a released one")
        return
    same = [got[: len(want)] == list(want) for got, want in zip(theirs["replies"], wanted, strict=True)]
    cells = max(len(start) + len(want) for start, want in zip(starts, wanted, strict=True))
    note = f"llama-cpp-python {theirs['version']} as released, {len(same)} replies, at most {cells} cells in use"
    yield measurement(name, [sum(same) / len(same)], "share", at_least=1.0, note=note)
