"""What is built and under which key: source, patches, flags and CPU. Standard library only.

The key names a wheel in the cache and becomes the local part of its version, ``0.3.36+pads.k<12 hex digits>``, so the
installed package itself says whether it is the right one.
"""

from __future__ import annotations

import hashlib
import platform
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Everything the bindings do not load costs half of the build: the tools, the server, the web pages, the common library.
COMMON_FLAGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "LLAVA_BUILD": "OFF",
    "LLAMA_BUILD_COMMON": "OFF",
    "LLAMA_BUILD_TOOLS": "OFF",
    "LLAMA_BUILD_SERVER": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_OPENSSL": "OFF",
    # A build that differs by what happens to be installed cannot be named by our key.
    "GGML_CCACHE": "OFF",
}
X86_BASELINE = {
    "GGML_SSE42": "ON",
    "GGML_AVX": "ON",
    "GGML_AVX2": "ON",
    "GGML_FMA": "ON",
    "GGML_F16C": "ON",
    "GGML_BMI2": "ON",
}

# The instruction-set flags that -march=native reacts to; the others in /proc/cpuinfo change with every kernel.
_ISA_PREFIXES = (
    "sse",
    "ssse",
    "avx",
    "fma",
    "f16c",
    "bmi",
    "amx",
    "popcnt",
    "movbe",
    "aes",
    "vaes",
    "vpclmul",
    "pclmul",
    "gfni",
    "sha",
    "adx",
    "abm",
    "lzcnt",
    "sve",
    "asimd",
    "i8mm",
    "bf16",
    "neon",
)
_IDENTITY_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant")


@dataclass(frozen=True)
class Source:
    """One source release on the package index."""

    package: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Recipe:
    """All that decides what the built wheel contains."""

    source: Source
    native_patches: tuple[Path, ...]
    """Applied inside vendor/llama.cpp, in name order."""
    python_patches: tuple[Path, ...]
    """Applied at the top of the source release, in name order."""
    flags: dict[str, str]
    """CMake cache entries."""
    platform: str
    cpu: str
    """Identity of the CPU, or ``portable``."""

    @property
    def key(self) -> str:
        """``k`` and 12 hex digits. The letter keeps the version's local part from being read as a number."""
        digest = hashlib.sha256()
        for part in ("1", self.source.package, self.source.version, self.source.sha256, self.platform, self.cpu):
            digest.update(part.encode() + b"\0")
        for name, value in sorted(self.flags.items()):
            digest.update(f"{name}={value}".encode() + b"\0")
        for kind, patches in (("native", self.native_patches), ("python", self.python_patches)):
            for patch in patches:
                digest.update(f"{kind}/{patch.name}".encode() + b"\0")
                digest.update(hashlib.sha256(patch.read_bytes()).digest())
        return "k" + digest.hexdigest()[:12]

    @property
    def version(self) -> str:
        """Version of the built wheel."""
        return f"{self.source.version}+pads.{self.key}"


def read_source(path: Path = HERE / "source.toml") -> Source:
    """The pinned source release."""
    return Source(**tomllib.loads(path.read_text(encoding="utf-8")))


def recipe(portable: bool = False, patches: Path = HERE / "patches") -> Recipe:
    """The recipe for this machine; ``portable`` builds for any x86-64 CPU with AVX2 instead of this one alone."""
    flags = dict(COMMON_FLAGS)
    flags["GGML_NATIVE"] = "OFF" if portable else "ON"
    if portable and platform.machine().lower() in ("x86_64", "amd64"):
        flags |= X86_BASELINE
    return Recipe(
        source=read_source(),
        native_patches=tuple(sorted(patches.glob("*.patch"))),
        python_patches=tuple(sorted((patches / "python").glob("*.patch"))),
        flags=flags,
        platform=sysconfig.get_platform(),
        cpu="portable" if portable else cpu_identity(_cpuinfo()),
    )


def cpu_identity(cpuinfo: str) -> str:
    """Hash of the first CPU's make and instruction sets in the text of /proc/cpuinfo."""
    first = cpuinfo.strip().split("\n\n")[0]
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    identity = [f"{name}={fields[name]}" for name in _IDENTITY_FIELDS if name in fields]
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    identity += sorted(flag for flag in set(flags) if flag.startswith(_ISA_PREFIXES))
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return f"model: {platform.machine()} {platform.processor()}"
