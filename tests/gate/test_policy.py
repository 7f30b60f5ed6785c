"""The gate's modes as a truth table."""

from __future__ import annotations

from itertools import product

import pytest

from pads_runtime.config import GateSettings
from pads_runtime.frames import GateMode
from pads_runtime.gate.policy import Evidence, should_prepare

THETA_END, THETA_DEEP = 0.6, 0.3
SIGNALS = [None, 0.0, 0.29999, 0.3, 0.59999, 0.6, 1.0]


def wanted(mode: GateMode, p_end: float | None, p_deep: float | None) -> bool:
    """The table, written from the definition and not from the code: a missing signal passes no threshold."""
    ends = p_end in (0.6, 1.0)
    deep = p_deep in (0.3, 0.59999, 0.6, 1.0)
    return {
        GateMode.AND: ends and deep,
        GateMode.TURN_ONLY: ends,
        GateMode.ACT_ONLY: deep,
        GateMode.ALWAYS: True,
        GateMode.NEVER: False,
    }[mode]


@pytest.mark.parametrize("mode", list(GateMode))
def test_each_mode_fires_exactly_when_its_signals_pass_their_thresholds(mode: GateMode) -> None:
    settings = GateSettings(mode=mode, theta_end=THETA_END, theta_deep=THETA_DEEP)
    fired = set()
    for p_end, p_deep in product(SIGNALS, SIGNALS):
        fires = should_prepare(Evidence(True, p_end, p_deep), settings)
        assert fires == wanted(mode, p_end, p_deep), (p_end, p_deep)
        fired.add(fires)
    assert fired == ({True} if mode is GateMode.ALWAYS else {False} if mode is GateMode.NEVER else {True, False})


@pytest.mark.parametrize("mode", list(GateMode))
def test_no_mode_prepares_without_words(mode: GateMode) -> None:
    settings = GateSettings(mode=mode, theta_end=0.0, theta_deep=0.0)
    assert not any(should_prepare(Evidence(False, p, q), settings) for p, q in product(SIGNALS, SIGNALS))


def test_thresholds_of_zero_still_want_their_signal() -> None:
    settings = GateSettings(theta_end=0.0, theta_deep=0.0)
    assert should_prepare(Evidence(True, 0.0, 0.0), settings)
    assert not should_prepare(Evidence(True, None, 0.0), settings)
    assert not should_prepare(Evidence(True, 0.0, None), settings)
