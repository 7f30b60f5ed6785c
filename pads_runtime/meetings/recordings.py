"""The corpus's audio: ``<folder>/<meeting>/audio/<meeting>.Headset-<n>.wav``, or ``Mix-Headset`` there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import soundfile

from .. import talks, trace
from ..config import PadsSettings
from ..corpora.ami import Person
from ..errors import DataError, InputError
from .figures import row_of
from .party import Party

Progress = Callable[[str], None]
_SUFFIXES = (".wav", ".flac")


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a participant can be heard."""

    path: Path
    mixed: bool
    """Everyone is in it: what others say is taken for the participant's."""


def find(folder: Path, meeting: str, person: Person | None, speaker: str) -> Recording | None:
    """The participant's headset, else the mix if the meeting has no headsets at all; None if there is neither."""
    audio = folder / meeting / "audio"
    channel = person.channel if person is not None else str(ord(speaker) - ord("A"))
    for suffix in _SUFFIXES:
        own = audio / f"{meeting}.Headset-{channel}{suffix}"
        if own.is_file():
            return Recording(own, mixed=False)
    if any(audio.glob(f"{meeting}.Headset-*")):
        return None
    mixes = (audio / f"{meeting}.Mix-Headset{suffix}" for suffix in _SUFFIXES)
    return next((Recording(mix, mixed=True) for mix in mixes if mix.is_file()), None)


def tell_unannotated(folder: Path, meetings: tuple[str, ...], progress: Progress) -> None:
    """Name what has audio and no words. Raises DataError if the folder is not there."""
    if not folder.is_dir():
        raise DataError(f"AMI recordings '{folder}' not found; give the folder that holds <meeting>/audio/")
    for path in sorted(folder.glob("*/audio")):
        if path.parent.name not in meetings:
            progress(f"{path.parent.name}: recorded but not annotated, left out")


def heard(party: Party, recording: Recording, settings: PadsSettings, recognise: bool) -> dict[str, Any]:
    """Replay the recording with every model and score it against the annotation. Leaves a run folder of its own.

    The words are the annotated ones, or with ``recognise`` the recogniser's; who has no annotated words in the recorded
    part is not replayed. Raises PadsError.
    """
    try:
        lasts_s = soundfile.info(str(recording.path)).duration
    except (soundfile.SoundFileError, OSError) as exc:
        raise InputError(f"recording '{recording.path}' cannot be read: {exc}") from None
    party = _until(party, lasts_s)
    if not recognise and not party.words:
        return {**row_of(party, []), "mixed": recording.mixed, "run": None}
    words = settings.run.dir / f"{party.meeting}-{party.speaker}.words.tsv"
    if not recognise:
        _write_words(party, words)
        asr = settings.asr.model_copy(update={"kind": "reference", "reference": words, "reference_only": {}})
        settings = settings.model_copy(update={"asr": asr})
    talk = talks.replay(settings, recording.path, lambda text: None)
    return {**row_of(party, trace.read(talk.folder / "trace.jsonl")), "mixed": recording.mixed, "run": talk.folder.name}


def _until(party: Party, end_s: float) -> Party:
    """What of it lies in a recording of that length."""
    words = tuple(word for word in party.words if word.end_s <= end_s)
    stretches = tuple(stretch for stretch in party.stretches if stretch.end_s <= end_s)
    return replace(party, words=words, stretches=stretches)


def _write_words(party: Party, path: Path) -> None:
    rows = "".join(f"{word.start_s}\t{word.end_s}\t{word.text}\n" for word in party.words)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("start\tend\tword\n" + rows, encoding="utf-8")


def people_of(people: Mapping[str, Mapping[str, Person]], party: Party) -> Person | None:
    """Who a participant is, if the corpus says."""
    return people.get(party.meeting, {}).get(party.speaker)
