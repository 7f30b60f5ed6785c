"""What training needs beyond the plain set-up, and one clear line where it is missing."""

from __future__ import annotations

import importlib
import os

from pads_runtime.errors import SetupError

PACKAGES = ("torch", "transformers", "peft", "accelerate", "gguf")


def check_installed(packages: tuple[str, ...] = PACKAGES) -> None:
    """Import what training needs, quietly. Raises SetupError, naming what is missing and how to get it."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars of other libraries; ours are lines
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for name in packages:
        try:
            importlib.import_module(name)
        except ImportError as exc:
            reason = " ".join(str(exc).split())
            raise SetupError(f"this needs the package {name} ({reason}); run: ./scripts/setup --training") from None
    if "transformers" in packages:
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
