"""Opening a turn model in ONNX Runtime: one thread that never spins, and errors of one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ..errors import ModelCorrupt, ModelError, ModelMissing


def open_session(model: Path, remedy: str) -> Any:
    """An inference session on one thread. Raises ModelMissing (with ``remedy``) or ModelCorrupt."""
    if not model.is_file():
        raise ModelMissing(f"turn model '{model}' not found; {remedy}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as exc:
        raise ModelCorrupt(f"turn model '{model}' cannot be loaded: {one_line(exc)}") from None


def infer(session: Any, model: Path, outputs: list[str] | None, inputs: dict[str, Any]) -> list[NDArray[np.float32]]:
    """Run the network. Raises ModelError if it fails or answers what is no number."""
    try:
        answers: list[NDArray[np.float32]] = session.run(outputs, inputs)
    except Exception as exc:
        raise ModelError(f"turn model '{model.name}' failed: {one_line(exc)}") from None
    for answer in answers:
        wrong = answer[~np.isfinite(answer)]
        if wrong.size:
            raise ModelError(f"turn model '{model.name}' answered {wrong[0]}; fetch it again: pads models verify")
    return answers


def one_line(exc: Exception) -> str:
    """An exception's text on one line of at most 200 characters."""
    return " ".join(str(exc).split())[:200]
