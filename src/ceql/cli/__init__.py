"""The command `ceql`. Without the extra `cli` it says what to install, so this module imports nothing from it."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """The entry point of the command."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(f"ceql: the command needs {' and '.join(missing)}: pip install 'ceql[cli]'", file=sys.stderr)
        sys.exit(3)
    try:
        from ceql.cli.app import app

        app(prog_name="ceql")
    except KeyboardInterrupt:  # pressed before the command handles it
        sys.exit(130)
