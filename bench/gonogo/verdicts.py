"""The decisions. Pure: figures in, verdict out; what a kill signal is stands beside each and not in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from statistics import fmean
from typing import Any

SPEAKING_TOKENS_S = 5.0
"""A voice says about 150 words a minute, 3.3 tokens a second; below this it would wait for the model."""
PLATEAU = 0.95
MEMORY_BOUND = 0.6
IMPOSSIBLE = 1.2
FITTING_SHARE = 0.5
SLOWED = 0.85
CRITICAL_C = 95.0
HOT_C = 85.0


class Answer(Enum):
    """What a test says."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_MEASURED = "NOT MEASURED"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One test's answer, why, and what would have been a NO-GO."""

    test: str
    answer: Answer
    reasons: tuple[str, ...]
    kill_signal: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"answer": self.answer.value, "reasons": list(self.reasons)}


def not_measured(test: str, why: str) -> Verdict:
    """A test that could not be made."""
    return Verdict(test, Answer.NOT_MEASURED, (why,), KILL_SIGNALS[test])


KILL_SIGNALS = {
    "bandwidth": f"no number of threads decodes {SPEAKING_TOKENS_S:g} tokens/s, faster than they are spoken",
    "pauses": f"a deep step of the model fits into less than {FITTING_SHARE:.0%} of the pauses of a corpus of words",
    "acceptance": "no exit and draft length is expected to be faster than plain decoding at the measured acceptance",
    "thermal": f"over the soak frequency or rate falls below {SLOWED:.0%} of its beginning while the sensor shows "
    f"{HOT_C:g} C or more, or it shows {CRITICAL_C:g} C",
    "memory": "the peak of a whole talk is above the machine's budget",
}


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Decoding rate by number of threads, the bytes a token reads, and what memory gives, GB/s (10^9)."""

    tokens_s: Mapping[int, float]
    bytes_a_token: float
    memory_gb_s: float

    @property
    def best(self) -> float:
        return max(self.tokens_s.values())

    @property
    def plateau(self) -> int:
        """The fewest threads that come within 5 % of the best rate."""
        return min(n for n, rate in self.tokens_s.items() if rate >= PLATEAU * self.best)

    @property
    def achieved_gb_s(self) -> float:
        """What decoding reads a second at its best."""
        return self.best * self.bytes_a_token / 1e9


def bandwidth(found: Bandwidth) -> Verdict:
    """See KILL_SIGNALS. A rate that memory cannot give is no measurement."""
    if not found.tokens_s or not math.isfinite(found.memory_gb_s) or found.memory_gb_s <= 0:
        return not_measured("bandwidth", "no rate or no bandwidth was found")
    share = found.achieved_gb_s / found.memory_gb_s
    figures = {
        "tokens_s": {str(n): round(rate, 2) for n, rate in found.tokens_s.items()},
        "plateau_threads": found.plateau,
        "achieved_gb_s": round(found.achieved_gb_s, 2),
        "memory_gb_s": round(found.memory_gb_s, 2),
        "share": round(share, 3),
    }
    reasons = [f"{found.best:.1f} tokens/s at best, within 5 % of it from {found.plateau} threads on"]
    reasons.append(f"{found.achieved_gb_s:.1f} of {found.memory_gb_s:.1f} GB/s of memory ({share:.0%})")
    if found.plateau == max(found.tokens_s) > 1:
        reasons.append("no plateau: the rate still rises at the last thread")
    if share > IMPOSSIBLE:
        reasons.append("more than memory gives: the bandwidth was measured on a busy machine, or the cache holds much")
        answer = Answer.NO_GO if found.best < SPEAKING_TOKENS_S else Answer.NOT_MEASURED
        return Verdict("bandwidth", answer, tuple(reasons), KILL_SIGNALS["bandwidth"], figures)
    bound = "memory-bound: rows of a batch are cheap" if share >= MEMORY_BOUND else "compute-bound: drafts pay little"
    answer = Answer.GO if found.best >= SPEAKING_TOKENS_S else Answer.NO_GO
    return Verdict("bandwidth", answer, (*reasons, bound), KILL_SIGNALS["bandwidth"], figures)


def pauses(fits: Sequence[Mapping[str, Any]], model: str) -> Verdict:
    """``fits`` as ``bench.pause_bench.shares`` gives them; decided on ``model``, the others are told beside it."""
    rows = [row for row in fits if row["rule"] == "words_only"]
    own = [row for row in rows if row["model"] == model]
    if not own:
        return not_measured("pauses", f"no pauses or no deep step of {model}")
    reasons = []
    for name in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == name]
        worst = min(mine, key=lambda row: float(row["share_of_pauses"]))
        fit = "fits" if float(worst["share_of_pauses"]) >= FITTING_SHARE else "DOES NOT FIT"
        shares = ", ".join(f"{row['corpus']} {float(row['share_of_pauses']):.3f}" for row in mine)
        tag = f" [{worst['tag']}]" if worst["tag"] else ""
        reasons.append(f"{name}: a step of {worst['step_ms']:.4g} ms {fit}: {shares} of the pauses{tag}")
    fine = all(float(row["share_of_pauses"]) >= FITTING_SHARE for row in own)
    answer = Answer.GO if fine else Answer.NO_GO
    return Verdict("pauses", answer, tuple(reasons), KILL_SIGNALS["pauses"], {"fits": list(rows)})


def acceptance(speed_ups: Mapping[str, float], run: str) -> Verdict:
    """``speed_ups``: expected tokens/s over plain decoding by exit and draft length, from ``run``'s acceptance."""
    if not speed_ups:
        return not_measured("acceptance", "no acceptance was measured; run: ./scripts/bench acceptance")
    name, best = max(speed_ups.items(), key=lambda item: item[1])
    answer = Answer.GO if best >= 1.0 else Answer.NO_GO
    reason = f"at best {best:.2f} of plain decoding, with {name}; acceptance of run {run}"
    figures = {"best": round(best, 4), "with": name, "run": run}
    return Verdict("acceptance", answer, (reason,), KILL_SIGNALS["acceptance"], figures)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look during a soak; None is what this machine does not show."""

    t_s: float
    celsius: float | None
    mhz: float | None
    tokens_s: float


def thermal(samples: Sequence[Sample]) -> Verdict:
    """See KILL_SIGNALS. The first and last quarter of the soak are compared."""
    if len(samples) < 4:
        return not_measured("thermal", "the soak was too short")
    quarter = max(len(samples) // 4, 1)
    first, last = samples[:quarter], samples[-quarter:]
    rate = fmean(s.tokens_s for s in last) / max(fmean(s.tokens_s for s in first), 1e-9)
    mhz = _ratio(first, last)
    clock = "no frequency shown" if mhz is None else f"frequency at {mhz:.0%} of its beginning"
    hottest = max((s.celsius for s in samples if s.celsius is not None), default=None)
    reasons: tuple[str, ...] = (f"rate at {rate:.0%} of its beginning, {clock}",)
    figures = {"rate": round(rate, 3), "frequency": mhz and round(mhz, 3), "hottest_c": hottest}
    if hottest is None:
        reasons = ("no temperature sensor: heat cannot be told from other programs' load", *reasons)
        return Verdict("thermal", Answer.NOT_MEASURED, reasons, KILL_SIGNALS["thermal"], figures)
    slowed = rate < SLOWED or (mhz is not None and mhz < SLOWED)
    throttled = hottest >= CRITICAL_C or (slowed and hottest >= HOT_C)
    reasons = (f"{hottest:.0f} C at most", *reasons, *(("throttled",) if throttled else ()))
    answer = Answer.NO_GO if throttled else Answer.GO
    return Verdict("thermal", answer, reasons, KILL_SIGNALS["thermal"], figures)


def memory(peak_mb: float, budget_mb: float) -> Verdict:
    """See KILL_SIGNALS."""
    if not math.isfinite(peak_mb) or peak_mb <= 0:
        return not_measured("memory", "the talk left no peak")
    answer = Answer.GO if peak_mb <= budget_mb else Answer.NO_GO
    reason = f"{peak_mb:.0f} MB at the peak of a whole talk, {budget_mb:.0f} MB are there for it"
    figures = {"peak_mb": peak_mb, "budget_mb": round(budget_mb, 1)}
    return Verdict("memory", answer, (reason,), KILL_SIGNALS["memory"], figures)


def overall(verdicts: Sequence[Verdict]) -> Answer:
    """NO-GO if any test says so, GO only if all do."""
    answers = {verdict.answer for verdict in verdicts}
    if Answer.NO_GO in answers:
        return Answer.NO_GO
    return Answer.GO if answers == {Answer.GO} else Answer.NOT_MEASURED


def _ratio(first: Sequence[Sample], last: Sequence[Sample]) -> float | None:
    began, ended = ([s.mhz for s in part if s.mhz is not None] for part in (first, last))
    return fmean(ended) / fmean(began) if began and ended and fmean(began) > 0 else None
