"""Fit the silence law of ``pads_runtime.turn.silence`` on recorded two-channel dialogues.

    python -m training.turn.fit_silence --data <folder with stereo FLAC or WAV files> [--json]

Each side's speech comes from the runtime's own voice activity. A mutual silence of at least ``s0`` is a hold if the
same side speaks next, a turn end if the other does. The hold hazard 1/tau is the reciprocal mean excess of holds over
s0 (the maximum-likelihood estimate of an exponential), pi the share of turn ends.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pads_runtime.audio.files import read_audio
from pads_runtime.config import VoiceActivitySettings
from pads_runtime.errors import DataError, PadsError
from pads_runtime.frames import FRAME_SAMPLES, SAMPLE_RATE, AudioFrame, Samples, SpeechPaused
from pads_runtime.turn.voice_activity import WebRtcVoiceActivity


@dataclass(frozen=True, slots=True)
class Speech:
    """One stretch of speech of one side."""

    start_s: float
    end_s: float
    side: str


@dataclass(frozen=True, slots=True)
class SilenceFit:
    """The estimates and what they rest on."""

    turn_share: float
    hold_s: float
    shortest_s: float
    holds: int
    turn_ends: int


def stretches(samples: Samples, side: str) -> list[Speech]:
    """The speech of one side, as the runtime hears it."""
    vad = WebRtcVoiceActivity(VoiceActivitySettings())
    found: list[Speech] = []
    onset_s: float | None = None
    for index in range(len(samples) // FRAME_SAMPLES):
        block = samples[index * FRAME_SAMPLES : (index + 1) * FRAME_SAMPLES]
        for event in vad.process(AudioFrame(block, index, (index + 1) * FRAME_SAMPLES / SAMPLE_RATE)):
            if not isinstance(event, SpeechPaused):
                onset_s = event.onset_s
            elif onset_s is not None:
                found.append(Speech(onset_s, event.last_voiced_s, side))
                onset_s = None
    if onset_s is not None:
        found.append(Speech(onset_s, len(samples) / SAMPLE_RATE, side))
    return found


def silences(speech: Sequence[Speech], shortest_s: float) -> tuple[list[float], list[float]]:
    """Lengths of mutual silences of at least ``shortest_s``: (holds, turn ends)."""
    ordered = sorted(speech, key=lambda s: s.start_s)
    holds: list[float] = []
    ends: list[float] = []
    last = ordered[0]
    for item in ordered[1:]:
        gap = item.start_s - last.end_s
        if gap >= shortest_s:
            (holds if item.side == last.side else ends).append(gap)
        if item.end_s > last.end_s:
            last = item
    return holds, ends


def fit(holds: Sequence[float], ends: Sequence[float], shortest_s: float) -> SilenceFit:
    """Maximum-likelihood estimates. Raises DataError without holds or turn ends."""
    if not holds or not ends:
        raise DataError(
            f"cannot fit a silence law on {len(holds)} holds and {len(ends)} turn ends; give more dialogues"
        )
    return SilenceFit(
        turn_share=len(ends) / (len(ends) + len(holds)),
        hold_s=float(np.mean(holds)) - shortest_s,
        shortest_s=shortest_s,
        holds=len(holds),
        turn_ends=len(ends),
    )


def fit_folder(folder: Path, shortest_s: float) -> SilenceFit:
    """Fit on every stereo recording in ``folder``. Raises DataError or InputError."""
    files = sorted([*folder.glob("*.flac"), *folder.glob("*.wav")])
    if not files:
        raise DataError(f"no recordings (*.flac, *.wav) in '{folder}'")
    holds: list[float] = []
    ends: list[float] = []
    for path in files:
        sides = stretches(read_audio(path, "left"), "left") + stretches(read_audio(path, "right"), "right")
        more_holds, more_ends = silences(sides, shortest_s) if sides else ([], [])
        holds += more_holds
        ends += more_ends
    return fit(holds, ends, shortest_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="fit_silence", description="Fit p_end as a function of silence alone.")
    parser.add_argument("--data", type=Path, required=True, help="folder of stereo recordings, one speaker a channel")
    parser.add_argument("--shortest", type=float, default=0.2, help="shortest silence that counts, seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(arguments)
    try:
        result = fit_folder(options.data, options.shortest)
    except PadsError as exc:
        print(f"FATAL: {exc}", file=sys.stderr)
        return exc.exit_code
    fields = {name: getattr(result, name) for name in SilenceFit.__slots__}
    print(json.dumps(fields) if options.json else "\n".join(f"{k:12} {v:.4g}" for k, v in fields.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
