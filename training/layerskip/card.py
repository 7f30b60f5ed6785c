"""The card beside an adapter: what it is, what it was made of, and what it did, good or bad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(report: Mapping[str, Any]) -> str:
    """Markdown from the report of a run."""
    plan, leaks = report["plan"], report["leaks"]
    lines = [
        f"# LayerSkip adapter for {report['model']}",
        "",
        f"Low-rank companions (rank {plan['rank']}, {report['trained_numbers']:,} numbers) for a model of "
        f"{report['layers']} layers, trained so that its exits {', '.join(map(str, report['exits']))} draft better "
        "(LayerSkip, arXiv 2404.16710). With them folded in it is another model: its replies at full depth change too.",
        "",
        f"- Base: `{report['model']}`, sha256 `{report['model_sha256']}`; weights {report['weights']}.",
        f"- Data: DailyDialog (training split, CC BY-NC-SA 4.0, which passes to these weights) and AMI without "
        f"{', '.join(report['excluded_meetings'])} (CC BY 4.0): {report['train_tokens']:,} tokens, of which "
        f"{report['trained_tokens']:,} were trained on in {plan['steps']} steps.",
        f"- Leak check: {_found(leaks['before'])} before, {_found(leaks['after'])} after training.",
        f"- Recipe: layer dropout 0 to {plan['max_dropout']}, exits weight {plan['exit_weight']} on every "
        f"{plan['exit_stride']}th position, learning rate {plan['learning_rate']:g}, seed {plan['seed']}.",
        "",
        "Validation without dropout, nats per token; agreement is the share of positions at which the exit's likeliest",
        "token is the last layer's.",
        "",
        "| data | where | loss before | after | change | agreement before | after |",
        "|---|---|---|---|---|---|---|",
        *_rows(report["validation_before"], report["validation_after"]),
    ]
    return "\n".join(lines) + "\n"


def _rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    rows = []
    for source, old in before.items():
        new = after[source]
        change = new["loss"] - old["loss"]
        rows.append(f"| {source} | full depth | {old['loss']:.3f} | {new['loss']:.3f} | {change:+.3f} | | |")
        for layer, at in old["exits"].items():
            now = new["exits"][layer]
            losses = f"{at['loss']:.3f} | {now['loss']:.3f} | {now['loss'] - at['loss']:+.3f}"
            agreement = f"{at['agreement']:.1%} | {now['agreement']:.1%}"
            rows.append(f"| {source} | exit {layer} | {losses} | {agreement} |")
    return rows


def _found(leaks: Mapping[str, Any]) -> str:
    items = leaks["items"]
    return f"{len(leaks['prompts'])} of {items} prompts and {len(leaks['responses'])} of {items} responses"
