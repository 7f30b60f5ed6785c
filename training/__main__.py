"""``python -m training NAME``: one sub-command per thing that is trained.

Progress goes to stderr; with ``--json`` one JSON object goes to stdout. Exit codes: 2 for a wrong command line, 1 for
anything else that fails, each with one line that begins with FATAL.
"""

from __future__ import annotations

import sys

import typer

from pads_runtime.errors import PadsError

from .acts.cli import acts
from .exits.cli import exits
from .export.cli import export
from .layerskip.cli import layerskip
from .vap.cli import vap

app = typer.Typer(help="Fit the models that PADS ships.", no_args_is_help=True, add_completion=False)
app.command()(acts)
app.command()(exits)
app.command()(layerskip)
app.command()(export)
app.command()(vap)


@app.callback()
def _subcommands() -> None:
    """Keeps the name of the sub-command on the command line even while there is only one."""


def main() -> None:
    """Run the command line; turns a PadsError into one line and its exit code."""
    try:
        app()
    except PadsError as exc:
        print(f"FATAL: {exc}", file=sys.stderr)
        raise SystemExit(exc.exit_code) from None


if __name__ == "__main__":
    main()
