"""The ONNX graph of ``pads_runtime.turn.vap``: smart-turn's encoder cut to 4 s, with two linear heads on top.

The cut: the encoder's position table keeps its last 200 of 400 rows (audio is right-aligned, so the end of speech keeps
the positions it was trained with), the one shape constant becomes 200, the input 400 frames. Weights stay int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pads_runtime.errors import ModelCorrupt, SetupError
from pads_runtime.logmel import FRAMES_PER_S
from pads_runtime.turn.vap import AGENT_WINDOWS_S, CLASSES, VERSION, WINDOW_S

Floats = NDArray[np.float32]

STATES = WINDOW_S * FRAMES_PER_S // 2
WIDTH = 384
CONTEXT = 1 + len(AGENT_WINDOWS_S)
ENCODED = 1 + 3 * WIDTH
FEATURES = ENCODED + CONTEXT
_POSITIONS = "inner.encoder.embed_positions.weight"
_LENGTH = "val_21"
_POOLED, _ANSWER, _LAST_LAYER = "sum_1", "linear_28_DequantizeLinear_Output", "layer_norm_8"
_RECENT = ((-5, STATES), (-15, -10))
"""States (20 ms each) that are averaged beside the pooled one: the last 100 ms, and the 100 ms up to 200 ms ago."""


@dataclass(frozen=True, slots=True)
class Heads:
    """p_end = sigmoid(x @ end + end_bias); classes = softmax(x @ vap + vap_bias); x of shape (FEATURES,)."""

    end: Floats
    end_bias: float
    vap: Floats
    vap_bias: Floats

    @staticmethod
    def zero() -> Heads:
        """Heads that know nothing; used where only ``features`` is wanted."""
        vap = np.zeros((FEATURES, CLASSES), np.float32)
        return Heads(np.zeros(FEATURES, np.float32), 0.0, vap, np.zeros(CLASSES, np.float32))


def build(source: Path, heads: Heads, out: Path) -> None:
    """Write the graph made of smart-turn v3.2 at ``source`` and ``heads`` to ``out``.

    Raises SetupError without the onnx package, ModelCorrupt if ``source`` is another network.
    """
    onnx = _onnx()
    model = onnx.load(str(source))
    _cut(onnx, model.graph, source)
    _add_heads(onnx, model.graph, heads)
    del model.graph.value_info[:]
    model.producer_name = "pads"
    _set_metadata(model, {"pads_version": VERSION, "encoder": "smart-turn-v3.2 (BSD-2-Clause)"})
    beside = out.with_name(out.name + ".part")
    onnx.save(model, str(beside))
    beside.replace(out)


def _cut(onnx: Any, graph: Any, source: Path) -> None:
    helper = onnx.numpy_helper
    table = {tensor.name: tensor for tensor in graph.initializer}
    if _POSITIONS not in table or _LENGTH not in table or list(table[_POSITIONS].dims) != [2 * STATES, WIDTH]:
        raise ModelCorrupt(f"'{source}' is not smart-turn v3.2; fetch it: pads models pull smart-turn-v3.2")
    kept = np.ascontiguousarray(helper.to_array(table[_POSITIONS])[-STATES:])
    table[_POSITIONS].CopyFrom(helper.from_array(kept, _POSITIONS))
    table[_LENGTH].CopyFrom(helper.from_array(np.array([STATES], np.int64), _LENGTH))
    graph.input[0].type.tensor_type.shape.dim[2].dim_value = WINDOW_S * FRAMES_PER_S


def _add_heads(onnx: Any, graph: Any, heads: Heads) -> None:
    helper, constant = onnx.helper, onnx.numpy_helper.from_array
    nodes, initial = [], []
    for index, (start, end) in enumerate(_RECENT):
        names = {part: f"pads_{part}_{index}" for part in ("start", "end", "slice", "mean")}
        initial += [
            constant(np.array([start], np.int64), names["start"]),
            constant(np.array([end], np.int64), names["end"]),
        ]
        nodes.append(
            helper.make_node("Slice", [_LAST_LAYER, names["start"], names["end"], "pads_axis"], [names["slice"]])
        )
        nodes.append(helper.make_node("ReduceMean", [names["slice"], "pads_axis"], [names["mean"]], keepdims=0))
    read = [_ANSWER, _POOLED, "pads_mean_0", "pads_mean_1", "context"]
    nodes += [
        helper.make_node("Concat", read, ["features"], axis=1),
        helper.make_node("Gemm", ["features", "pads_end", "pads_end_bias"], ["pads_end_logit"]),
        helper.make_node("Sigmoid", ["pads_end_logit"], ["p_end"]),
        helper.make_node("Gemm", ["features", "pads_vap", "pads_vap_bias"], ["pads_vap_logits"]),
        helper.make_node("Softmax", ["pads_vap_logits"], ["classes"], axis=1),
    ]
    initial += [
        constant(np.array([1], np.int64), "pads_axis"),
        constant(heads.end.reshape(FEATURES, 1).astype(np.float32), "pads_end"),
        constant(np.array([heads.end_bias], np.float32), "pads_end_bias"),
        constant(heads.vap.astype(np.float32), "pads_vap"),
        constant(heads.vap_bias.astype(np.float32), "pads_vap_bias"),
    ]
    graph.node.extend(nodes)
    graph.initializer.extend(initial)
    value, real = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph.input.append(value("context", real, [1, CONTEXT]))
    del graph.output[:]
    shapes = {"p_end": [1, 1], "classes": [1, CLASSES], "features": [1, FEATURES]}
    graph.output.extend(value(name, real, shape) for name, shape in shapes.items())


def _set_metadata(model: Any, entries: dict[str, str]) -> None:
    for key, text in entries.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text


def _onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise SetupError(
            "training vap writes ONNX and needs the package onnx: .venv/bin/pip install '.[training]'"
        ) from None
    return onnx
