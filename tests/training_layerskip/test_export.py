"""Between GGUF and PyTorch and back: the same model, in numbers; quantised once, and never again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; ./scripts/setup --training")
gguf = pytest.importorskip("gguf", reason="gguf-py is not installed; ./scripts/setup --training")
pytest.importorskip("peft", reason="peft is not installed; ./scripts/setup --training")

from pads_runtime.config import EngineSettings  # noqa: E402
from pads_runtime.engine.cache import TokenCache  # noqa: E402
from pads_runtime.engine.model import Model  # noqa: E402
from pads_runtime.errors import InputError, ModelError, UsageError  # noqa: E402
from training.checkpoints.gguf_file import GgufFile  # noqa: E402
from training.checkpoints.names import gguf_name, hf_name, to_halves, to_pairs  # noqa: E402
from training.checkpoints.source import find_source  # noqa: E402
from training.export.f16 import write_f16  # noqa: E402
from training.export.quantise import quantise  # noqa: E402
from training.export.run import Export, export  # noqa: E402
from training.layerskip.lora import merged, with_lora  # noqa: E402
from training.layerskip.plan import Plan  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
TOKENS = (1, 70, 99, 120, 33, 250, 71, 8)


def by_llama(path: Path) -> Any:
    """Logits after TOKENS, by llama.cpp."""
    model = Model(path)
    cache = TokenCache(model, EngineSettings(n_ctx=128))
    try:
        cache.extend(TOKENS, True)
        return np.array(cache.logits())
    finally:
        cache.close()
        model.close()


def by_torch(model: Any) -> Any:
    """The same, by PyTorch."""
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0, -1].float().numpy()


@pytest.fixture
def adapter(tiny: Path, tmp_path: Path) -> Path:
    """Companions that change the model."""
    model = with_lora(find_source(str(tiny)).model(torch.float32), Plan(rank=4))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.2)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_a_gguf_models_logits_are_the_same_in_pytorch_as_in_llama_cpp(tiny: Path) -> None:
    ours, theirs = by_torch(find_source(str(tiny)).model(torch.float32)), by_llama(tiny)
    assert np.abs(ours - theirs).max() < 0.02 * theirs.std()
    assert ours.argmax() == theirs.argmax()


def test_rows_turn_from_halves_to_pairs_and_back() -> None:
    rows = np.arange(24).reshape(12, 2)
    assert to_pairs(rows, 2)[:, 0].tolist() == [0, 6, 2, 8, 4, 10, 12, 18, 14, 20, 16, 22]
    assert (to_halves(to_pairs(rows, 2), 2) == rows).all()


@pytest.mark.parametrize("name", ["blk.11.attn_k.bias", "blk.0.ffn_norm.weight", "token_embd.weight", "output.weight"])
def test_names_translate_there_and_back(name: str) -> None:
    assert gguf_name(hf_name(name) or "") == name


def test_a_merged_model_is_exported_so_that_llama_cpp_computes_the_same(
    tiny: Path, adapter: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    report = export(Export(adapter, tmp_path / "out", ("Q8_0", "Q4_K_M"), model=str(tiny)), said.append)
    f16 = Path(report["f16"])
    assert f16.name == "tiny-layerskip-F16.gguf"
    wanted = by_torch(merged(find_source(str(tiny)).model(torch.float32), adapter))
    spread = wanted.std()
    assert np.abs(wanted - by_torch(find_source(str(tiny)).model(torch.float32))).max() > 0.2 * spread
    assert np.abs(by_llama(f16) - wanted).max() < 0.05 * spread
    assert np.abs(by_llama(tmp_path / "out" / "tiny-layerskip-Q8_0.gguf") - wanted).max() < 0.5 * spread
    assert GgufFile(f16).types() == {"F16": 29, "F32": 9}
    assert GgufFile(f16).value("tokenizer.chat_template") == GgufFile(tiny).value("tokenizer.chat_template")
    assert GgufFile(f16).value("pads.base_sha256") == find_source(str(tiny)).sha256


def test_a_type_that_does_not_fit_the_rows_says_what_it_fell_back_to(tiny: Path, tmp_path: Path) -> None:
    made = quantise(tiny, "Q4_K_M", tmp_path / "q.gguf")
    assert made.fell_back == 29
    assert "29 matrices fell back to other types, because their rows of 64 are no multiple of 256" in str(made)
    plain = quantise(tiny, "Q8_0", tmp_path / "plain.gguf")
    assert (plain.fell_back, plain.types) == (0, {"Q8_0": 29, "F32": 9})
    assert re.fullmatch(r"plain\.gguf: \d MB, 29 Q8_0, 9 F32", str(plain))


def test_a_quantised_source_is_refused_with_the_reason(tiny: Path, tmp_path: Path) -> None:
    quantise(tiny, "Q4_0", tmp_path / "q4.gguf")
    with pytest.raises(ModelError, match=r"quantised already \(Q4_0\): .* one rounding error to another"):
        export(Export(tmp_path / "q4.gguf", tmp_path / "out", ("Q8_0",)), lambda _: None)
    assert not list((tmp_path / "out").iterdir())


def test_dequantised_weights_say_so_in_the_file_made_of_them(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    quantise(tiny, "Q8_0", tmp_path / "base-Q8_0.gguf")
    source = find_source(str(tmp_path / "base-Q8_0.gguf"))
    assert source.note == "dequantised from Q8_0"
    report = export(Export(adapter, tmp_path, ("Q4_0",), model=str(source.path)), lambda _: None)
    assert report["weights"] == "dequantised from Q8_0"
    assert GgufFile(tmp_path / "base-layerskip-Q4_0.gguf").value("pads.weights") == "dequantised from Q8_0"


def test_what_does_not_fit_is_refused(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    model = find_source(str(tiny)).model(torch.float32)
    model.model.layers[2].mlp.up_proj = torch.nn.Linear(64, 80, bias=False)
    with pytest.raises(
        ModelError, match=r"another shape than .*: blk\.2\.ffn_up\.weight is \(80, 64\), not \(96, 64\)"
    ):
        write_f16(model, GgufFile(tiny), tmp_path / "x.gguf", {})
    with pytest.raises(ModelError, match="does not fit this model"):
        merged(model, adapter)
    with pytest.raises(InputError, match="neither a GGUF file nor a folder with an adapter"):
        export(Export(tmp_path / "none", tmp_path, ("Q4_0",)), lambda _: None)
    with pytest.raises(UsageError, match="--types Q3_K_S: there are Q4_K_M, Q4_0"):
        export(Export(tiny, tmp_path, ("Q3_K_S",)), lambda _: None)
    with pytest.raises(InputError, match="does not say what it was trained on; give it with --model"):
        export(Export(adapter, tmp_path, ("Q4_0",)), lambda _: None)


def test_a_checkpoint_folder_is_trained_on_and_exported_with_a_gguf_file_like_it(
    tiny: Path, adapter: Path, tmp_path: Path
) -> None:
    model = find_source(str(tiny)).model(torch.float32)
    model.save_pretrained(tmp_path / "hf")
    source = find_source(str(tmp_path / "hf"))
    assert np.abs(by_torch(source.model(torch.float32)) - by_torch(model)).max() < 1e-5
    with pytest.raises(InputError, match="give one with --like"):
        export(Export(adapter, tmp_path, ("Q4_0",), model=str(source.path)), lambda _: None)
    job = Export(adapter, tmp_path, ("Q8_0",), model=str(source.path), like=str(tiny), name="mine", checkpoint=True)
    report = export(job, lambda _: None)
    assert np.abs(by_llama(Path(report["f16"])) - by_torch(merged(model, adapter))).max() < 0.2
    assert (tmp_path / "mine" / "model.safetensors").is_file()
