"""What is missing or slow on this machine, one row per finding, each with what to do. Reads only; changes nothing.

``examine`` returns the rows, ``doctor`` prints them. A row is *fail* when PADS cannot work without it, *warn* when it
works worse or less steadily.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psutil
from rich.console import Console
from rich.table import Table

from .cachedir import cache_dir
from .engine.native.recipe import recipe
from .errors import ModelError
from .models import Registry

State = Literal["ok", "warn", "fail"]
CAPABILITIES = {
    "row-exact kernels": ("libggml-cpu.so", b"ggml_cpu_set_row_exact"),
    "layer ranges": ("libllama.so", b"llama_set_layer_range"),
}
"""What our patches add: the library and the exported symbol that shows it."""

GB = 1e9
MIN_MEMORY = 2 * GB
"""The whole process with the embedded models stays under 1.5 GB; the rest is for the desktop."""
MIN_DISK = 3 * GB
HOT_C = 85.0


@dataclass(frozen=True)
class Finding:
    """One row of the table."""

    name: str
    state: State
    found: str
    advice: str = ""


def doctor(as_json: bool = False) -> int:
    """Print the findings, as a table or one JSON object on stdout. Returns the exit code: 1 if anything fails."""
    findings = examine()
    worst = max((f.state for f in findings), key=("ok", "warn", "fail").index)
    if as_json:
        print(json.dumps({"state": worst, "findings": [asdict(f) for f in findings]}))
    else:
        colour = {"ok": "green", "warn": "yellow", "fail": "red"}
        table = Table("", "what", "found", "what to do")
        for f in findings:
            table.add_row(f"[{colour[f.state]}]{f.state}[/]", f.name, f.found, f.advice)
        Console().print(table)
    return 1 if worst == "fail" else 0


def examine(root: Path = Path("/"), registry: Registry | None = None) -> list[Finding]:
    """All findings. ``root`` is where /proc and /sys are looked for."""
    return [
        _python(),
        *_processor(root),
        _governor(root),
        _temperature(),
        _memory(psutil.virtual_memory().available),
        _disk(cache_dir()),
        _compiler(),
        _cmake(),
        _portaudio(),
        *_llama(),
        *_models(registry or Registry.load()),
    ]


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    advice = "" if good else "PADS needs 3.11 or newer: set PADS_PYTHON, delete .venv, run ./scripts/setup"
    return Finding("python", "ok" if good else "fail", platform.python_version(), advice)


def _processor(root: Path) -> Iterator[Finding]:
    fields = _first_cpu(root)
    flags = fields.get("flags", "").split()
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    logical = os.cpu_count() or 1
    # On a machine with one core the recogniser and the language model take turns.
    advice = "" if cores > 1 else "one core: recogniser, language model and voice wait for each other"
    name = fields.get("model name", platform.processor() or platform.machine())
    yield Finding("cores", "ok" if cores > 1 else "warn", f"{cores} cores, {logical} threads, {name}", advice)
    if platform.machine().lower() in ("x86_64", "amd64"):
        known = [flag for flag in ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni") if flag in flags]
        has = "avx2" in known
        advice = "" if has else "without AVX2 the models run several times slower; nothing to be done on this CPU"
        yield Finding("instruction sets", "ok" if has else "warn", ", ".join(known) or "none of avx2, fma", advice)


def _governor(root: Path) -> Finding:
    folder = root / "sys/devices/system/cpu"
    found = sorted({_read(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    if not found:
        return Finding("CPU governor", "ok", "not visible (virtual machine or container)")
    steady = found == ["performance"]
    advice = "" if steady else "for steady timings on mains: sudo cpupower frequency-set -g performance"
    return Finding("CPU governor", "ok" if steady else "warn", ", ".join(found), advice)


def _temperature() -> Finding:
    # psutil has this function on some platforms only.
    sensors: Mapping[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()
    readings: list[float] = [entry.current for entries in sensors.values() for entry in entries if entry.current]
    if not readings:
        return Finding("temperature", "warn", "no sensor", "a slow-down through heat cannot be seen here")
    hottest = max(readings)
    advice = "" if hottest < HOT_C else "the CPU may be throttled: free the fan, let it cool down"
    return Finding("temperature", "ok" if hottest < HOT_C else "warn", f"{hottest:.0f} C at the hottest sensor", advice)


def _memory(available: float) -> Finding:
    advice = "" if available >= MIN_MEMORY else f"close other programs: {MIN_MEMORY / GB:.0f} GB are wanted"
    return Finding("free memory", "warn" if advice else "ok", f"{available / GB:.1f} GB", advice)


def _disk(folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    advice = "" if free >= MIN_DISK else "a build and larger models need room: set PADS_CACHE to another disk"
    return Finding("free disk", "warn" if advice else "ok", f"{free / GB:.1f} GB at {folder}", advice)


def _compiler() -> Finding:
    named = os.environ.get("CXX")
    for name in [named] if named else ["c++", "g++", "clang++"]:
        path = shutil.which(name)
        if path:
            return Finding("C++ compiler", "ok", path)
    return Finding("C++ compiler", "warn", "none", "needed to build llama.cpp: sudo apt-get install g++")


def _cmake() -> Finding:
    places = sorted(cache_dir().glob("build-tools-*/bin/cmake"))
    path = str(places[-1]) if places else shutil.which("cmake")
    if path:
        return Finding("cmake", "ok", path)
    return Finding("cmake", "ok", "not yet here", "./scripts/setup brings its own when it builds")


def _portaudio() -> Finding:
    try:
        import sounddevice
    except (OSError, ImportError):
        return Finding(
            "PortAudio", "warn", "none", "microphone and speaker need it: sudo apt-get install libportaudio2"
        )
    version = sounddevice.get_portaudio_version()[1].split(",")[0]
    return Finding("PortAudio", "ok", version)


def _llama() -> Iterator[Finding]:
    try:
        package = metadata.distribution("llama-cpp-python")
    except metadata.PackageNotFoundError:
        yield Finding("llama.cpp", "fail", "not installed", "run: ./scripts/setup")
        return
    wanted = {recipe(portable).version: note for portable, note in ((False, "for this CPU"), (True, "portable"))}
    ours = package.version in wanted
    found = f"{package.version} ({wanted[package.version]})" if ours else package.version
    # Another CPU's build may stop with an illegal instruction; an unpatched one lacks what the engine asks for.
    advice = "" if ours else "not the build for this tree and this CPU; run: ./scripts/setup"
    yield Finding("llama.cpp", "ok" if ours else "warn", found, advice)
    libraries = Path(str(package.locate_file("llama_cpp"))) / "lib"
    patches = b"".join(path.read_bytes() for path in recipe().native_patches)
    for capability, (library, symbol) in CAPABILITIES.items():
        if _exports(libraries / library, symbol):
            yield Finding(f"llama.cpp: {capability}", "ok", "yes")
        elif symbol in patches:
            yield Finding(f"llama.cpp: {capability}", "warn", "no", "this build lacks the patch; run: ./scripts/setup")
        else:
            yield Finding(f"llama.cpp: {capability}", "ok", "no, and no patch here adds it")


def _models(registry: Registry) -> Iterator[Finding]:
    for entry in registry.entries.values():
        if not entry.embedded:
            continue
        try:
            hashes = registry.verify(entry.name)
        except ModelError as exc:
            fault, _, remedy = str(exc).rpartition("; ")
            yield Finding(f"model {entry.name}", "fail", fault, remedy)
        else:
            pinned = all(file.sha256 for file in entry.files)
            found = f"{len(hashes)} file(s), {'sha256 matches' if pinned else 'sha256 not pinned'}"
            yield Finding(f"model {entry.name}", "ok", found)


def _exports(library: Path, symbol: bytes) -> bool:
    """Whether the name stands in the file's string table. Loading the library would start its threads."""
    try:
        return b"\0" + symbol + b"\0" in library.read_bytes()
    except OSError:
        return False


def _first_cpu(root: Path) -> dict[str, str]:
    lines = _read(root / "proc/cpuinfo").split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
