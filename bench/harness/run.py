"""One benchmark from start to record: what it found, under which conditions, and the five figures every record has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pads_runtime.config import PadsSettings
from pads_runtime.process import peak_rss_mb
from pads_runtime.runs import RunRecord, command_line, is_target

from ..report import Measurement, Report, report
from .child import ChildFailed
from .conditions import Conditions, Watch
from .energy import EnergyMeter
from .essentials import Essentials, essentials_of

Say = Callable[[str], None]
DESCRIPTIVE, TARGET, DEV_HOST = "DESCRIPTIVE", "MEASURED target", "MEASURED dev-host"


@dataclass(frozen=True)
class Finish:
    """What a record says of how its figures were made."""

    tag: str
    breaches: tuple[str, ...]
    conditions: Conditions
    essentials: Essentials

    def as_json(self) -> dict[str, Any]:
        """The line ``protocol`` of a record."""
        return {
            "tag": self.tag,
            "breaches": list(self.breaches),
            "conditions": self.conditions.as_json(),
            "essentials": self.essentials.as_json(),
        }


class Harness:
    """Made when a benchmark begins, asked when it has ended."""

    def __init__(self) -> None:
        self._watch, self._meter = Watch(), EnergyMeter()

    def finish(
        self, rows: Sequence[Measurement] = (), named: Mapping[str, str] | None = None, timed: bool = True
    ) -> Finish:
        """``named`` says which rows the essentials are, where they are called otherwise; see ``essentials_of``.

        What was counted and not ``timed`` is the same on a busy machine: its conditions are noted and break nothing.
        """
        conditions = self._watch.conditions()
        breaches = conditions.breaches() if timed else ()
        essentials = essentials_of(rows, peak_rss_mb(), self._meter.spent(), named)
        return Finish(tag_for(is_target(), breaches), breaches, conditions, essentials)

    def close(
        self, record: RunRecord, done: dict[str, Any], rows: Sequence[Measurement] = (), timed: bool = True
    ) -> None:
        """For a benchmark with a report of its own: the protocol goes into the record, it and the tag into ``done``."""
        finish = self.finish(rows, timed=timed)
        done |= {"tag": finish.tag, "protocol": finish.as_json()}
        record.metrics(protocol=finish.as_json())


def tag_for(target: bool, breaches: Sequence[str]) -> str:
    """Only the target's own figures are the target's, and only those of a clean run are measurements."""
    if breaches:
        return DESCRIPTIVE
    return TARGET if target else DEV_HOST


def recorded(
    name: str,
    settings: PadsSettings,
    models: Mapping[str, str],
    measure: Callable[[], Sequence[Measurement]],
    named: Mapping[str, str] | None = None,
    detail: dict[str, Any] | None = None,
) -> tuple[Report, Path]:
    """Run ``measure`` inside a run record. What a failed child had said goes into the record's log.

    ``detail`` is what ``measure`` finds beside rows: it fills the dictionary, which goes into record and report.
    """
    with RunRecord.begin(f"bench-{name}", f"benchmark: {name}", settings, models, command_line()) as record:
        harness = Harness()
        try:
            rows = measure()
        except ChildFailed as exc:
            for line in exc.output.splitlines():
                record.log(line)
            raise
        finish = harness.finish(rows, named)
        done = report(name, rows, ["python", "-m", "bench", *sys.argv[1:]], finish.tag, finish.as_json(), detail)
        for row in done.as_json()["measurements"]:
            record.metrics(**row)
        if detail:
            record.metrics(detail=detail)
        record.metrics(protocol=finish.as_json())
    return done, record.path


def tell(finish: Mapping[str, Any], say: Say) -> None:
    """Say on stderr what broke the protocol."""
    for breach in finish["breaches"]:
        say(f"descriptive only: {breach}")
