"""Recorded talks with the silences that are scored. Nothing is downloaded; an absent corpus is an error by name."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pads_runtime.audio.files import read_audio
from pads_runtime.errors import DataError
from pads_runtime.frames import SAMPLE_RATE, Samples

from .activity import STEP_S, Activity, Span, activity, spans

_NEAR_WORD_S = 0.1


@dataclass(frozen=True, slots=True)
class Talk:
    """One recording: what each party's microphone heard, at SAMPLE_RATE, and who spoke when (10 ms steps).

    ``channels`` names the rows of ``active``. Parties of a mixed recording share the same samples and have no
    separable other side, which ``mixed`` says.
    """

    name: str
    corpus: str
    channels: tuple[str, ...]
    samples: Mapping[str, Samples]
    active: Activity
    spans: tuple[Span, ...]
    mixed: bool

    def other(self, channel: str) -> Samples:
        """What all others said together; silence where they cannot be told apart."""
        if self.mixed:
            return np.zeros_like(self.samples[channel])
        others = [self.samples[name] for name in self.channels if name != channel]
        if len(others) == 1:
            return others[0]
        return np.clip(np.sum(others, axis=0, dtype=np.int32), -32768, 32767).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Phrase:
    """One synthesised question; ``early_s`` is where its short form would have ended (None in the short form)."""

    name: str
    voice: str
    samples: Samples
    end_s: float
    early_s: float | None


def two_channel_talks(folder: Path) -> list[Talk]:
    """Stereo recordings, one speaker a channel, called A and B. Raises DataError if there are none."""
    files = sorted([*folder.glob("*.flac"), *folder.glob("*.wav")])
    if not files:
        raise DataError(f"no recordings (*.flac, *.wav) in '{folder}'; give the folder of the corpora with --data")
    return [_two_channel(path) for path in files]


def mixed_talks(folder: Path) -> list[Talk]:
    """Clips of one mixed channel with word times per speaker (clip, speaker, start, end, kind in words.tsv)."""
    words: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in _rows(folder / "words.tsv"):
        if row["kind"] == "w":
            of_speaker = words.setdefault(row["clip"], {}).setdefault(row["speaker"], [])
            of_speaker.append((float(row["start"]), float(row["end"])))
    talks = [_mixed(folder / f"{clip}.flac", speakers) for clip, speakers in sorted(words.items())]
    return [talk for talk in talks if talk.spans]


def phrases(folder: Path) -> list[Phrase]:
    """Questions in a short and a long form that runs on past the short one's end; word times from phrases.tsv."""
    rows = list(_rows(folder / "phrases.tsv"))
    short_words = {row["phrase"]: len(ast.literal_eval(row["words"])) for row in rows if row["size"] == "short"}
    found = []
    for row in rows:
        ends = [float(end) for end in ast.literal_eval(row["word_ends_s"])]
        early = ends[short_words[row["phrase"]] - 1] if row["size"] == "long" else None
        audio = read_audio(folder / "audio" / row["file"])
        found.append(Phrase(row["file"].removesuffix(".flac"), row["voice"], audio, ends[-1], early))
    return found


def _two_channel(path: Path) -> Talk:
    names = ("A", "B")
    heard = {"A": read_audio(path, "left"), "B": read_audio(path, "right")}
    active = activity([heard[name] for name in names])
    return Talk(path.stem, "two_channel", names, heard, active, tuple(spans(path.stem, active, names)), False)


def _mixed(path: Path, speakers: Mapping[str, list[tuple[float, float]]]) -> Talk:
    audio = read_audio(path)
    loud = activity([audio])[0]
    names = tuple(sorted(speakers))
    active = np.stack([loud & _near(speakers[name], len(loud)) for name in names])
    found = tuple(spans(path.stem, active, names))
    return Talk(path.stem, "mixed", names, dict.fromkeys(names, audio), active, found, True)


def _near(intervals: Iterable[tuple[float, float]], steps: int) -> Activity:
    """Steps within 100 ms of an interval."""
    mask = np.zeros(steps, dtype=bool)
    for start_s, end_s in intervals:
        left, right = round((start_s - _NEAR_WORD_S) / STEP_S), round((end_s + _NEAR_WORD_S) / STEP_S)
        mask[max(0, left) : max(0, right)] = True
    return mask


def _rows(path: Path) -> Iterable[dict[str, str]]:
    if not path.is_file():
        raise DataError(f"'{path}' not found; give the folder of the corpora with --data")
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t")


def seconds(samples: Samples) -> float:
    """Length of a recording."""
    return len(samples) / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Ask:
    """One moment at which a predictor is asked: ``span`` is the silence's index in ``Talk.spans``, None in speech."""

    t_s: float
    silence_s: float | None
    span: int | None


def asks(talk: Talk, channel: str, in_speech: bool, pause_s: float = 1.0, every_s: float = 0.1) -> list[Ask]:
    """Every ``every_s`` of the first ``pause_s`` of each of the channel's silences, and of its speech if wanted.

    A turn end is followed until this channel speaks again, whoever else does meanwhile.
    """
    found = []
    for index, span in enumerate(talk.spans):
        if span.channel == channel:
            length_s = min(pause_s, (span.resume_s if span.shift else span.end_s) - span.start_s)
            for step in range(1, int(length_s / every_s + 1e-6) + 1):
                found.append(Ask(round(span.start_s + step * every_s, 2), round(step * every_s, 2), index))
    if in_speech:
        active = talk.active[talk.channels.index(channel)]
        stride = round(every_s / STEP_S)
        found += [Ask(step * STEP_S, None, None) for step in range(stride, len(active), stride) if active[step - 1]]
    return sorted(found, key=lambda ask: ask.t_s)


def heard(talk: Talk, channel: str, ask: Ask) -> tuple[Samples, Samples]:
    """Both channels up to the moment of asking, the other one without what it said after this channel fell silent.

    In a call with the runtime the agent waits for the decision; that a person answered would give it away.
    """
    end = round(ask.t_s * SAMPLE_RATE)
    user, agent = talk.samples[channel][:end], talk.other(channel)[:end].copy()
    if ask.silence_s:
        agent[max(0, end - round(ask.silence_s * SAMPLE_RATE)) :] = 0
    return user, agent
