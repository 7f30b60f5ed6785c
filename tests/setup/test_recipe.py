"""The key under which llama.cpp is built: it changes with what the library depends on, and with nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pads_runtime.cachedir import cache_dir
from pads_runtime.engine.native.recipe import COMMON_FLAGS, HERE, Recipe, Source, cpu_identity, recipe

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 142
model name\t: Some CPU
stepping\t: 10
cpu MHz\t\t: 1800.000
flags\t\t: fpu sse4_2 avx2 fma md_clear

processor\t: 1
vendor_id\t: GenuineIntel
flags\t\t: none
"""


def some_recipe(folder: Path) -> Recipe:
    patch = folder / "0001-a.patch"
    patch.write_text("one", encoding="utf-8")
    source = Source("llama-cpp-python", "0.3.36", "a" * 64)
    return Recipe(source, (patch,), (), {"GGML_NATIVE": "ON", "X": "1"}, "linux-x86_64", "cpu")


def test_the_key_is_the_same_for_the_same_inputs_in_any_order_of_flags(tmp_path: Path) -> None:
    one = some_recipe(tmp_path)
    assert one.key == some_recipe(tmp_path).key
    assert one.key == replace(one, flags={"X": "1", "GGML_NATIVE": "ON"}).key


def test_every_input_changes_the_key(tmp_path: Path) -> None:
    one = some_recipe(tmp_path)
    other_name = tmp_path / "0002-a.patch"
    other_name.write_text("one", encoding="utf-8")
    variants = [
        replace(one, source=replace(one.source, sha256="b" * 64)),
        replace(one, source=replace(one.source, version="0.3.37")),
        replace(one, native_patches=()),
        replace(one, native_patches=(other_name,)),
        replace(one, native_patches=(), python_patches=one.native_patches),
        replace(one, flags={"GGML_NATIVE": "OFF", "X": "1"}),
        replace(one, platform="linux-aarch64"),
        replace(one, cpu="another"),
    ]
    assert len({one.key, *(variant.key for variant in variants)}) == len(variants) + 1


def test_an_edited_patch_changes_the_key(tmp_path: Path) -> None:
    one = some_recipe(tmp_path)
    before = one.key
    one.native_patches[0].write_text("two", encoding="utf-8")
    assert one.key != before


def test_the_version_is_a_valid_local_version_whose_key_is_never_read_as_a_number(tmp_path: Path) -> None:
    # "+pads.0123" would be normalised to "+pads.123".
    assert re.fullmatch(r"0\.3\.36\+pads\.k[0-9a-f]{12}", some_recipe(tmp_path).version)


def test_patches_are_found_in_name_order_and_may_be_absent(tmp_path: Path) -> None:
    assert recipe(patches=tmp_path).native_patches == ()
    (tmp_path / "python").mkdir()
    for name in ("0002-b.patch", "0001-a.patch", "python/0001-p.patch", "README.md"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    found = recipe(patches=tmp_path)
    assert [path.name for path in found.native_patches] == ["0001-a.patch", "0002-b.patch"]
    assert [path.name for path in found.python_patches] == ["0001-p.patch"]


def test_a_portable_build_is_keyed_apart_and_does_not_depend_on_the_cpu() -> None:
    native, portable = recipe(), recipe(portable=True)
    assert portable.key != native.key
    assert portable.flags["GGML_NATIVE"] == "OFF"
    assert portable.cpu == "portable"


def test_the_common_library_is_off_and_a_patch_makes_that_possible() -> None:
    assert COMMON_FLAGS["LLAMA_BUILD_COMMON"] == "OFF"
    assert any("common" in path.name for path in (HERE / "patches" / "python").glob("*.patch"))


def test_the_cpu_is_known_by_its_make_and_instruction_sets_only() -> None:
    same = CPUINFO.replace("1800.000", "2600.000").replace("md_clear", "another_mitigation")
    assert cpu_identity(same) == cpu_identity(CPUINFO)
    assert cpu_identity(CPUINFO.replace("avx2", "avx512f")) != cpu_identity(CPUINFO)
    assert cpu_identity(CPUINFO.replace(": 142", ": 158")) != cpu_identity(CPUINFO)
    assert cpu_identity(CPUINFO.replace("avx2 fma", "fma avx2")) == cpu_identity(CPUINFO)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PADS_CACHE": "/p", "XDG_CACHE_HOME": "/x"}, Path("/p")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/pads")),
        ({"XDG_CACHE_HOME": "relative"}, Path("/h/.cache/pads")),
        ({}, Path("/h/.cache/pads")),
    ],
)
def test_the_cache_is_where_the_environment_says(
    environment: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PADS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/h", **environment}.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == expected
