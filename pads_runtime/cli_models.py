"""``pads models list | pull | verify``. One JSON object on stdout with --json; progress always on stderr."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .errors import ModelCorrupt, ModelError, ModelMissing, PadsError, UsageError
from .models import Entry, Registry

models_app = typer.Typer(help="The models PADS uses: what is here, fetch one, check hashes.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@models_app.command("list")
def list_models(as_json: Json = False) -> None:
    """Every model of the registry and whether it is on this machine."""
    registry = Registry.load()
    rows = [_row(registry, entry) for entry in registry.entries.values()]
    if as_json:
        _print_json({"models": rows})
        return
    table = Table("model", "kind", "MB", "here", "set-up", "licence", "from")
    for column in table.columns[:5]:
        column.no_wrap = True
    for row in rows:
        size = f"{row['bytes'] / 1e6:.0f}" if row["bytes"] else "?"
        table.add_row(
            row["name"],
            row["kind"],
            size,
            row["state"],
            "yes" if row["embedded"] else "",
            row["licence"],
            row["source"],
        )
    Console().print(table)


@models_app.command()
def pull(
    name: Annotated[str | None, typer.Argument(help="A name from `pads models list`.")] = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="All that set-up needs.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch a model and check it. One that is here and right is kept."""
    if (name is None) != embedded:
        raise UsageError("give either one model name or --embedded; see: pads models list")
    registry = Registry.load()
    pulled = {}
    for entry in [registry.entry(name)] if name is not None else _embedded(registry):
        try:
            path = registry.pull(entry.name, _progress)
        except ModelMissing as exc:
            # A model this repository trains cannot be fetched; the rest of the set-up is of use without it.
            if embedded and entry.source.path is not None:
                _progress(f"warning: {exc}")
                continue
            raise
        pulled[entry.name] = str(path)
        _progress(f"{entry.name}: ready")
    if as_json:
        _print_json({"pulled": pulled})


@models_app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Default: the embedded ones and all others here.")] = None,
    as_json: Json = False,
) -> None:
    """Hash every file and compare with the registry. Exit code 1 if one is missing or wrong."""
    registry = Registry.load()
    chosen = names or [e.name for e in registry.entries.values() if e.embedded or _state(registry, e) != "no"]
    results: dict[str, dict[str, Any]] = {}
    faults: list[ModelError] = []
    for name in chosen:
        try:
            results[name] = {"ok": True, "sha256": registry.verify(name)}
            _progress(f"{name}: ok")
        except (ModelMissing, ModelCorrupt) as exc:
            results[name] = {"ok": False, "fault": str(exc)}
            faults.append(exc)
            _progress(f"{name}: {exc}")
    if as_json:
        _print_json({"models": results, "ok": not faults})
    if faults:
        raise typer.Exit(1)


def _row(registry: Registry, entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "state": _state(registry, entry),
        "embedded": entry.embedded,
        "licence": entry.licence,
        "source": str(entry.source),
        "note": entry.note,
    }


def _state(registry: Registry, entry: Entry) -> str:
    try:
        registry.path(entry.name)
    except ModelMissing:
        return "no"
    except ModelCorrupt:
        return "wrong size"
    return "yes"


def _embedded(registry: Registry) -> list[Entry]:
    return [entry for entry in registry.entries.values() if entry.embedded]


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value))


def main() -> int:
    """``python -m pads_runtime.cli_models``: the same commands where ``pads`` itself is not installed yet."""
    try:
        models_app()
    except PadsError as exc:
        _progress(f"error: {exc}")
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
