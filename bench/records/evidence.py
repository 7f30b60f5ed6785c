"""The committed evidence of published figures: one small file a run, without the machine's paths and names.

``runs/`` is not committed, so a number in a document could name a run that nobody can look at. ``bench cite RUN``
copies what matters of it (manifest and figures) to ``bench/evidence/RUN.json``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pads_runtime.config import ROOT
from pads_runtime.errors import DataError
from pads_runtime.runs import TARGET_PRODUCT

from .read import SUPERSEDED, Run, read_run

EVIDENCE = ROOT / "bench" / "evidence"
_NOT_KEPT = ("pid", "user", "agent", "text", "prompt", "response", "by_item")
"""What people said in a corpus is not ours to hand on."""
MOST_BYTES = 60_000
_LONGEST_TEXT = 300
_PATH = re.compile(r"(?<![\w./:~-])/(?:[\w.@+-]+/)+([\w.@+-]*)|(?<![\w./:-])(?:\.\./)+(?:[\w.@+-]+/)*([\w.@+-]*)")
_KEPT = ("name", "purpose", "began_utc", "ended_utc", "status", "error", "git", "models")


def cite(folder: Path, supersedes: str | None = None, evidence: Path = EVIDENCE) -> Path:
    """Copy what matters of a run into the evidence; ``supersedes`` names one that it replaces. Returns the file.

    Raises DataError if the record cannot be read, or the run to replace has no evidence.
    """
    run = read_run(folder)
    if not run.manifest:
        raise DataError(f"'{folder}' cannot be cited: {'; '.join(run.faults)}")
    path = evidence / f"{run.name}.json"
    evidence.mkdir(parents=True, exist_ok=True)
    _write(path, entry(run))
    if supersedes is not None:
        old = evidence / f"{supersedes}.json"
        _write(old, {**_read(old), "tag": SUPERSEDED, "superseded_by": run.name})
    return path


def entry(run: Run) -> dict[str, Any]:
    """What is kept of a run. Figures beyond ``MOST_BYTES`` are left out and counted."""
    manifest = run.manifest
    machine = dict(manifest.get("machine") or {})
    machine["system"] = ".".join(str(machine.get("system", "")).split(".")[:2])
    kept = {key: manifest[key] for key in _KEPT if key in manifest}
    kept |= {
        "run": run.name,
        "tag": run.tag,
        "why_no_measurement": run.why,
        "command": _command(manifest.get("command") or []),
        "machine": machine,
        "reportable_as_target_hardware": manifest.get("reportable_as_target_hardware") is True,
        "protocol": dict(run.protocol),
        "figures": [],
    }
    room = MOST_BYTES - len(json.dumps(kept))
    left_out = 0
    for figure in map(_plain, run.figures):
        room -= len(json.dumps(figure))
        if room > 0:
            kept["figures"].append(figure)
        else:
            left_out += 1
    found: dict[str, Any] = _plain(kept | ({"figures_left_out": left_out} if left_out else {}))
    return found


def load_evidence(folder: Path = EVIDENCE) -> dict[str, dict[str, Any]]:
    """All evidence by run. Raises DataError for a file that is damaged or says what cannot be."""
    found = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    for name, kept in found.items():
        product = (kept.get("machine") or {}).get("product")
        if kept.get("reportable_as_target_hardware") and product != TARGET_PRODUCT:
            raise DataError(f"evidence '{name}' claims the target, but was made on '{product}'")
        if kept.get("run") != name:
            raise DataError(f"evidence '{name}' is that of run '{kept.get('run')}'; cite the run again")
    return found


def _command(words: list[Any]) -> str:
    texts = [str(word) for word in words]
    if texts and re.fullmatch(r"python[\d.]*", Path(texts[0]).name):
        texts[0] = "python"
    return shlex.join(_plain(texts))


def _plain(value: Any) -> Any:
    """Without folders of the machine, and with texts of readable length."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if key not in _NOT_KEPT}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        text = _PATH.sub(lambda match: match[1] or match[2] or "", value)
        return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."
    return value


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no evidence of run '{path.stem}'; make it with: ./scripts/bench cite {path.stem}") from None
    except (OSError, ValueError) as exc:
        raise DataError(f"evidence '{path.name}' cannot be read: {exc}") from None
    if not isinstance(found, dict):
        raise DataError(f"evidence '{path.name}' is no object")
    return found


def _write(path: Path, kept: Mapping[str, Any]) -> None:
    beside = path.with_suffix(".part")
    head = json.dumps({key: kept[key] for key in kept if key != "figures"}, indent=1, ensure_ascii=False)
    rows = ",\n".join("  " + json.dumps(figure, ensure_ascii=False) for figure in kept["figures"])
    text = f'{head.removesuffix("}").rstrip()},\n "figures": [\n{rows}\n ]\n}}\n'
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
