"""`ceql sql`: a statement with MATCH_RECOGNIZE over files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ceql.cli.aggregate import write_any
from ceql.cli.exit_codes import ExitCode, UsageError
from ceql.cli.output import written
from ceql.cli.writers import Format, choose_format


def run_sql(sql: str, files: Sequence[str], out: Path | None, format: Format | None, dialect: str | None) -> ExitCode:
    """Write the rows of a statement; whether there are any is the exit code."""
    from ceql.row_patterns.run import run

    chosen = choose_format(format, out)
    tables = _tables(files)
    with written(out, tables.values()) as path:
        found = run(sql, next(iter(tables.values())) if list(tables) == [""] else tables, dialect)
        write_any(found, chosen, path)
    return ExitCode.DONE if len(found) else ExitCode.NO_MATCH


def explain_sql(sql: str, files: Sequence[str], dialect: str | None) -> str:
    """What running a statement over files costs."""
    from ceql.row_patterns.run import explain

    tables = _tables(files)
    return explain(sql, next(iter(tables.values())) if list(tables) == [""] else tables, dialect)


def _tables(files: Sequence[str]) -> dict[str, str]:
    """Files by the names of their tables; the only file may do without."""
    if len(files) == 1 and (os.path.exists(files[0]) or "=" not in files[0]):
        return {"": files[0]}
    tables: dict[str, str] = {}
    for each in files:
        name, equals, path = each.partition("=")
        if not equals or name in tables:
            raise UsageError(f"with several files each has its table's name, once: name=file, not {each!r}")
        tables[name] = path
    return tables
