"""``bench live``: mouth to ear. What a person waits for, from the recorded signals, with and without speculation.

One ``pads talk`` after the other holds a block of turns on the virtual sound card, in turn with speculation (the gate
as set) and without (``gate.mode: never``), on the same questions. A turn's dead air is the time from the last audible
sample of the question in the microphone's recording to the first of the reply in the loudspeaker's: devices, sound
server and all models are in it. The trace's own figures stand beside it.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pads_runtime import assemble
from pads_runtime.config import PadsSettings
from pads_runtime.errors import SetupError
from pads_runtime.models import Registry
from pads_runtime.summary import summarise

from ..harness.child import ChildFailed
from ..latency.figures import spread
from ..report import Measurement, comparison, measurement
from ..report import missing as not_found
from .partner import Partner, talking
from .questions import QUESTIONS
from .rig import Rig, Samples, missing
from .sound import first_sound, last_sound, spoken

Say = Callable[[str], None]
ON, OFF = "on", "off"
BLOCK = 5
GAP_S = 0.6
"""Silence that the user leaves after a reply."""
ANSWERS_WITHIN_S = 30.0
SHORT = "engine.max_reply_tokens=16"
"""What is measured is over when the reply begins, so replies are short; ``--set`` may say otherwise."""
WAITS = ("dead_air_ms", "post_confirm_ttft_ms", "confirm_to_sound_ms")


@dataclass(frozen=True, slots=True)
class LiveTurn:
    """One question under one mode. Times are None where it was not answered."""

    speculation: str
    block: int
    turn: int
    question: str
    heard: str = ""
    answer: str = ""
    prepared: int = 0
    committed: int = 0
    false_cutoffs: int = 0
    dead_air_ms: float | None = None
    """From the recordings."""
    confirm_to_sound_ms: float | None = None
    """From the trace's confirm to the first sound in the recording."""
    post_confirm_ttft_ms: float | None = None
    """From the trace: a token makes no sound."""
    trace_dead_air_ms: float | None = None


@dataclass(frozen=True)
class LiveBlock:
    """One talk: its turns, and the figures of its summary."""

    turns: tuple[LiveTurn, ...]
    summary: Mapping[str, Any]


def measure(
    turns: int, settings: PadsSettings, overrides: Sequence[str], registry: Registry, say: Say
) -> tuple[list[Measurement], dict[str, Any]]:
    """Rows, and every turn. ``overrides`` are all that ``settings`` have beyond pads talk's own. Raises PadsError."""
    if (why := missing()) is not None:
        raise SetupError(f"the virtual sound card needs PulseAudio: {why}")
    voice = assemble.synthesizer(settings.speech, registry)
    asked = [QUESTIONS[i % len(QUESTIONS)] for i in range(turns)]
    blocks = [asked[start : start + BLOCK] for start in range(0, turns, BLOCK)]
    held: list[LiveBlock] = []
    with tempfile.TemporaryDirectory(prefix="pads-live-") as folder:
        rig = Rig(Path(folder) / "rig")
        rig.start()
        try:
            for number, questions in enumerate(blocks):
                said = [(text, spoken(voice, text)) for text in questions]
                # The one that goes first meets a machine that has rested: each goes first in turn.
                for mode in (ON, OFF) if number % 2 == 0 else (OFF, ON):
                    say(f"block {number + 1} of {len(blocks)}, speculation {mode}")
                    place = Path(folder) / f"{number}-{mode}"
                    place.mkdir()
                    gate = ("gate.mode=never",) if mode == OFF else ()
                    with talking(rig, place, (*overrides, *gate)) as partner:
                        held.append(hold(partner, mode, number, said))
        finally:
            rig.stop()
    return rows(held), detail(held)


