"""Many participants, one after the other or over cores and machines; what is done is kept, so a killed sweep goes on.

The engine is dask's: a local cluster of processes, or a scheduler elsewhere whose workers have PADS and its classifier
installed. Only the annotations of one participant travel to a worker, and one row of figures back.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import assemble
from ..config import PadsSettings, load_costs
from ..corpora.ami import MISTIMED, AmiCorpus
from ..errors import ConfigError, DataError, InputError, SetupError
from ..models import Registry
from .figures import row_of
from .party import Party, party_of
from .recordings import Recording, find, heard, people_of, tell_unannotated
from .rehearsal import Rehearsal

ROWS = "participants.jsonl"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """What is asked for: which participants, and who computes."""

    corpus: Path
    meetings: tuple[str, ...] = ()
    """None given: all."""
    participant: str | None = None
    """A speaker's letter; None: each in turn."""
    workers: int = 1
    scheduler: str | None = None
    """Address of a dask scheduler; None: on this machine."""
    audio: Path | None = None
    """Folder of ``<meeting>/audio/``; None: the annotations alone are replayed."""
    recognise: bool = False
    """With audio: read the words by the recogniser instead of taking the annotated ones."""


@dataclass(frozen=True)
class Job:
    """One participant to be replayed."""

    party: Party
    recording: Recording | None = None
    recognise: bool = False


def check(sweep: Sweep, settings: PadsSettings) -> None:
    """Without audio only the length of a silence can be heard. Raises ConfigError."""
    if sweep.audio is None and settings.turn.predictor != "silence":
        raise ConfigError(
            f"turn.predictor = {settings.turn.predictor} listens to sound, and annotations have none: "
            "use --set turn.predictor=silence, or give the recordings with --audio"
        )


def jobs(sweep: Sweep, settings: PadsSettings, progress: Progress) -> list[Job]:
    """The participants asked for, in order. Meetings that the corpus calls mistimed are told of, and used.

    With audio, participants that cannot be heard are told of and left out. Raises DataError for a corpus, meeting or
    participant that is not there.
    """
    corpus = AmiCorpus(sweep.corpus)
    everyone = parties(corpus, sweep, settings, progress)
    if sweep.audio is None:
        return [Job(party) for party in everyone]
    tell_unannotated(sweep.audio, corpus.meetings, progress)
    people, found = corpus.people(), []
    for party in everyone:
        recording = find(sweep.audio, party.meeting, people_of(people, party), party.speaker)
        if recording is not None:
            found.append(Job(party, recording, sweep.recognise))
        elif sweep.meetings or (sweep.audio / party.meeting).is_dir():
            progress(f"{party.meeting} {party.speaker}: annotated but not recorded in '{sweep.audio}', left out")
    if not found:
        raise DataError(f"none of the participants asked for is recorded in '{sweep.audio}'")
    return found


def parties(corpus: AmiCorpus, sweep: Sweep, settings: PadsSettings, progress: Progress) -> Iterator[Party]:
    """The participants asked for, in order."""
    unknown = [name for name in sweep.meetings if name not in corpus.meetings]
    if unknown:
        raise DataError(f"meeting '{unknown[0]}' has no words in '{sweep.corpus}'")
    found = False
    for name in sweep.meetings or corpus.meetings:
        meeting = corpus.meeting(name)
        if name in MISTIMED:
            progress(f"{name}: the corpus itself calls its word times incomplete or wrong")
        for speaker in sorted(meeting.elements):
            if sweep.participant in (None, speaker):
                found = True
                yield party_of(meeting, speaker, settings.vad.pause_s)
    if not found:
        raise DataError(f"participant '{sweep.participant}' has no words in the meetings asked for")


