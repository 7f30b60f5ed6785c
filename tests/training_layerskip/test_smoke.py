"""The whole chain on the embedded model, on little data: train, merge, F16, Q4_K_M, engine, one spoken reply."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

pytest.importorskip("torch", reason="PyTorch is not installed; ./scripts/setup --training")
pytest.importorskip("peft", reason="peft is not installed; ./scripts/setup --training")

from pads_runtime.errors import ModelMissing, PadsError
from pads_runtime.models import Registry
from training.layerskip import smoke as module
from training.layerskip.data import Corpus

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
MODEL = "smollm2-135m-instruct"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_chain_ends_with_a_spoken_reply_of_the_model_it_trained(
    dailydialog: Path, ami: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        Registry.load().resolve(MODEL)
    except (ModelMissing, PadsError) as exc:
        pytest.skip(f"the embedded model is not here: {exc}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "EVERY", 1)
    said: list[str] = []
    report = module.smoke(MODEL, Corpus(dailydialog, ami, ("EN2001a", "ES2002b")), said.append)
    assert report["weights"] == "dequantised from Q4_1"
    assert report["reply"]
    assert report["drafted"] > 0
    assert report["fell_back"] > 0
    assert any("their rows of 576 are no multiple of 256" in line for line in said)
    samples, _ = soundfile.read(report["wav"])
    assert len(samples) > 10_000
    assert abs(samples).max() > 0.05
    for source, before in report["validation_before"].items():
        assert report["validation_after"][source]["loss"] != before["loss"]
