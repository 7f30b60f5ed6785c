"""The model registry: names, files and hashes of every model, and how each reaches this machine."""

from .entries import Entry, ModelFile
from .registry import REGISTRY_FILE, Registry

__all__ = ["REGISTRY_FILE", "Entry", "ModelFile", "Registry"]
