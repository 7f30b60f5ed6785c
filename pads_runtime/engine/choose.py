"""Which controller decides the depth of each round, from the settings and what was measured on this machine."""

from __future__ import annotations

from pathlib import Path

from ..config import EngineSettings
from .calibration import Threads, load_costs
from .controller import AdaptiveDepth
from .depth import MAX_DRAFT, DepthController
from .exits import fixed_depth
from .translators import Translators


def controller(settings: EngineSettings, model_path: Path, translators: Translators | None) -> DepthController | None:
    """The controller for a model; None is plain decoding.

    What the settings fix is as they say. What they leave open is chosen each round by the calibrated costs; a
    ``draft_len`` beside an open exit is the most that is drafted. Without a calibration of this machine and model, an
    open exit is plain decoding and an open draft length a short one. A calibration for another machine or model is
    ignored, with a RuntimeWarning.
    """
    if settings.exit_layer == "none":
        return None
    fixed = fixed_depth(settings)
    if fixed is not None and (settings.serve == "confident" or isinstance(settings.draft_len, int)):
        return fixed
    costs = load_costs(model_path, Threads.of(settings))
    if costs is None:
        return fixed
    if isinstance(settings.exit_layer, int):
        exits = {settings.exit_layer} & set(costs.exits)
    else:
        exits = set(translators.exits if translators is not None else costs.exits) & set(costs.exits)
    if not exits:
        return fixed
    most = settings.draft_len if isinstance(settings.draft_len, int) else MAX_DRAFT
    return AdaptiveDepth(costs, exits, most, draft_head=settings.draft_vocab != 0)
