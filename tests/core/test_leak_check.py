"""The check that every test is under must itself be able to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

LEAKING = """
import asyncio
import pytest
from pads_runtime import clock
from pads_runtime.aio import Worker

async def test_task_on_the_test_loop():
    asyncio.create_task(asyncio.sleep(3600))

@pytest.mark.parametrize("virtual", [True, False])
def test_task_on_a_session_loop(virtual):
    async def main():
        asyncio.create_task(asyncio.Event().wait())
    clock.run(main, virtual=virtual)

def test_thread():
    Worker("left")

async def test_clean():
    worker = Worker("stopped")
    await worker.run(lambda: None)
    worker.stop(0.0)
"""


def test_a_test_that_leaks_a_task_or_a_thread_fails_and_a_clean_one_passes(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    text = CONFTEST.read_text(encoding="utf-8").replace("THREADS_END_WITHIN_S = 5.0", "THREADS_END_WITHIN_S = 0.2")
    (tmp_path / "conftest.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_leaking.py").write_text(LEAKING, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", f"--rootdir={tmp_path}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=CONFTEST.parents[1],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    # A leak is found at tear-down, so pytest counts the body as passed and the leak as an error.
    assert "5 passed, 4 errors" in ran.stdout, ran.stdout
    assert ran.stdout.count("leaked:") >= 4
    assert "thread pads-left" in ran.stdout
