"""The card that lies beside a file of translators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_CARD = """\
# {stem}

Exit translators of {model}: at each exit k, `h + A_k h + b_k` turns the hidden state h
into one that the model's own output norm and the first {draft_vocab:,} rows of its output matrix read as a guess at the
next token. They shape drafts only. Every served token is the model's own, so they can make it faster or slower,
never different.
`{file}`, {bytes:,} bytes, sha256 `{sha256}`.
Belongs to the model file with sha256
`{model_sha256}` and no other.

## Licence: not MIT
Fitted on what the model thinks of DailyDialog (Li et al. 2017), which is **CC BY-NC-SA 4.0**: non-commercial,
share-alike. Distributed under the same licence, although the code beside is MIT. The model's own licence applies too.

## Data
{train_positions:,} positions: {train_reply_positions:,} in the model's own greedy replies to {train_replies:,} prompts
of the training split, the rest in prompts and other text. A prompt is the runtime's system prompt, up to two earlier
exchanges and a user turn, in the model's chat template, user turns in the spoken form that the runtime gives the model.
Held out: {held_out_prompts} prompts of the test split. {dropped_prompts:,} training prompts with a held-out last turn
in them were left out; a search of the training tokens for the {leaks_looked_for} held-out turns found {leaks_found}.

## Figures
Agreement with the full model's next token on its own greedy replies to the held-out prompts, reply positions only
({held_out_reply_positions:,}), 95 % intervals by prompt (2,000 resamples). `untrained`: the bare exit; `ridge`: the
regression that the fit begins with; `translator`: as stored, through llama.cpp's draft head. `accepted`: drafts
accepted in a round of four. They are properties of model and data; what they save in time depends on the machine.
[MEASURED dev-host: `{command}`]

| exit | untrained | ridge | translator | interval | accepted, untrained | accepted, translator |
|---|---|---|---|---|---|---|
{rows}

## Limits
English small talk, greedy replies of at most 48 tokens. On other text and other languages less is accepted.
The model repeats itself: {held_out_replies_seen} of the held-out replies are, word for word, replies to training
prompts too.
"""


def write_card(report: dict[str, Any], path: Path, name: str) -> None:
    """Write the card for the figures in ``report``."""
    rows = []
    for k, scores in report["figures"].items():
        bare, first, last = (scores[which] for which in ("untrained", "ridge", "translator"))
        shares = " | ".join(f"{100 * each['share']:.1f} %" for each in (bare, first, last))
        interval = f"{100 * last['low']:.1f} to {100 * last['high']:.1f}"
        rows.append(f"| {k} | {shares} | {interval} | {bare['accepted']:.2f} | {last['accepted']:.2f} |")
    text = _CARD.format(
        **report,
        stem=path.name.removesuffix(".card.md"),
        command=(
            f"python -m training exits --model {Path(name).name} --exits {','.join(map(str, report['exits']))} "
            f"--own-replies {report['own_replies']} --positions {report['positions']}"
        ),
        rows="\n".join(rows),
    )
    path.write_text(text, encoding="utf-8")
