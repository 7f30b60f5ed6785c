"""The whole chain in small: train a few steps, merge, F16, Q4_K_M, load in the engine, speak one reply."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import soundfile

from pads_runtime import runs
from pads_runtime.config import EngineSettings, PadsSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.errors import EngineError
from pads_runtime.frames import Message, Role
from pads_runtime.speech.hibari_voice import HibariVoice

from ..export.run import Export, export
from .data import Corpus
from .plan import Plan
from .run import Job, run

QUESTION = "What is the capital of France"
PLAN = Plan(steps=3, sequence=128, batch=1, accumulate=1, rank=4, warmup=0, learning_rate=1e-4)
EVERY = 25
"""Of the corpora's dialogues each so-many-th is read into tokens."""
_DRAFTED = 2


def smoke(model: str, corpus: Corpus, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the chain in a temporary folder; returns what it did. The spoken reply stays in the run record."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="pads-layerskip-") as folder:
        job = Job(model, replace(corpus, every=EVERY), Path(folder) / "work", PLAN, validate_rows=1)
        report = run(job, say)
        files = export(Export(job.work, Path(folder) / "out", ("Q4_K_M",)), say)
        exit_layer = report["exits"][len(report["exits"]) // 2]
        reply = _reply(Path(files["files"][0]["file"]), exit_layer)
    with runs.RunRecord.begin(
        "train-layerskip-smoke", "one reply of the model just trained", PadsSettings(), {}, runs.command_line()
    ) as record:
        wav = record.path / "reply.wav"
        seconds = _speak(reply["reply"], wav)
        record.metrics(**reply)
    say(f'"{reply["reply"]}" ({seconds:.1f} s of speech)')
    return {
        "weights": report["weights"],
        "validation_before": report["validation_before"],
        "validation_after": report["validation_after"],
        "leaks": report["leaks"],
        "quantised": files["files"][0]["types"],
        "fell_back": files["files"][0]["fell_back"],
        **reply,
        "speech_s": round(seconds, 2),
        "wav": str(wav),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _reply(path: Path, exit_layer: int) -> dict[str, Any]:
    """One greedy reply with drafts from the exit just trained."""
    settings = EngineSettings(exit_layer=exit_layer, draft_len=_DRAFTED, translator="none", max_reply_tokens=24)
    engine = LlamaEngine.load(path, settings)
    try:
        engine.open([Message(Role.SYSTEM, settings.system_prompt), Message(Role.USER, QUESTION)], seed=0)
        text, drafted, accepted, done = "", 0, 0, False
        while not done:
            step = engine.step()
            text, done = text + step.text, step.done
            drafted, accepted = drafted + step.counts.drafted, accepted + step.counts.accepted
    finally:
        engine.close()
    if not text.strip():
        raise EngineError(f"the exported model '{path.name}' said nothing to \"{QUESTION}\"")
    return {"reply": text.strip(), "exit": exit_layer, "drafted": drafted, "accepted": accepted}


def _speak(text: str, path: Path) -> float:
    voice = HibariVoice()
    phrase = voice.synthesize(text)
    soundfile.write(path, phrase.samples, voice.sample_rate)
    return len(phrase.samples) / voice.sample_rate
