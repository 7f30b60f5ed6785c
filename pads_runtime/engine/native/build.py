"""Fetch, patch, build and install llama-cpp-python: ``python -m pads_runtime.engine.native.build``.

Standard library only, so that it runs in a fresh environment. A wheel is built once per recipe (see ``recipe.py``) into
the user cache; a second run sees the installed version and returns at once. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ...cachedir import cache_dir
from ...errors import PadsError, SetupError
from .recipe import Recipe, Source, recipe

BUILD_REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements" / "build.txt"
_STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
_SAY_EVERY_S = 10.0


def main(argv: list[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pads_runtime.engine.native.build", description=__doc__)
    parser.add_argument("--portable", action="store_true", help="for any x86-64 CPU with AVX2, not for this one alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel compilers (default: all cores)")
    parser.add_argument(
        "--sdist", type=Path, help="a source release already on disk (its hash is checked all the same)"
    )
    parser.add_argument("--wheel-only", action="store_true", help="build and print the wheel's path, do not install it")
    options = parser.parse_args(argv)
    try:
        wanted = recipe(portable=options.portable)
        if not options.wheel_only and installed_version() == wanted.version:
            _say(f"llama.cpp: {wanted.version} is installed")
            return 0
        wheel = built_wheel(wanted, options.jobs, options.sdist)
        if options.wheel_only:
            print(wheel)
        else:
            install(wheel, wanted)
    except PadsError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return exc.exit_code
    except OSError as exc:
        reason = "the disk is full" if exc.errno == errno.ENOSPC else str(exc)
        print(f"error: llama.cpp build: {reason} (cache {cache_dir()})", file=sys.stderr)
        return 1
    return 0


def installed_version() -> str | None:
    """Version of llama-cpp-python in the running environment, None without one."""
    try:
        return metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return None


def built_wheel(wanted: Recipe, jobs: int = 1, sdist: Path | None = None) -> Path:
    """Path of the wheel for this recipe, building it if the cache lacks it. Raises SetupError."""
    folder = cache_dir() / "llama"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f"{wanted.key}.lock"):
        found = sorted(folder.glob(f"llama_cpp_python-{wanted.version}-*.whl"))
        if found:
            return found[0]
        with tempfile.TemporaryDirectory(prefix=f"build-{wanted.key}-", dir=folder) as work:
            return _build(wanted, jobs, sdist, Path(work), folder)


def install(wheel: Path, wanted: Recipe) -> None:
    """Install the wheel into the running environment, replacing any other build. Raises SetupError."""
    if sys.prefix == sys.base_prefix:
        raise SetupError("llama.cpp build: not inside a virtual environment; run ./scripts/setup")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--force-reinstall", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"llama.cpp build: cannot install {wheel.name}: {_last_line(done.stderr)}")
    _say(f"llama.cpp: {wanted.version} installed")


def apply_patches(tree: Path, patches: tuple[Path, ...]) -> None:
    """Apply unified diffs in order; a hunk that does not fit exactly is an error. Raises SetupError."""
    if patches and shutil.which("git") is None:
        raise SetupError("llama.cpp build: git is missing; run: apt-get install git")
    # Inside a repository git apply skips, in silence, files that the repository does not know.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.resolve().parent)}
    for patch in patches:
        command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(f"llama.cpp build: patch {patch.name} does not apply: {_last_line(done.stderr)}")


def unpack(sdist: Path, target: Path) -> Path:
    """Unpack a source release without its repositories; returns its top folder. Raises SetupError."""
    target.mkdir(parents=True)
    try:
        with tarfile.open(sdist) as archive:
            members = [m for m in archive if ".git" not in Path(m.name).parts]
            archive.extractall(target, members=members, filter="data")
    except (tarfile.TarError, EOFError) as exc:
        raise SetupError(f"llama.cpp build: {sdist.name} cannot be unpacked: {exc}") from None
    (top,) = target.iterdir()
    return top


def _build(wanted: Recipe, jobs: int, sdist: Path | None, work: Path, folder: Path) -> Path:
    _need_compiler()
    python = _build_environment()
    tree = unpack(_fetch(wanted.source, python, sdist), work / "src")
    apply_patches(tree, wanted.python_patches)
    apply_patches(tree / "vendor" / "llama.cpp", wanted.native_patches)
    _stamp_version(tree / "llama_cpp" / "__init__.py", wanted)
    log = folder / f"{wanted.key}.log"
    out = work / "wheel"
    # The libraries that the bindings load are in llama_cpp/lib; the top-level copies are for C++ users.
    settings = ["wheel.exclude=lib/**;include/**;bin/**"]
    settings += [f"cmake.define.{name}={value}" for name, value in sorted(wanted.flags.items())]
    command = [str(python), "-m", "pip", "wheel", "-v", "--no-deps", "--no-index", "--no-build-isolation"]
    command += ["-w", str(out), *(f"-C{setting}" for setting in settings), str(tree)]
    _say(f"llama.cpp: building {wanted.version} with {jobs} job(s); log {log}")
    _run_logged(command, log, jobs)
    (wheel,) = out.glob("*.whl")
    final = folder / wheel.name
    # Same file system: the rename is atomic, so a wheel in the cache is always whole.
    wheel.replace(final)
    _say(f"llama.cpp: {final.name}, {final.stat().st_size / 1e6:.1f} MB")
    return final


def _fetch(source: Source, python: Path, sdist: Path | None) -> Path:
    name = f"{source.package.replace('-', '_')}-{source.version}.tar.gz"
    if sdist is not None:
        _check_hash(sdist, source)
        return sdist
    downloads = cache_dir() / "downloads"
    kept = downloads / name
    if kept.is_file() and _sha256(kept) == source.sha256:
        return kept
    downloads.mkdir(parents=True, exist_ok=True)
    _say(f"llama.cpp: fetching {name}")
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        # With a hash given, pip compares before it runs anything of the package.
        wanted = Path(folder) / "sdist.txt"
        wanted.write_text(f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n", encoding="utf-8")
        command = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
        command += ["--no-binary", source.package, "--require-hashes", "-r", str(wanted), "-d", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = Path(folder) / name
        if done.returncode or not fetched.is_file():
            raise SetupError(f"llama.cpp build: cannot fetch {name}: {_last_line(done.stderr)}")
        _check_hash(fetched, source)
        fetched.replace(kept)
    return kept


def _build_environment() -> Path:
    """Python of an environment that holds cmake, ninja and the build backend at their pinned versions."""
    pins = hashlib.sha256(BUILD_REQUIREMENTS.read_bytes()).hexdigest()[:12]
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    final = cache_dir() / f"build-tools-{tag}-{pins}"
    python = final / "bin" / "python"
    done = final / "complete"
    if done.is_file() and python.exists():
        return python
    _say("llama.cpp: installing cmake, ninja and the build backend")
    shutil.rmtree(final, ignore_errors=True)
    steps = [
        [sys.executable, "-m", "venv", str(final)],
        [str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(BUILD_REQUIREMENTS)],
    ]
    for step in steps:
        ran = subprocess.run(step, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SetupError(f"llama.cpp build: cannot install the build tools: {_last_line(ran.stderr or ran.stdout)}")
    # Written last: without it the folder is taken for an interrupted attempt.
    done.touch()
    return python


def _run_logged(command: list[str], log: Path, jobs: int) -> None:
    bin_dir = str(Path(command[0]).parent)
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs), "CMAKE_GENERATOR": "Ninja"}
    environment["PATH"] = bin_dir + os.pathsep + environment.get("PATH", "")
    started = said = time.monotonic()
    with (
        log.open("w", encoding="utf-8") as sink,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                sink.write(line)
                step = _STEP.match(line)
                now = time.monotonic()
                if step and now - said >= _SAY_EVERY_S:
                    said = now
                    _say(f"llama.cpp: {step[1]}/{step[2]} compiled, {now - started:.0f} s")
        except BaseException:
            process.terminate()
            raise
        code = process.wait()
    if code:
        raise SetupError(f"llama.cpp build failed: {_first_error(log)}; the whole log is {log}")
    _say(f"llama.cpp: built in {time.monotonic() - started:.0f} s")


def _stamp_version(init: Path, wanted: Recipe) -> None:
    text = init.read_text(encoding="utf-8")
    old = f'__version__ = "{wanted.source.version}"'
    if old not in text:
        raise SetupError(f"llama.cpp build: {init.name} does not say {old}; is source.toml right?")
    init.write_text(text.replace(old, f'__version__ = "{wanted.version}"'), encoding="utf-8")


def _need_compiler() -> None:
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else ["c++", "g++", "clang++"])):
        raise SetupError("llama.cpp build: no C++ compiler; run: apt-get install g++")


def _check_hash(path: Path, source: Source) -> None:
    if not path.is_file():
        raise SetupError(f"llama.cpp build: {path} does not exist")
    got = _sha256(path)
    if got != source.sha256:
        raise SetupError(
            f"llama.cpp build: {path.name} has sha256 {got}, expected {source.sha256}; delete it and retry"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two set-ups at once build once: the second waits and finds the wheel."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in lines if "error:" in line.lower()), _last_line("\n".join(lines)))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
