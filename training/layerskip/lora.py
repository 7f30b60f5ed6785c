"""The low-rank companions of a model's matrices: making them, and folding trained ones into the weights."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pads_runtime.errors import InputError, ModelError

from .plan import MODULES, Plan


def with_lora(model: Any, plan: Plan) -> Any:
    """The model, frozen, with companions of q, k, v, o, gate, up and down that change nothing yet.

    Raises ModelError if it has none of these matrices.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=plan.rank, lora_alpha=plan.alpha, lora_dropout=0.0, target_modules=list(MODULES), task_type="CAUSAL_LM"
    )
    try:
        with _quiet():
            return get_peft_model(model, config)
    except ValueError as exc:
        raise ModelError(f"no low-rank companions for a {type(model).__name__}: {_one_line(exc)}") from None


def merged(model: Any, adapter: Path) -> Any:
    """The model with an adapter folded into its weights.

    Raises InputError if ``adapter`` is no adapter, ModelError if it was made for a model of another shape.
    """
    from peft import PeftModel

    if not (adapter / "adapter_config.json").is_file():
        raise InputError(f"'{adapter}' is no adapter (adapter_config.json is missing); train one with layerskip first")
    try:
        with _quiet():
            return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    except (RuntimeError, ValueError, KeyError, OSError) as exc:
        raise ModelError(f"adapter '{adapter}' does not fit this model: {_one_line(exc)}") from None


def origin(adapter: Path) -> dict[str, Any]:
    """What the run wrote about an adapter: model, its hash, plan; empty for one made elsewhere."""
    path = adapter / "pads.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise InputError(f"'{path}' is not JSON; train again or remove it") from None
    return dict(found)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what one library has to tell the other about its next version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200]
