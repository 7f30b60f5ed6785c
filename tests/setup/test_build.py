"""Unpacking, patching and the decisions of the build, on a source tree of two files."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pads_runtime.engine.native import build
from pads_runtime.engine.native.recipe import Recipe, Source
from pads_runtime.errors import SetupError

PATCH = """An explanation before the diff.

--- a/src/one.cpp
+++ b/src/one.cpp
@@ -1,3 +1,3 @@
 int a;
-int b;
+int changed;
 int c;
"""
SECOND = PATCH.replace("-int b;", "-int changed;").replace("+int changed;", "+int twice;")


def tree(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "one.cpp").write_text("int a;\nint b;\nint c;\n", encoding="utf-8")
    return folder


def patches(folder: Path, *texts: str) -> tuple[Path, ...]:
    paths = [folder / f"{n:04}.patch" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return tuple(paths)


def test_patches_apply_in_order(tmp_path: Path) -> None:
    top = tree(tmp_path / "tree")
    build.apply_patches(top, patches(tmp_path, PATCH, SECOND))
    assert (top / "src/one.cpp").read_text(encoding="utf-8") == "int a;\nint twice;\nint c;\n"


def test_no_patches_change_nothing(tmp_path: Path) -> None:
    top = tree(tmp_path / "tree")
    build.apply_patches(top, ())
    assert "int b;" in (top / "src/one.cpp").read_text(encoding="utf-8")


def test_a_patch_that_does_not_fit_is_named_and_changes_nothing(tmp_path: Path) -> None:
    top = tree(tmp_path / "tree")
    with pytest.raises(SetupError, match=r"patch 0000\.patch does not apply") as caught:
        build.apply_patches(top, patches(tmp_path, SECOND))
    assert "\n" not in str(caught.value)
    assert "int b;" in (top / "src/one.cpp").read_text(encoding="utf-8")


def test_patches_apply_in_a_tree_that_lies_inside_a_repository(tmp_path: Path) -> None:
    # There git apply would skip unknown files and still exit with 0.
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    top = tree(tmp_path / "ignored" / "tree")
    build.apply_patches(top, patches(tmp_path, PATCH))
    assert "int changed;" in (top / "src/one.cpp").read_text(encoding="utf-8")


def sdist(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in ("top/llama_cpp/__init__.py", "top/.git/config", "top/vendor/x/.git/HEAD", "top/vendor/x/a.c"):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"1"))
    return path


def test_a_source_release_is_unpacked_without_its_repositories(tmp_path: Path) -> None:
    top = build.unpack(sdist(tmp_path / "a.tar.gz"), tmp_path / "out")
    files = sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
    assert files == ["llama_cpp/__init__.py", "vendor/x/a.c"]


def test_a_source_release_cut_in_half_is_one_line(tmp_path: Path) -> None:
    whole = sdist(tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SetupError, match=r"half\.tar\.gz cannot be unpacked"):
        build.unpack(tmp_path / "half.tar.gz", tmp_path / "out")


def a_recipe(sha256: str = "0" * 64) -> Recipe:
    return Recipe(Source("llama-cpp-python", "0.3.36", sha256), (), (), {}, "linux-x86_64", "cpu")


def test_a_wheel_in_the_cache_is_used_without_compiler_or_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    wanted = a_recipe()
    wheel = tmp_path / "llama" / f"llama_cpp_python-{wanted.version}-py3-none-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    assert build.built_wheel(wanted) == wheel


def test_without_a_compiler_the_command_that_brings_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SetupError, match=r"no C\+\+ compiler; run: apt-get install g\+\+"):
        build.built_wheel(a_recipe())
    assert not list(tmp_path.glob("llama/build-*")), "the work folder is gone"


def test_another_source_release_than_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADS_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_need_compiler", lambda: None)
    monkeypatch.setattr(build, "_build_environment", lambda: Path(sys.executable))
    path = sdist(tmp_path / "a.tar.gz")
    got = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(SetupError, match=f"has sha256 {got}, expected 0000"):
        build.built_wheel(a_recipe(), sdist=path)


def test_a_failed_compile_is_one_line_with_the_path_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "k.log"
    script = "print('[1/2] cc a.c'); print('a.c:3: error: no such thing'); raise SystemExit(1)"
    with pytest.raises(SetupError, match=r"failed: a\.c:3: error: no such thing; the whole log is .*k\.log$"):
        build._run_logged([sys.executable, "-c", script], log, 1)
    assert "[1/2] cc a.c" in log.read_text(encoding="utf-8")


def test_an_installed_build_of_this_recipe_ends_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "installed_version", lambda: build.recipe().version)
    monkeypatch.setattr(build, "built_wheel", lambda *_: pytest.fail("nothing is to be built"))
    assert build.main([]) == 0
    assert "is installed" in capsys.readouterr().err


def test_a_fault_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Path:
        raise SetupError("llama.cpp build: no C++ compiler")

    monkeypatch.setattr(build, "installed_version", lambda: None)
    monkeypatch.setattr(build, "built_wheel", fail)
    assert build.main([]) == 1
    assert capsys.readouterr().err == "error: llama.cpp build: no C++ compiler\n"
