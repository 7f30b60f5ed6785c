"""What each kind of pass costs on one machine with one model, and what follows for drafting. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LADDER = (0.20, 0.33, 0.50, 0.67, 0.83)
"""Where to try exits, as parts of the depth: layers 6, 10, 15, 20 and 25 of 30."""


def exit_ladder(n_layer: int) -> tuple[int, ...]:
    """The exits worth a try in a model of ``n_layer`` layers: rising, each in 1 .. n_layer - 1, none twice."""
    return tuple(sorted({min(max(round(part * n_layer), 1), n_layer - 1) for part in LADDER})) if n_layer > 1 else ()


def expected_tokens(acceptance: float, draft_len: int) -> float:
    """Tokens a round serves if each draft is right with probability ``acceptance``, until the first that is not.

    1 + a + a^2 + ... + a^draft_len: the accepted drafts and the deep model's own token (arXiv 2211.17192, eq. 1).
    """
    return sum(acceptance**i for i in range(draft_len + 1))


@dataclass(frozen=True, slots=True)
class ExitCosts:
    """ms of the passes of one exit."""

    draft: float
    """One token up to the exit, scored by the short draft head with a translator."""
    draft_whole: float
    """The same, scored by the whole output matrix."""
    carry: float
    """One token up to the exit, without scores: the last of a round."""
    deep: Mapping[int, float]
    """From the exit to the end, with scores for every row: by number of rows."""


@dataclass(frozen=True, slots=True)
class DepthCosts:
    """ms of all passes that decoding is made of."""

    full: Mapping[int, float]
    """All layers: by number of rows."""
    exits: Mapping[int, ExitCosts]

    @property
    def plain_ms(self) -> float:
        """One token, all layers."""
        return self.full[1]

    @property
    def max_draft(self) -> int:
        """Most drafts whose verification was measured."""
        return max((max(costs.deep) for costs in self.exits.values()), default=1) - 1

    def round_ms(self, exit_layer: int, drafted: int, draft_head: bool) -> float:
        """One round: ``drafted`` tokens drafted, the last carried to the exit, all and the one before verified."""
        costs = self.exits[exit_layer]
        step = costs.draft if draft_head else costs.draft_whole
        return drafted * step + costs.carry + rows_ms(costs.deep, drafted + 1)

    def speed_up(self, exit_layer: int, draft_len: int, acceptance: float, draft_head: bool) -> float:
        """Tokens per ms of such rounds over tokens per ms of plain decoding."""
        tokens = expected_tokens(acceptance, draft_len)
        return tokens * self.plain_ms / self.round_ms(exit_layer, draft_len, draft_head)

    def as_json(self) -> dict[str, Any]:
        """Plain data; JSON's keys are texts."""
        return {
            "full": {str(rows): ms for rows, ms in self.full.items()},
            "exits": {
                str(layer): {
                    "draft": costs.draft,
                    "draft_whole": costs.draft_whole,
                    "carry": costs.carry,
                    "deep": {str(rows): ms for rows, ms in costs.deep.items()},
                }
                for layer, costs in self.exits.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DepthCosts:
        """Back from ``as_json``. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        exits = {
            int(layer): ExitCosts(
                _ms(costs["draft"]), _ms(costs["draft_whole"]), _ms(costs["carry"]), _rows(costs["deep"])
            )
            for layer, costs in data["exits"].items()
        }
        return cls(_rows(data["full"]), exits)


def rows_ms(measured: Mapping[int, float], rows: int) -> float:
    """ms of a pass of ``rows`` rows: as measured, else on the line between its neighbours or beyond the last two."""
    if rows in measured:
        return measured[rows]
    known = sorted(measured)
    if len(known) == 1:
        return measured[known[0]] * rows / known[0]
    high = next((i for i, n in enumerate(known) if n > rows), len(known) - 1)
    a, b = known[max(high - 1, 0)], known[max(high, 1)]
    return measured[a] + (measured[b] - measured[a]) * (rows - a) / (b - a)


def _rows(data: Mapping[str, Any]) -> dict[int, float]:
    rows = {int(n): _ms(ms) for n, ms in data.items()}
    if 1 not in rows or min(rows) < 1:
        raise ValueError("no cost of one row")
    return rows


def _ms(value: Any) -> float:
    ms = float(value)
    if not 0.0 < ms < 1e7:
        raise ValueError(f"{value} is no time in ms")
    return ms
