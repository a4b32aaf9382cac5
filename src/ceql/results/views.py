"""The first matches as text for a terminal and as HTML for a notebook. Text from the data is made harmless in both."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from shutil import get_terminal_size
from typing import Any

import pyarrow as pa

Render = Callable[[pa.Table, bool], str]
Note = Callable[[str], str]

_CELL = 40
_ITEMS = 8


def text(table: pa.Table, more: bool, width: int | None = None) -> str:
    """A table of plain characters, as many columns as fit in `width` (the terminal's, unless given)."""
    width = get_terminal_size().columns if width is None else width
    columns = [_column(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    fit, used = 0, -2
    for cells in columns:
        used += 2 + len(cells[0])
        if used > width and fit:
            break
        fit += 1
    lines = ["  ".join(cells[row] for cells in columns[:fit]).rstrip() for row in range(table.num_rows + 1)]
    lines.insert(1, "  ".join("-" * len(cells[0]) for cells in columns[:fit]))
    if fit < len(columns):
        lines.append(f"… and the columns {', '.join(map(clean, table.column_names[fit:]))}")
    lines.append(_note(table, more))
    return "\n".join(lines)


def html(table: pa.Table, more: bool) -> str:
    """A table element, everything in it escaped."""
    head = "".join(f"<th>{escape(clean(name))}</th>" for name in table.column_names)
    columns = [[cell(value) for value in column.to_pylist()] for column in table.columns]
    rows = ["".join(f"<td>{escape(column[row])}</td>" for column in columns) for row in range(table.num_rows)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table_html = f'<table class="ceql-matches"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"<div>{table_html}<p>{escape(_note(table, more))}</p></div>"


def html_note(why: str) -> str:
    """A note in place of matches that cannot be shown."""
    return f"<div><p>Matches: {escape(clean(why))}</p></div>"


def cell(value: Any) -> str:
    """A value in at most `_CELL` printable characters.

    >>> cell([1, 2, 3]), cell(None), cell("a\\nb")
    ('[1, 2, 3]', '', 'a\\\\nb')
    """
    if value is None:
        return ""
    if isinstance(value, list):
        shown = [cell(item) for item in value[:_ITEMS]] + (["…"] if len(value) > _ITEMS else [])
        value = f"[{', '.join(shown)}]"
    printable = clean(str(value))
    return printable if len(printable) <= _CELL else printable[: _CELL - 1] + "…"


def clean(value: str) -> str:
    """`value` with everything that a terminal would obey instead of show (line ends, escape codes) spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def _column(name: str, column: pa.ChunkedArray) -> list[str]:
    """The cells of a column with its name first, all of one width; numbers to the right."""
    cells = [cell(name), *map(cell, column.to_pylist())]
    width = max(map(len, cells))
    right = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return [c.rjust(width) if right else c.ljust(width) for c in cells]


def _note(table: pa.Table, more: bool) -> str:
    if more:
        return f"the first {table.num_rows} matches, … more"
    return f"{table.num_rows or 'no'} match{'' if table.num_rows == 1 else 'es'}"
