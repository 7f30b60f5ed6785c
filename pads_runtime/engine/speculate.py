"""Drafting at an exit and verifying at full depth: the hot loop of the engine (LayerSkip, arXiv 2404.16710)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..frames import WorkCounts
from .cache import TokenCache
from .depth import DepthPlan
from .policies import ExitPolicy, ExitView
from .rules import Rule


@dataclass(frozen=True, slots=True)
class Round:
    """What one round serves: tokens in order, the work it took, and whether any of them was not verified."""

    tokens: tuple[int, ...]
    counts: WorkCounts
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class Sureness:
    """When a token may leave at the exit."""

    policy: ExitPolicy
    p_deep: float
    """P(question or directive) of the user's turn, for policies that ask."""
    room: int
    """How many tokens may still go unverified."""


def plain_round(cache: TokenCache, last: int, rule: Rule, position: int) -> Round:
    """One token by one pass through all layers. ``last`` is not in the cache yet; ``position`` is the new token's."""
    cache.extend((last,), logits=True)
    return Round((rule.serve(cache.logits(), position, None),), WorkCounts(decode_steps=1))


def draft_round(
    cache: TokenCache, last: int, plan: DepthPlan, rule: Rule, position: int, ends: Callable[[int], bool]
) -> Round:
    """Draft up to ``plan.draft_len`` tokens at the exit, verify them in one deep pass, and serve what it confirms.

    Serves the drafts up to the first that the deep model would not say, then the deep model's own token: at least one
    token, at most draft_len + 1. Everything before ``last`` is in the cache at full depth, and so it is afterwards,
    with what was served but for its last token. Nothing follows a token that ``ends`` the reply.
    """
    assert plan.exit_layer is not None
    base = len(cache)
    drafts: list[int] = []
    token, open_end = last, True
    while open_end and len(drafts) < plan.draft_len:
        cache.extend_shallow((token,), plan.exit_layer, logits=True)
        token = rule.draft(cache.draft_logits(), position + len(drafts))
        drafts.append(token)
        open_end = not ends(token)
    if open_end:  # the last draft is run too, so that the deep pass says what comes after it
        cache.extend_shallow((token,), plan.exit_layer, logits=False)
    rows = cache.pending
    cache.deepen(logits=True)
    served: list[int] = []
    accepted = 0
    for row in range(rows):
        draft = drafts[row] if row < len(drafts) else None
        served.append(rule.serve(cache.logits(row), position + row, draft))
        if served[-1] != draft:
            break
        accepted += 1
    cache.trim(base + len(served))
    counts = WorkCounts(
        decode_steps=1, shallow_steps=rows, drafted=len(drafts), accepted=accepted, deep_steps=1, verified_rows=rows
    )
    return Round(tuple(served), counts)


def confident_round(cache: TokenCache, last: int, exit_layer: int, rule: Rule, position: int, sure: Sureness) -> Round:
    """One token: the exit's if it is sure of it, else the deep model's. Approximate: a sure exit may be wrong.

    Up to ``sure.room`` more tokens may stay pending before a deep pass takes them all at once. Which token comes out
    depends on the tokens before it and on ``sure`` alone, not on what is pending.
    """
    cache.extend_shallow((last,), exit_layer, logits=True)
    scores = cache.draft_logits()
    if sure.room > 0 and sure.policy(ExitView.of(scores, sure.p_deep)):
        return Round((rule.draft(scores, position),), WorkCounts(shallow_steps=1), approximate=True)
    rows = cache.pending
    cache.deepen(logits=True)
    token = rule.serve(cache.logits(rows - 1), position, None)
    return Round((token,), WorkCounts(decode_steps=1, shallow_steps=1, deep_steps=1, verified_rows=rows))