def hold(partner: Partner, mode: str, block: int, said: Sequence[tuple[str, Samples]]) -> LiveBlock:
    """Ask each question when the last one has been answered. Raises ChildFailed if the talk breaks off."""
    marks, asked_s = [], []
    time.sleep(GAP_S)
    for _, samples in said:
        marks.append(partner.mark())
        asked_s.append(time.monotonic())
        partner.say(samples).wait(60)
        try:
            partner.wait(lambda e: e.kind in ("reply_served", "turn_closed"), marks[-1], ANSWERS_WITHIN_S)
        except ChildFailed:
            if partner.process.poll() is not None:
                raise
        _until_idle(partner)
    if partner.end():
        raise ChildFailed("the talk did not end in order", partner.printed()[-4000:])
    parts = zip(marks, [*marks[1:], None], asked_s, [*asked_s[1:], time.monotonic()], said, strict=True)
    return LiveBlock(
        tuple(
            _turn(partner, LiveTurn(mode, block, i, text), slice(first, end), (start_s, end_s))
            for i, (first, end, start_s, end_s, (text, _)) in enumerate(parts)
        ),
        partner.figures(),
    )


def _until_idle(partner: Partner) -> None:
    """Wait out a gap in which nothing is under way: a question that was cut off has its second answer."""
    give_up_s = time.monotonic() + ANSWERS_WITHIN_S
    idle_s = 0.0
    while idle_s < GAP_S and time.monotonic() < give_up_s and partner.process.poll() is None:
        time.sleep(GAP_S / 4)
        states = [event.fields["state"] for event in partner.events if event.kind == "state_changed"]
        idle_s = idle_s + GAP_S / 4 if not states or states[-1] == "idle" else 0.0


def _turn(partner: Partner, empty: LiveTurn, part: slice, span_s: tuple[float, float]) -> LiveTurn:
    """Fill in what came of a question whose events are ``part`` of the trace, asked and over at ``span_s``."""
    events = partner.events[part]
    answered = [row for row in summarise(events)["per_turn"] if row["agent"]]
    begun = [event for event in events if event.kind == "playback_started"]
    if not answered or not begun:
        return empty
    last, began_s = answered[-1], partner.monotonic_s(begun[-1].t_s)
    ends_s = heard_between(partner.room.samples, partner.room.rate, partner.room.started_s, span_s[0], began_s)[1]
    onset_s = heard_between(
        partner.speaker.samples, partner.speaker.rate, partner.speaker.started_s, began_s, span_s[1]
    )[0]
    confirm_s = None if last["confirm_s"] is None else partner.monotonic_s(last["confirm_s"])
    return LiveTurn(
        **{key: getattr(empty, key) for key in ("speculation", "block", "turn", "question")},
        heard=last["user"],
        answer=last["agent"],
        prepared=sum(row["prepared"] for row in answered),
        committed=sum(row["committed"] for row in answered),
        false_cutoffs=len(answered) - 1 + sum(row["false_cutoffs"] for row in answered),
        dead_air_ms=between_ms(ends_s, onset_s),
        confirm_to_sound_ms=between_ms(confirm_s, onset_s),
        post_confirm_ttft_ms=last["post_confirm_ttft_ms"],
        trace_dead_air_ms=last["dead_air_ms"],
    )


EARLY_S = 0.05
"""Sound may begin that much before the times of trace and recording, which are laid onto each other, say so."""


def heard_between(
    samples: Samples, rate: int, started_s: float, from_s: float, to_s: float
) -> tuple[float | None, float | None]:
    """When the first and the last audible sample sounded between two times; None where all was silent."""
    start, stop = (max(0, round((t_s - started_s) * rate)) for t_s in (from_s - EARLY_S, to_s))
    found = first_sound(samples, start, stop), last_sound(samples, start, stop)
    first, last = (None if at is None else started_s + at / rate for at in found)
    return first, last


def between_ms(start_s: float | None, end_s: float | None) -> float | None:
    """Milliseconds from one to the other; None where one is not known."""
    return None if start_s is None or end_s is None else round((end_s - start_s) * 1000, 3)


# ---------------------------------------------------------------- what it comes to


