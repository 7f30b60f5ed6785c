"""What models/registry.yaml may say: one frozen model per part, unknown keys refused."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from ..config import Settings

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class WheelSource(Settings):
    """A wheel on the package index; only its files are taken, it is not installed."""

    package: str
    version: str
    sha256: Sha256


class HubSource(Settings):
    """A repository of a model hub at one revision."""

    repo: str
    revision: str


class PackageSource(Settings):
    """Files inside an installed distribution."""

    distribution: str


class Source(Settings):
    """Where files come from: exactly one of the four."""

    wheel: WheelSource | None = None
    hub: HubSource | None = None
    package: PackageSource | None = None
    path: str | None = None
    """A folder of this repository."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.wheel, self.hub, self.package, self.path)) != 1:
            raise ValueError("a source is exactly one of wheel, hub, package, path")
        return self

    def __str__(self) -> str:
        if self.wheel:
            return f"wheel {self.wheel.package} {self.wheel.version}"
        if self.hub:
            return f"hub {self.hub.repo}"
        return f"package {self.package.distribution}" if self.package else f"this repository, {self.path}/"


class ModelFile(Settings):
    """One file of a model."""

    name: Annotated[str, Field(pattern=r"^[^/\\]+$")]
    member: Annotated[str | None, Field(alias="from")] = None
    """Its path at the source, where that differs from ``name``."""
    bytes: Annotated[int | None, Field(gt=0)] = None
    sha256: Sha256 | None = None

    @property
    def at_source(self) -> str:
        return self.member or self.name


class Entry(Settings):
    """One model of the registry."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    kind: str
    licence: str
    source: Source
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1)]
    embedded: bool = False
    """Set-up fetches it."""
    note: str = ""

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        may_lack_hash = self.source.path is not None or self.source.hub is not None
        if not may_lack_hash and any(file.sha256 is None for file in self.files):
            raise ValueError("a file of a wheel or package needs its sha256")
        return self

    @property
    def bytes(self) -> int:
        """Size of all files, as far as it is known."""
        return sum(file.bytes or 0 for file in self.files)
