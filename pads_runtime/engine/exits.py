"""What a model needs before it may exit early: the patched library, an architecture it knows, a head for each exit."""

from __future__ import annotations

from ..config import EngineSettings
from ..errors import ConfigError, ModelError, SetupError
from .cache import TokenCache
from .depth import FixedDepth
from .library import row_exact
from .model import Model
from .native import symbols
from .translators import Translators

DRAFT_LEN = 2
"""Tokens drafted where neither the user nor a calibration says how many."""


def fixed_depth(settings: EngineSettings) -> FixedDepth | None:
    """The depth that the settings name; None if they name none."""
    if not isinstance(settings.exit_layer, int):
        return None
    return FixedDepth(settings.exit_layer, settings.draft_len if isinstance(settings.draft_len, int) else DRAFT_LEN)


def check_exit(exit_layer: int, n_layer: int) -> None:
    """Raises ConfigError for an exit that a model of ``n_layer`` layers does not have."""
    if not 1 <= exit_layer < n_layer:
        raise ConfigError(f"engine.exit_layer = {exit_layer}: this model has {n_layer} layers; use 1 to {n_layer - 1}")


def check_two_depths(model: Model) -> None:
    """Whether library and model can run at two depths. Raises SetupError or ModelError."""
    can = symbols.capabilities()
    if not (can.layer_range and can.no_split_kv):
        raise SetupError(
            "engine.exit_layer: this llama.cpp was built without our patches; run ./scripts/setup, or set it to none"
        )
    if not row_exact():
        raise SetupError("engine.exit_layer needs row-exact kernels; unset GGML_CPU_FA_NO_SPLIT_KV")
    architecture = model.metadata("general.architecture")
    if architecture not in symbols.ARCHITECTURES:
        raise ModelError(
            f"model '{model.path}' is of the architecture '{architecture}', which has no early exits; they work for "
            f"{', '.join(symbols.ARCHITECTURES)}: set engine.exit_layer to none"
        )


class Exits:
    """The exits of one cache, each given its head when it is first used."""

    def __init__(
        self, model: Model, settings: EngineSettings, cache: TokenCache, translators: Translators | None
    ) -> None:
        """Check everything that can be; an exit that is set is made ready and run once. Raises PadsError."""
        check_two_depths(model)
        if isinstance(settings.exit_layer, int):
            check_exit(settings.exit_layer, model.n_layer)
        if translators is not None:
            translators.check_fits(model.n_embd, model.n_layer)
        self._cache, self._translators = cache, translators
        self._rows = draft_rows(settings.draft_vocab, model.n_vocab)
        self._ready: set[int] = set()
        cache.enable_exits()
        if isinstance(settings.exit_layer, int):
            self._warm_up(settings.exit_layer)

    def _warm_up(self, exit_layer: int) -> None:
        self.prepare(exit_layer)
        self._cache.extend_shallow((0,), exit_layer, logits=True)
        self._cache.deepen(logits=True)
        self._cache.trim(0)

    def prepare(self, exit_layer: int) -> None:
        """Give the exit its translator, if there is one, and its short head. Costs something the first time only."""
        if exit_layer in self._ready:
            return
        matrix, bias = self._translators.at(exit_layer) if self._translators is not None else (None, None)
        if symbols.capabilities().draft_head and (matrix is not None or bias is not None or self._rows):
            self._cache.set_draft_head(exit_layer, matrix, bias, self._rows)
        self._ready.add(exit_layer)


def draft_rows(draft_vocab: int, n_vocab: int) -> int:
    """Rows of a draft head for ``engine.draft_vocab``: a multiple of 64, or 0 for all.

    >>> draft_rows(8192, 49152), draft_rows(100, 49152), draft_rows(8192, 640), draft_rows(1, 640)
    (8192, 64, 0, 64)
    """
    step = symbols.DRAFT_VOCAB_STEP
    return 0 if draft_vocab == 0 or draft_vocab >= n_vocab else max(step, draft_vocab // step * step)