def rows(held: Sequence[LiveBlock]) -> list[Measurement]:
    """The figures of the report."""
    turns = [turn for block in held for turn in block.turns]
    found = [
        _spread(f"{wait.removesuffix('_ms')}_{mode}", _values(turns, mode, wait))
        for wait in WAITS
        for mode in (ON, OFF)
    ]
    pairs = paired(turns, "dead_air_ms")
    if pairs:
        saved = [off - on for off, on in pairs]
        found.append(measurement("dead_air_saved", saved, note="off less on, the same question"))
        clusters = {str(i): [pair] for i, pair in enumerate(pairs)}
        found.append(comparison("dead_air_on_over_off", clusters, "baseline: speculation off"))
    beyond = [t.dead_air_ms - t.trace_dead_air_ms for t in turns if t.dead_air_ms and t.trace_dead_air_ms]
    found.append(_spread("dead_air_beyond_the_trace", beyond, "what the trace cannot see: devices and sound server"))
    return [*found, *_counts(held, turns)]


def _counts(held: Sequence[LiveBlock], turns: Sequence[LiveTurn]) -> list[Measurement]:
    audio = [block.summary["audio"] for block in held]
    lags = [block.summary["loop_lag_p99_ms"] for block in held if block.summary["loop_lag_p99_ms"] is not None]
    callbacks = [a["callback_ms_p99"] for a in audio if a["callback_ms_p99"] is not None]
    unanswered = sum(turn.dead_air_ms is None for turn in turns)
    return [
        _spread("callback_p99", callbacks, "of each talk", limit=1.0),
        measurement("overruns", [sum(a["input_overruns"] for a in audio)], "times", limit=1.0, note="of all talks"),
        measurement("underruns", [sum(a["output_underruns"] for a in audio)], "times", note="of all talks"),
        measurement(
            "frames_lost",
            [sum(a["frames_lost"] + b.summary["frames_dropped"] for a, b in zip(audio, held, strict=True))],
            "frames",
        ),
        _spread("loop_lag_p99", lags, "of each talk"),
        measurement("false_cutoffs", [sum(turn.false_cutoffs for turn in turns)], "times"),
        measurement("unanswered", [unanswered], "turns"),
        measurement("prepared_on", [sum(t.prepared for t in turns if t.speculation == ON)], "replies"),
        measurement("committed_on", [sum(t.committed for t in turns if t.speculation == ON)], "replies"),
    ]


def paired(turns: Sequence[LiveTurn], wait: str) -> list[tuple[float, float]]:
    """(off, on) of every question that both answered."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    for turn in turns:
        value = getattr(turn, wait)
        if value is not None:
            found.setdefault((turn.block, turn.turn), {})[turn.speculation] = value
    return [(both[OFF], both[ON]) for both in found.values() if len(both) == 2]


def detail(held: Sequence[LiveBlock]) -> dict[str, Any]:
    """Every turn, and the intervals of medians and 95th percentiles."""
    turns = [turn for block in held for turn in block.turns]
    intervals = {
        f"{wait}_{mode}": spread(np.array(_values(turns, mode, wait), np.float64))
        for wait in WAITS
        for mode in (ON, OFF)
    }
    by_question = {(t.block, t.turn, t.speculation): (t.heard, t.answer) for t in turns}
    differ = [
        {"on": by_question[key], "off": by_question[(*key[:2], OFF)]}
        for key in by_question
        if key[2] == ON and by_question.get((*key[:2], OFF)) not in (None, by_question[key])
    ]
    return {"intervals": intervals, "replies_that_differ": differ, "per_turn": [asdict(turn) for turn in turns]}


def _values(turns: Sequence[LiveTurn], mode: str, wait: str) -> list[float]:
    return [v for t in turns if t.speculation == mode and (v := getattr(t, wait)) is not None and math.isfinite(v)]


def _spread(name: str, values: Sequence[float], note: str = "", limit: float | None = None) -> Measurement:
    return (
        measurement(name, values, limit=limit, note=note) if values else not_found(name, "no turn was answered", "ms")
    )
