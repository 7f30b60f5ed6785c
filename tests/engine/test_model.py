from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pads_runtime.config import EngineSettings
from pads_runtime.engine.engine import LlamaEngine
from pads_runtime.engine.library import LOG, NativeLog
from pads_runtime.engine.model import Model, any_of, cut_markers
from pads_runtime.errors import InputError, ModelCorrupt


def test_ordinary_text_comes_back_from_its_tokens(model: Model) -> None:
    for text in ("Hello there, how are you?", "naïve café ☃ 日本語 🙂", "a\n\nb\tc", "1234567 and 89", "\x00"):
        assert b"".join(model.piece(t) for t in model.tokenize(text)) == text.encode()
    assert model.tokenize("") == ()


def test_no_text_becomes_a_control_token(model: Model) -> None:
    control = set(model.specials.values())
    assert "<|im_end|>" in model.specials
    for name in model.specials:
        tokens = model.tokenize(f"say {name} now")
        assert not control & set(tokens)
        assert b"".join(model.piece(t) for t in tokens).decode() == f"say {name} now"


def test_a_user_defined_marker_is_cut_and_nothing_is_lost() -> None:
    pattern = any_of(["<think>", "</think>", "<think>>"])
    assert cut_markers("a <think>> b</think>", pattern) == ["a <", "think>> b<", "/think>"]
    assert cut_markers("plain", any_of([])) == ["plain"]


def test_control_tokens_have_no_text_and_end_a_reply(model: Model) -> None:
    for name in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        assert model.piece(model.specials[name]) == b""
        assert model.ends_reply(model.specials[name])
    assert not model.ends_reply(model.tokenize("hello")[0])


def test_a_lone_surrogate_is_refused_in_one_line(model: Model) -> None:
    with pytest.raises(InputError, match="not valid Unicode: a lone surrogate at character 2"):
        model.tokenize("ab\ud800")


def test_metadata_and_description(model: Model) -> None:
    assert model.metadata("general.architecture") == "llama"
    assert model.metadata("no.such.key") is None
    assert "30 layers" in model.description


def corrupt(kind: str, whole: bytes) -> bytes:
    return {
        "empty": b"",
        "not a GGUF": b"PK\x03\x04" + whole[4:2000],
        "header only": whole[:8],
        "cut in the metadata": whole[:5000],
        "cut in the vocabulary": whole[:1_000_000],
        "cut before the weights": whole[:3_000_000],
        "last byte missing": whole[:-1],
        "noise after the magic": b"GGUF" + bytes((i * 7919 + 13) % 251 for i in range(4000)),
        "absurd counts": b"GGUF" + struct.pack("<IQQ", 3, 2**62, 2**62) + whole[24:5000],
        "another version": b"GGUF" + struct.pack("<I", 99) + whole[8:5000],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "not a GGUF",
        "header only",
        "cut in the metadata",
        "cut in the vocabulary",
        "cut before the weights",
        "last byte missing",
        "noise after the magic",
        "absurd counts",
        "another version",
    ],
)
def test_a_damaged_model_file_is_one_line(kind: str, model_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(corrupt(kind, model_path.read_bytes()))
    with pytest.raises(ModelCorrupt, match=r"damaged\.gguf") as caught:
        LlamaEngine.load(path, EngineSettings())
    assert "\n" not in str(caught.value)
    assert "fetch it again" in str(caught.value)
    path.unlink()


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.gguf' cannot be read: No such file"):
        Model(tmp_path / "none.gguf")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Model(tmp_path)


def test_the_native_log_keeps_errors_and_their_continuations_only() -> None:
    log = NativeLog(keep=2)
    for level, text in [(2, b"info\n"), (5, b"more info"), (4, b"bad\n"), (5, b" thing\n"), (3, b"warn"), (4, b"\xff")]:
        log.write(level, text)
    assert log.reason("none") == "thing"
    log.clear()
    assert log.reason("none") == "none"


def test_nothing_of_llama_cpp_reaches_stderr(
    model_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(model_path.read_bytes()[:5000])
    with pytest.raises(ModelCorrupt):
        Model(path)
    Model(model_path).close()
    assert capfd.readouterr().err == ""
    assert LOG.reason("") == ""
