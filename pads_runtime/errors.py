"""Every error PADS raises on purpose.

::

    PadsError                   exit code 1
    ├── UsageError              exit code 2: the command line or a setting is wrong
    │   └── ConfigError         unknown key, value out of range, unreadable YAML
    ├── InputError              a file or text given by the user cannot be used
    ├── DataError               a data set is missing or not in the expected layout
    ├── SetupError              a compiler, library or capability is missing on this machine
    ├── ModelError              a model cannot be used
    │   ├── ModelMissing        not on this machine and could not be fetched
    │   └── ModelCorrupt        wrong size, wrong sha256, or the loader refuses it
    ├── DeviceError             a microphone, speaker or broker failed
    │   └── BrokerRefused       the broker is there and will not have us: certificate, login, access list
    ├── EngineError             the language model failed
    │   ├── EngineAborted       the running call was aborted on request
    │   ├── ContextFull         the text does not fit into the context
    │   └── EngineDead          the engine could not return to its last good mark
    ├── WorkerBusy              more work was handed to a worker than it may queue
    └── WorkerStopped           work was handed to a worker that has been shut down

Messages are one line: what happened, where, and what to do. Native errors are wrapped where they enter.
"""

from __future__ import annotations


class PadsError(Exception):
    """Base of all expected failures. ``exit_code`` is what the command line returns."""

    exit_code = 1


class UsageError(PadsError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is unknown, malformed or out of range."""


class InputError(PadsError):
    """A file or text given by the user cannot be used."""


class DataError(PadsError):
    """A data set is missing or is not laid out as expected."""


class SetupError(PadsError):
    """Something PADS needs is not installed on this machine."""


class ModelError(PadsError):
    """A model cannot be used."""


class ModelMissing(ModelError):
    """A model is not on this machine and could not be fetched."""


class ModelCorrupt(ModelError):
    """A model file has the wrong size or hash, or its loader refuses it."""


class DeviceError(PadsError):
    """An audio device or a broker failed."""


class BrokerRefused(DeviceError):
    """A broker answers and will not have us; only another setting, here or there, can help."""


class EngineError(PadsError):
    """The language model failed; the engine is back at its last good mark."""


class EngineAborted(EngineError):
    """The running call was stopped by ``abort``; roll back before the next call."""


class ContextFull(EngineError):
    """A text does not fit into the model's context even with all history dropped."""


class EngineDead(EngineError):
    """The engine could not return to a good state and serves nothing more."""


class WorkerStopped(PadsError):
    """A job was given to a worker after it was shut down."""


class WorkerBusy(PadsError):
    """A worker's bounded queue is full."""
