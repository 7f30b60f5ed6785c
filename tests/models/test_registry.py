"""The registry file, and what is said about copies that are missing or wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pads_runtime.errors import ModelCorrupt, ModelError, ModelMissing, UsageError
from pads_runtime.models import Registry

TEXT = b"a model, or as good as one"
SHA = hashlib.sha256(TEXT).hexdigest()
WHEEL = {"wheel": {"package": "some-model", "version": "1.0", "sha256": "0" * 64}}
HUB = {"hub": {"repo": "some/repo", "revision": "abc"}}


def registry(tmp_path: Path, **fields: Any) -> Registry:
    entry = {
        "kind": "llm",
        "licence": "MIT",
        "source": WHEEL,
        "files": [{"name": "m.gguf", "bytes": 26, "sha256": SHA}],
    }
    path = tmp_path / "registry.yaml"
    path.write_text(yaml.safe_dump({"small": {**entry, **fields}}), encoding="utf-8")
    return Registry.load(path, tmp_path / "models")


def put(found: Registry, data: bytes, name: str = "m.gguf") -> Path:
    path = found.folder / "small" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_the_shipped_registry_has_every_model_that_the_settings_name() -> None:
    from pads_runtime.config import PadsSettings

    settings = PadsSettings()
    entries = Registry.load().entries
    for name in (settings.turn.model, settings.asr.model, settings.acts.model, settings.engine.model):
        assert entries[name].embedded
    assert settings.speech.model in entries


def test_every_fetched_file_of_the_shipped_registry_has_size_and_hash() -> None:
    for entry in Registry.load().entries.values():
        for file in entry.files:
            assert file.sha256 is not None, (entry.name, file.name)
            assert file.bytes is not None, (entry.name, file.name)


def test_a_model_of_one_file_is_that_file_and_one_of_several_is_their_folder(tmp_path: Path) -> None:
    one = registry(tmp_path)
    put(one, TEXT)
    assert one.path("small") == one.folder / "small" / "m.gguf"
    files = [{"name": name, "bytes": 26, "sha256": SHA} for name in ("a.bin", "b.bin")]
    several = registry(tmp_path, files=files)
    put(several, TEXT, "a.bin")
    put(several, TEXT, "b.bin")
    assert several.path("small") == several.folder / "small"


def test_a_missing_model_says_the_exact_command_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"run: pads models pull small$"):
        registry(tmp_path).path("small")


def test_a_short_file_is_refused_without_hashing_it(tmp_path: Path) -> None:
    found = registry(tmp_path)
    put(found, TEXT[:-1])
    with pytest.raises(ModelCorrupt, match=r"has 25 bytes, expected 26; run: pads models pull small$"):
        found.path("small")


def test_verify_returns_the_hash_of_each_file(tmp_path: Path) -> None:
    found = registry(tmp_path)
    put(found, TEXT)
    assert found.verify("small") == {"m.gguf": SHA}


def test_one_changed_byte_passes_path_and_fails_verify(tmp_path: Path) -> None:
    found = registry(tmp_path)
    put(found, b"A" + TEXT[1:])
    found.path("small")
    with pytest.raises(ModelCorrupt, match=f"expected {SHA}"):
        found.verify("small")


def test_a_mistyped_name_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'small'"):
        registry(tmp_path).path("smal")


def test_resolve_takes_a_name_or_a_path(tmp_path: Path) -> None:
    found = registry(tmp_path)
    put(found, TEXT)
    own = tmp_path / "own.gguf"
    own.write_bytes(b"x")
    assert found.resolve("small") == found.path("small")
    assert found.resolve(str(own)) == own
    with pytest.raises(ModelMissing, match=r"'/nowhere/x.gguf' does not exist"):
        found.resolve("/nowhere/x.gguf")


def test_a_model_of_a_package_that_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    found = registry(tmp_path, source={"package": {"distribution": "no-such-distribution"}})
    with pytest.raises(ModelMissing, match="pip install --force-reinstall no-such-distribution"):
        found.path("small")


def test_pull_of_a_model_in_this_repository_checks_it_and_fetches_nothing(tmp_path: Path) -> None:
    found = registry(tmp_path, source={"path": "no-such-folder"})
    with pytest.raises(ModelMissing, match="git checkout models"):
        found.pull("small")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"source": {**WHEEL, **HUB}}, "exactly one of"),
        ({"source": {}}, "exactly one of"),
        ({"files": []}, "files"),
        ({"files": [{"name": "m", "bytes": 1, "sha256": "abc"}]}, "sha256"),
        ({"files": [{"name": "m", "bytes": 1}]}, "needs its sha256"),
        ({"files": [{"name": "../m", "bytes": 1, "sha256": SHA}]}, "name"),
        ({"sise": 3}, "unknown setting 'sise'"),
    ],
)
def test_a_registry_that_cannot_be_meant_is_refused_in_one_line(tmp_path: Path, fields: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        registry(tmp_path, **fields)
    assert "\n" not in str(caught.value)


def test_a_hash_may_be_absent_for_a_hub_and_for_this_repository_only(tmp_path: Path) -> None:
    files = [{"name": "m", "bytes": 1}]
    registry(tmp_path, source=HUB, files=files)
    registry(tmp_path, source={"path": "models"}, files=files)


def test_a_broken_registry_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    for text in ("a: [", "- 1", "a: 3"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ModelError):
            Registry.load(path)
    with pytest.raises(ModelError, match="No such file"):
        Registry.load(tmp_path / "none.yaml")


def test_a_broken_lock_file_is_named(tmp_path: Path) -> None:
    found = registry(tmp_path, source=HUB, files=[{"name": "m.gguf", "bytes": None}])
    put(found, TEXT)
    (found.folder / "lock.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelCorrupt, match=r"lock\.json is not valid JSON"):
        found.verify("small")
    (found.folder / "lock.json").write_text(json.dumps({"small": {"m.gguf": "0" * 64}}), encoding="utf-8")
    with pytest.raises(ModelCorrupt, match=r"expected 0{64}"):
        found.verify("small")
