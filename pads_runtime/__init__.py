"""PADS: a spoken-dialogue runtime that prepares its reply while the person pauses.

The folders follow the data: ``audio`` -> ``turn`` -> ``asr`` -> ``acts`` -> ``gate`` -> ``engine`` -> ``speech``.
Stages import :mod:`pads_runtime.frames` and never each other; :mod:`pads_runtime.session` wires them.
"""

__version__ = "0.1.0"
