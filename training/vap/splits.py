"""Who is held out, and the proof that nothing of it is trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pads_runtime.errors import DataError

from .readers import Recording


def groups(recordings: Sequence[Recording]) -> list[list[str]]:
    """Names of recordings that share a speaker, directly or through others: they are held out together."""
    clusters: list[tuple[set[str], list[str]]] = []
    for recording in recordings:
        people, names = set(recording.speakers), [recording.talk.name]
        apart = []
        for cluster in clusters:
            if cluster[0] & people:
                people |= cluster[0]
                names = cluster[1] + names
            else:
                apart.append(cluster)
        clusters = [*apart, (people, names)]
    return sorted(sorted(names) for _, names in clusters)


def check_no_leak(train: Sequence[Recording], held_out: Sequence[Recording]) -> None:
    """Raises DataError if a name, a speaker or a channel's very samples are on both sides."""
    names = {recording.talk.name for recording in held_out}
    speakers = {speaker: r.talk.name for r in held_out for speaker in r.speakers}
    sounds = {digest: r.talk.name for r in held_out for digest in _sounds(r)}
    for recording in train:
        name = recording.talk.name
        if name in names:
            raise DataError(f"leak: '{name}' is held out and trained on")
        for speaker in sorted(recording.speakers & speakers.keys()):
            raise DataError(f"leak: speaker '{speaker}' of held-out '{speakers[speaker]}' also speaks in '{name}'")
        for digest in _sounds(recording):
            if digest in sounds:
                raise DataError(f"leak: '{name}' holds the same audio as held-out '{sounds[digest]}'")


def _sounds(recording: Recording) -> set[str]:
    return {hashlib.sha256(samples.tobytes()).hexdigest() for samples in recording.talk.samples.values()}
