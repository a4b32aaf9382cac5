"""`ceql run --aggregate` and `--episodes`: totals over all matches, and matches that are near each other as one row.

They are tables, on the terminal or in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ceql.cli.arguments import OfRun
from ceql.cli.exit_codes import ExitCode, UsageError
from ceql.cli.formatting import to_json
from ceql.cli.output import written
from ceql.cli.run import opened
from ceql.cli.writers import Format, choose_format, write_table
from ceql.results.matches import Matches
from ceql.results.text import cell, to_rows

_MATCHES = "matches, for the exit code"


@dataclass(frozen=True)
class Asked:
    """The options of an aggregation."""

    columns: dict[str, str]
    by: tuple[str, ...]
    every: str | float | None


def read_asked(columns: Sequence[str], by: Sequence[str] | None, every: str | None) -> Asked | None:
    """What `--aggregate`, `--by` and `--every` ask for; None if they are not there.

    >>> read_asked(["n=COUNT(*)", "SUM(b.amount)"], ["card"], "1 minute").columns
    {'n': 'COUNT(*)', 'SUM(b.amount)': 'SUM(b.amount)'}
    """
    if not columns:
        for name, value in (("--by", by), ("--every", every)):
            if value:
                raise UsageError(f"{name} needs --aggregate: what is to be added up, such as 'n=COUNT(*)'")
        return None
    found: dict[str, str] = {}
    for text in columns:
        name, equals, aggregate = text.partition("=")
        name = name.strip() if equals else text
        if name in found:
            raise UsageError(f"--aggregate names two columns '{name}'")
        found[name] = aggregate if equals else text
    return Asked(found, tuple(by or ()), _number(every) if every is not None else None)


def _number(every: str) -> str | float:
    try:
        return float(every) if "." in every else int(every)
    except ValueError:
        return every


def aggregate(job: OfRun, asked: Asked) -> ExitCode:
    """Writes the totals. The exit code says whether there are matches."""

    def totals(matches: Matches) -> tuple[pa.Table, bool]:
        table = matches.aggregate({_MATCHES: "COUNT(*)", **asked.columns}, by=asked.by, every=asked.every)
        any_match = table.num_rows > 0 and (pc.max(table[_MATCHES].cast(pa.string())).as_py() != "0")
        return table.drop_columns([_MATCHES]), any_match

    return _tabulate(job, totals)


def episodes(job: OfRun, gap: str) -> ExitCode:
    """Writes the episodes that matches are united to."""

    def united(matches: Matches) -> tuple[pa.Table, bool]:
        table = matches.episodes(_number(gap))
        return table, table.num_rows > 0

    return _tabulate(job, united)


def _tabulate(job: OfRun, tabled: Callable[[Matches], tuple[pa.Table, bool]]) -> ExitCode:
    """Writes a table that is made of the matches, if there are any; `tabled` says so."""
    format = choose_format(job.format, job.file)
    with written(job.file, job.paths) as out:
        with opened(job) as matches:
            assert isinstance(matches, Matches)
            table, any_match = tabled(matches)
        write_any(table, format, out)
    return ExitCode.DONE if any_match else ExitCode.NO_MATCH


def write_any(table: pa.Table, format: Format, out: Path | None) -> None:
    """Writes a table in any format."""
    if format in (Format.csv, Format.parquet, Format.arrow):
        write_table(table, format, out)
        return
    lines = [to_json(row) for row in to_rows(table)] if format is Format.json else _lines(table)
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _lines(table: pa.Table) -> list[str]:
    """The table for people: numbers to the right."""
    rows = [[cell(value) for value in row.values()] for row in to_rows(table, separator=" ")]
    names = [cell(name) for name in table.column_names]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    right = [pa.types.is_primitive(type) and not pa.types.is_temporal(type) for type in table.schema.types]
    right = [r or pa.types.is_decimal(type) for r, type in zip(right, table.schema.types, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in [names, *rows]
    ]
