"""Imports point one way, and the error tree is the one that is drawn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pads_runtime import errors

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pads_runtime"
STAGES = ("audio", "turn", "asr", "acts", "gate", "engine", "speech", "bus", "dashboard")
BASICS = {"frames", "errors", "config", "clock", "aio", "logmel", "cachedir", "controls"}
"""What a stage may import besides itself."""
BASICS_MAY_IMPORT = {
    "frames": set(),
    "errors": set(),
    "config": {"errors", "frames"},
    "clock": set(),
    "aio": {"clock", "errors"},
    "logmel": {"frames", "errors"},
    "cachedir": set(),
    "controls": set(),
}
ALSO = {"dashboard": {"view", "trace"}}
"""The page shows what the terminal shows, and reads what the trace writes: one reduction and one format for both."""
WIRING = {
    "session",
    "crew",
    "mouth",
    "reply",
    "ears",
    "chat",
    "assemble",
    "talks",
    "live",
    "demo",
    "meetings",
    "cli",
    "doctor",
    "testing",
}
"""The modules that may know several stages."""


def ours(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Each import in ``path`` (a file of the dotted package ``package``) as (top package, next name or "")."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            yield top, rest.partition(".")[0]


def dotted(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).parent.parts)


def violations(root: Path) -> list[str]:
    """What the files of ``root``/pads_runtime import against the rule."""
    found = []
    for path in sorted((root / "pads_runtime").rglob("*.py")):
        parts = path.relative_to(root / "pads_runtime").with_suffix("").parts
        for top, name in ours(path, dotted(path, root)):
            if top in ("training", "bench", "tests"):
                found.append(f"{path.relative_to(root)} imports {top}")
            if top != "pads_runtime":
                continue
            allowed = (
                BASICS | {parts[0], "__version__"} | ALSO.get(parts[0], set())
                if parts[0] in STAGES
                else BASICS_MAY_IMPORT.get(parts[0], {name})
            )
            if name not in allowed:
                found.append(f"{path.relative_to(root)} imports {name}")
    return found


def test_stages_import_the_basics_and_themselves_only() -> None:
    assert violations(ROOT) == []


def test_only_the_wiring_knows_several_stages() -> None:
    knows: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).with_suffix("").parts[0]
        stages = {name for top, name in ours(path, dotted(path, ROOT)) if top == "pads_runtime" and name in STAGES}
        knows.setdefault(module, set()).update(stages)
    several = {module for module, stages in knows.items() if len(stages) > 1}
    assert "session" in several
    assert several <= WIRING


def test_every_stage_has_its_folder() -> None:
    assert [stage for stage in STAGES if not (PACKAGE / stage).is_dir()] == []


@pytest.mark.parametrize(
    ("where", "text", "found"),
    [
        ("turn/vad.py", "from ..asr.protocol import Recognizer", "pads_runtime/turn/vad.py imports asr"),
        ("turn/vad.py", "from .. import session", "pads_runtime/turn/vad.py imports session"),
        ("engine/native/deep.py", "from ...gate import machine", "pads_runtime/engine/native/deep.py imports gate"),
        ("asr/a.py", "def f():\n    import pads_runtime.engine.model", "pads_runtime/asr/a.py imports engine"),
        ("session.py", "from training.acts import fit", "pads_runtime/session.py imports training"),
        ("frames.py", "from .errors import PadsError", "pads_runtime/frames.py imports errors"),
        ("clock.py", "from .aio import Worker", "pads_runtime/clock.py imports aio"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, where: str, text: str, found: str) -> None:
    planted = tmp_path / "pads_runtime" / where
    planted.parent.mkdir(parents=True)
    planted.write_text(text, encoding="utf-8")
    assert violations(tmp_path) == [found]


def test_what_is_allowed_is_not_found(tmp_path: Path) -> None:
    planted = tmp_path / "pads_runtime" / "turn" / "vad.py"
    planted.parent.mkdir(parents=True)
    planted.write_text("import numpy\nfrom ..frames import AudioFrame\nfrom . import schedule\nfrom .. import logmel\n")
    assert violations(tmp_path) == []


def drawn_tree(docstring: str) -> dict[str, str]:
    """Class to parent, from a tree drawn with box characters."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in docstring.splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+) ", line)
        if match:
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            parents[match[2]] = path[depth - 1] if depth else "Exception"
    return parents


def test_the_drawn_error_tree_is_the_real_one() -> None:
    real = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert errors.__doc__ is not None
    assert drawn_tree(errors.__doc__) == real


def test_only_usage_errors_exit_with_2() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.PadsError):
            assert kind.exit_code == (2 if issubclass(kind, errors.UsageError) else 1)
