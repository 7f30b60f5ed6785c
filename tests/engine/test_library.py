"""Run in their own interpreters, because llama.cpp is loaded once per process."""

from __future__ import annotations

import os
import subprocess
import sys

from pads_runtime.engine.library import BEFORE_LOADING


def run(code: str, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in BEFORE_LOADING} | extra
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_is_set_before_the_library_loads_and_the_users_values_stay() -> None:
    code = (
        "import os, sys, pads_runtime.engine.engine; assert 'llama_cpp' not in sys.modules;"
        "print(os.environ['OMP_WAIT_POLICY'], os.environ['GGML_CPU_FA_NO_SPLIT_KV'])"
    )
    assert run(code).stdout.split() == ["PASSIVE", "1"]
    assert run(code, OMP_WAIT_POLICY="ACTIVE").stdout.split() == ["ACTIVE", "1"]


def test_it_warns_when_llama_cpp_came_first() -> None:
    done = run("import llama_cpp, pads_runtime.engine.library")
    assert done.returncode == 1
    assert "llama_cpp was imported before pads_runtime.engine" in done.stderr
    assert run("import llama_cpp, pads_runtime.engine.library", **BEFORE_LOADING).returncode == 0


def test_a_library_that_does_not_load_is_a_setup_error() -> None:
    code = (
        "from pads_runtime.engine.library import library\nfrom pads_runtime.errors import SetupError\n"
        "try: library()\nexcept SetupError as exc: print(exc)"
    )
    said = run(code, LLAMA_CPP_LIB_PATH="/nonexistent").stdout
    assert "the llama.cpp library does not load" in said
    assert "run ./scripts/setup" in said
