"""What recordings a folder holds. Three layouts are known, alone or in subfolders:

- AMI's own: ``words/*.words.xml``, ``corpusResources/meetings.xml``, and in ``amicorpus/<meeting>/audio/`` the files
  ``<meeting>.Headset-N.wav`` (one channel a speaker), else ``<meeting>.Mix-Headset.wav``;
- two-channel recordings: stereo ``*.wav`` or ``*.flac``, one speaker a channel, and optionally ``speakers.tsv`` (file,
  channel, speaker) so that a speaker in two recordings is known;
- clips of one mixed channel with ``clips.tsv`` and ``words.tsv`` (clip, speaker, participant, start, end, kind).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from bench.turn_end.activity import STEP_S, spans
from bench.turn_end.corpora import Talk, mixed_talks, two_channel_talks
from pads_runtime.audio.files import read_audio
from pads_runtime.corpora.ami import AmiCorpus, Element, Person, parse_words
from pads_runtime.errors import DataError
from pads_runtime.frames import SAMPLE_RATE, Samples


@dataclass(frozen=True)
class Recording:
    """A talk with the names of its speakers as the corpus gives them; where it gives none each channel is its own."""

    talk: Talk
    speakers: frozenset[str]


def find_recordings(data: Path) -> list[Recording]:
    """All recordings under ``data``, by name. Raises DataError if there are none or two share a name."""
    if not data.is_dir():
        raise DataError(f"'{data}' is not a folder; give the folder of recordings with --data")
    found = [recording for folder in (data, *sorted(data.iterdir())) if folder.is_dir() for recording in _in(folder)]
    if not found:
        raise DataError(f"no AMI layout, no stereo recordings and no clips.tsv in '{data}' or its subfolders")
    names = [recording.talk.name for recording in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"two recordings in '{data}' are called '{twice[0]}'; rename one")
    return sorted(found, key=lambda recording: recording.talk.name)


def _in(folder: Path) -> list[Recording]:
    if (folder / "words").is_dir() and any((folder / "words").glob("*.words.xml")):
        return ami_meetings(folder)
    if (folder / "clips.tsv").is_file() and (folder / "words.tsv").is_file():
        people = _column(folder / "words.tsv", "clip", "participant")
        return [Recording(talk, frozenset(people[talk.name])) for talk in mixed_talks(folder)]
    files = [*folder.glob("*.flac"), *folder.glob("*.wav")]
    if files and all(soundfile.info(str(path)).channels == 2 for path in files):
        sidecar = folder / "speakers.tsv"
        people = _column(sidecar, "file", "speaker") if sidecar.is_file() else {}
        talks = two_channel_talks(folder)
        own = {talk.name: {f"{talk.name}/{channel}" for channel in talk.channels} for talk in talks}
        return [Recording(talk, frozenset(people.get(talk.name, own[talk.name]))) for talk in talks]
    return []


def ami_meetings(folder: Path) -> list[Recording]:
    """Meetings of AMI's own layout that have audio; those without are passed over."""
    corpus = AmiCorpus(folder)
    people = corpus.people()
    found = []
    for name in corpus.meetings:
        known = people.get(name, {})
        speakers = {speaker: _timed(elements) for speaker, elements in corpus.meeting(name).elements.items()}
        heard, mixed = _ami_audio(folder, name, list(speakers), known)
        if heard:
            talk = _ami_talk(name, {speaker: speakers[speaker] for speaker in heard}, heard, mixed)
            persons = frozenset(known[n].name if n in known else f"{name}/{n}" for n in heard)
            found.append(Recording(talk, persons))
    return found


def ami_words(path: Path) -> list[tuple[float, float]]:
    """Start and end of each timed word of one speaker, in seconds; punctuation and untimed words are left out."""
    return _timed(parse_words(path.read_bytes(), path.name))


def _timed(elements: Sequence[Element]) -> list[tuple[float, float]]:
    return [
        (e.start_s, e.end_s)
        for e in elements
        if e.kind in ("w", "trunc") and e.start_s is not None and e.end_s is not None and e.end_s > e.start_s
    ]


def _ami_audio(
    folder: Path, meeting: str, speakers: list[str], people: Mapping[str, Person]
) -> tuple[dict[str, Samples], bool]:
    audio = folder / "amicorpus" / meeting / "audio"
    heard = {}
    for place, speaker in enumerate(speakers):
        channel = people[speaker].channel if speaker in people else str(place)
        path = audio / f"{meeting}.Headset-{channel}.wav"
        if path.is_file():
            heard[speaker] = read_audio(path)
    if heard:
        return heard, False
    mix = audio / f"{meeting}.Mix-Headset.wav"
    return (dict.fromkeys(speakers, read_audio(mix)), True) if mix.is_file() else ({}, True)


def _ami_talk(
    meeting: str, words: dict[str, list[tuple[float, float]]], heard: dict[str, Samples], mixed: bool
) -> Talk:
    names = tuple(sorted(heard))
    shortest = min(len(samples) for samples in heard.values())
    active = np.zeros((len(names), round(shortest / SAMPLE_RATE / STEP_S)), dtype=bool)
    for row, name in enumerate(names):
        for start_s, end_s in words[name]:
            active[row, round(start_s / STEP_S) : round(end_s / STEP_S)] = True
    samples = {name: heard[name][:shortest] for name in names}
    return Talk(meeting, "ami", names, samples, active, tuple(spans(meeting, active, names)), mixed)


def _column(path: Path, key: str, value: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if not row.get(key) or not row.get(value):
                raise DataError(f"'{path}' lacks the columns {key} and {value}")
            found.setdefault(Path(row[key]).stem if key == "file" else row[key], set()).add(row[value])
    return found
