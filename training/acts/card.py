"""The model card that lies beside the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sklearn

_ROWS = {
    "test": "whole test split",
    "without_shared_dialogues": "without the dialogues that are in the training split too",
    "spoken_form": "lower case, no punctuation, no digits (a recogniser's bare text)",
    "first_three_quarters": "first three quarters of the words of that (a partial transcript)",
    "first_half": "first half of the words of that",
}

_CARD = """\
# acts-dailydialog

Says from the words alone whether an utterance wants the deep model: P(question or directive).
`{file}`, {bytes:,} bytes, sha256 `{sha256}`.

## Licence: not MIT
The weights are fitted on DailyDialog (Li et al. 2017), which is **CC BY-NC-SA 4.0**: non-commercial, share-alike.
They are distributed under the same licence, CC BY-NC-SA 4.0, although the code beside them is MIT. Do not use them
commercially; fit the classifier on data of your own instead (the code does not care where the rows come from).

## Data
DailyDialog, official split, one utterance a row. Question and directive are DEEP, inform and commissive SHALLOW.
Training utterances whose exact text is in the test split were dropped: {dropped:,} ({distinct:,} distinct), leaving
{kept:,}. The official split also shares {shared_dialogues} whole test dialogues with the training split; they stay in,
and the second row below leaves them out.

## Model
TF-IDF over word 1-2-grams (min_df 1, {vocabulary:,} terms), logistic regression (max_iter 1000, seed 42), scikit-learn
{sklearn}. Stored as plain arrays in a skops archive. On the {checked:,} utterances of validation and test the stored
file and the fitted model differ by at most {stored_max_difference:.1g} in probability.

## Figures
Threshold 0.5. These are properties of data and model, not of a machine.

| test text | utterances | accuracy | F1 (deep) | macro F1 | AUC |
|---|---|---|---|---|---|
{rows}

## Limits
English, dialogues written for learners of the language. Words only: no context, no intonation. "You are coming"
and "You are coming?" read the same. A text with no known word gives the prior of the training data; a text without
any letter or digit gives 0.

## Refit
`python -m training acts --data DIR`, where DIR holds `dailydialog.tsv.gz` with the columns split, dialogue, turn, act,
emotion, text. The same data and library versions give the same bytes.
"""


def write_card(report: dict[str, Any], path: Path) -> None:
    """Write the card for the figures in ``report``."""
    row = "| {title} | {utterances:,} | {accuracy:.4f} | {f1_deep:.3f} | {macro_f1:.3f} | {auc:.3f} |"
    rows = [row.format(title=title, **report["scores"][name]) for name, title in _ROWS.items()]
    path.write_text(_CARD.format(**report, sklearn=sklearn.__version__, rows="\n".join(rows)), encoding="utf-8")
