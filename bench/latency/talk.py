"""One block of turns held under one strategy: a whole session, with every model, on either clock."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pads_runtime import assemble, clock
from pads_runtime.audio.sink import WavSink
from pads_runtime.clock import LoopClock
from pads_runtime.config import Costs, PadsSettings
from pads_runtime.demo import ScriptedUser, Utterance
from pads_runtime.frames import SAMPLE_RATE
from pads_runtime.models import Registry
from pads_runtime.session import Session
from pads_runtime.speech.protocol import Synthesizer
from pads_runtime.summary import summarise
from pads_runtime.trace import Trace

from .figures import TurnFigures
from .turns import Turn

GAP_S = 0.6
SLACK_S = 0.3
"""Voice activity may end a turn's speech so much later than its last sample."""


@dataclass(frozen=True)
class Ground:
    """What all talks share."""

    registry: Registry
    costs: Costs
    voice: Synthesizer


@dataclass(frozen=True)
class Held:
    """What came of one block."""

    turns: tuple[TurnFigures, ...]
    cpu_s: float


def hold(
    ground: Ground, settings: PadsSettings, block: int, turns: Sequence[Turn], spoken: Sequence[Utterance]
) -> Held:
    """Hold the talk of ``turns``, whose sound is ``spoken``. Raises PadsError."""
    parts = assemble.load(settings, ground.registry, ground.voice)
    before_s = _cpu_s()

    async def main() -> tuple[dict[str, Any], list[float]]:
        clock_ = LoopClock()
        user = ScriptedUser(spoken, GAP_S, clock_)
        trace = Trace()
        stages = parts.between(user, WavSink(ground.voice.sample_rate))
        session = Session(stages, settings, ground.costs, clock_, trace, on_idle=user.agent_idle)
        await session.run()
        return summarise(trace.events, user.speech_ends_s, session.lags_s), user.speech_ends_s

    summary, ends_s = clock.run(main, virtual=settings.clock.kind == "virtual", speed=settings.clock.speed)
    cpu_s = _cpu_s() - before_s
    lengths_s = [len(utterance.samples) / SAMPLE_RATE for utterance in spoken]
    of_turn = assigned(summary["per_turn"], ends_s, lengths_s)
    return Held(
        tuple(_figures(block, i, turn, rows) for i, (turn, rows) in enumerate(zip(turns, of_turn, strict=True))), cpu_s
    )


def assigned(
    rows: Sequence[Mapping[str, Any]], ends_s: Sequence[float], lengths_s: Sequence[float]
) -> list[list[Mapping[str, Any]]]:
    """The session's turns by the user's turn that they fall into: more than one where the user was cut off."""
    found: list[list[Mapping[str, Any]]] = [[] for _ in ends_s]
    for row in rows:
        at_s = row["speech_end_s"]
        for i, (end_s, length_s) in enumerate(zip(ends_s, lengths_s, strict=True)):
            if at_s is not None and end_s - length_s <= at_s <= end_s + SLACK_S:
                found[i].append(row)
    return found


def _figures(block: int, index: int, turn: Turn, rows: Sequence[Mapping[str, Any]]) -> TurnFigures:
    """The wait is that for the last answer; all that came before it in the turn was a false cut-off."""
    last = rows[-1] if rows else {}
    early = sum(1 for row in rows[:-1] if row["agent"])
    return TurnFigures(
        block=block,
        turn=index,
        place=turn.place,
        pause_s=turn.pause_s,
        post_confirm_ttft_ms=last.get("post_confirm_ttft_ms"),
        dead_air_ms=last.get("dead_air_ms"),
        prepared=sum(row["prepared"] for row in rows),
        committed=sum(row["committed"] for row in rows),
        false_cutoffs=max(early, sum(row["false_cutoffs"] for row in rows)),
        wasted_tokens=sum(row["wasted_tokens"] for row in rows),
        wasted_cpu_ms=round(sum(row["wasted_cpu_ms"] for row in rows), 3),
        user=" | ".join(row["user"] for row in rows if row["user"]),
        agent=" | ".join(row["agent"] for row in rows if row["agent"]),
    )


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