def question(sweep: Sweep, settings: PadsSettings, model_hashes: dict[str, str]) -> str:
    """Names what a row is an answer to: settings, costs and models, and whether it is about annotations or audio."""
    asked = settings.model_dump(mode="json", exclude={"run": True, "demo": True})
    costs = load_costs(settings.clock.costs).model_dump(mode="json")
    heard_by = [sweep.audio is not None, sweep.recognise]
    models = model_hashes if sweep.audio is not None else model_hashes.get(settings.acts.model)
    text = json.dumps([asked, costs, models, heard_by], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(sweep: Sweep, settings: PadsSettings, folder: Path, asked: str, progress: Progress) -> list[dict[str, Any]]:
    """The rows of all participants, in order of meeting and letter, also left in ``folder``.

    Rows that ``folder`` holds already for the same question are not computed again.
    """
    path = folder / ROWS
    rows = {(row["meeting"], row["speaker"]): row for row in kept(path, asked)}
    if rows:
        progress(f"{len(rows)} participants were done before")
    _rewrite(path, asked, rows.values())  # without a line that was cut off
    wanted = jobs(sweep, settings, progress)
    everyone = [(job.party.meeting, job.party.speaker) for job in wanted]
    left = [job for job, name in zip(wanted, everyone, strict=True) if name not in rows]
    with path.open("a", encoding="utf-8", buffering=1) as file, _computed(sweep, left, settings) as done:
        for row in done:
            file.write(_line(asked, row))
            rows[row["meeting"], row["speaker"]] = row
            progress(f"{len(rows)} of {len(everyone)}: {row['meeting']} {row['speaker']}")
    ordered = [rows[name] for name in everyone]
    _rewrite(path, asked, ordered)
    return ordered


def replay(job: Job, settings: PadsSettings) -> dict[str, Any]:
    """One participant's row: what a worker does."""
    if job.recording is not None:
        return heard(job.party, job.recording, settings, job.recognise)
    costs = load_costs(settings.clock.costs)
    rehearsal = Rehearsal(job.party, settings, costs, _classifier(settings.acts.model).p_deep)
    return row_of(job.party, rehearsal.events())


@lru_cache(maxsize=1)
def _classifier(model: str) -> Any:
    from ..config import ActSettings

    return assemble.acts(ActSettings(model=model), Registry.load())


@contextmanager
def _computed(sweep: Sweep, left: Sequence[Job], settings: PadsSettings) -> Iterator[Iterable[dict[str, Any]]]:
    """Rows as they come."""
    if sweep.scheduler is None and sweep.workers == 1:
        yield (replay(job, settings) for job in left)
        return
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise SetupError("several workers need dask; run: .venv/bin/pip install dask distributed") from None
    if sweep.scheduler is None:
        # No dashboard: nothing listens beside the cluster's own ports on this machine.
        cluster = LocalCluster(
            n_workers=sweep.workers,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster)
    else:
        cluster = None
        try:
            client = Client(sweep.scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as exc:
            raise InputError(f"dask scheduler '{sweep.scheduler}' cannot be reached: {_short(exc)}") from None
    try:
        futures = client.map(replay, left, settings=settings, pure=False)
        yield (future.result() for future in as_completed(futures))
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def _short(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200] or type(exc).__name__


def kept(path: Path, asked: str) -> list[dict[str, Any]]:
    """Rows of an earlier sweep for the same question. A line that was cut off is left out.

    Raises InputError if the rows answer another question.
    """
    try:
        *whole, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise InputError(f"'{path}' cannot be read: {exc.strerror}") from None
    rows = []
    for number, line in enumerate(whole, 1):
        try:
            row = json.loads(line)
            other = row.pop("question") != asked
        except (ValueError, KeyError, AttributeError):
            raise InputError(f"'{path}' line {number} is no row of a sweep") from None
        if other:
            raise InputError(f"'{path}' was made with other settings, costs or classifier; begin a new run")
        rows.append(row)
    return rows


def _rewrite(path: Path, asked: str, rows: Iterable[dict[str, Any]]) -> None:
    beside = path.with_suffix(".part")
    beside.write_text("".join(_line(asked, row) for row in rows), encoding="utf-8")
    beside.replace(path)


def _line(asked: str, row: dict[str, Any]) -> str:
    return json.dumps({"question": asked, **row}, ensure_ascii=False) + "\n"
