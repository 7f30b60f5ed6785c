"""The command line without PyTorch: what is wrong is said in one line, before anything heavy is loaded."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *arguments: str, without_torch: bool = False) -> subprocess.CompletedProcess[str]:
    path = [str(ROOT)]
    if without_torch:
        (folder / "torch.py").write_text('raise ModuleNotFoundError("No module named torch", name="torch")\n')
        path.insert(0, str(folder))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PADS_CACHE": str(folder / "cache")}
    words = [sys.executable, "-m", "training", *arguments]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_without_torch_it_says_how_to_get_it(tmp_path: Path, dailydialog: Path, ami: Path) -> None:
    data = ["--data", str(dailydialog), "--ami", str(ami), "--ami-exclude-meetings", "EN2001a"]
    for words in (["layerskip", *data], ["layerskip", "--smoke", *data], ["export", "somewhere"]):
        done = run(tmp_path, *words, without_torch=True)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("FATAL: this needs the package torch")
        assert last.endswith("run: ./scripts/setup --training")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--data", "nowhere", "--ami", "AMI"), 1, "FATAL: DailyDialog: 'nowhere/dailydialog.tsv.gz' not found"),
        (("--ami", "nowhere"), 1, "FATAL: AMI corpus 'nowhere' not found; give the corpus's own package"),
        (("--ami", "AMI", "--ami-exclude-meetings", "EN2001a,ES202b"), 1, "FATAL: --ami-exclude-meetings: 'ES202b' is"),
        (("--exits", "six"), 2, "FATAL: --exits six: give layer numbers"),
        (("--dtype", "int8"), 2, "FATAL: --dtype int8: give auto"),
        (("--steps", "0"), 2, "Invalid value for '--steps'"),
    ],
)
def test_wrong_data_and_wrong_usage_end_in_one_line(
    tmp_path: Path, ami: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    words = [str(ami) if word == "AMI" else word for word in arguments]
    if "--ami-exclude-meetings" not in words:
        words += ["--ami-exclude-meetings", "EN2001a"]
    done = run(tmp_path, "layerskip", *words)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_runtime_imports_none_of_it() -> None:
    heavy = {"torch", "transformers", "peft", "accelerate", "gguf", "training"}
    found = set()
    for path in (ROOT / "pads_runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {(path.name, name) for name in names if name.partition(".")[0] in heavy}
    assert found == set()
    code = "import sys, pads_runtime.assemble, pads_runtime.cli; print(sorted(set(sys.argv[1:]) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, *heavy], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
