"""The first matches as a table: of plain characters for a terminal, as HTML for a notebook.

Attributes that SELECT names have columns of their own; a variable without such has one for its events. If the events
are not known, their positions are shown. Text from the data is made harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from shutil import get_terminal_size
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import kind_of, take_rows
from ceql.recognition.result_columns import is_measure
from ceql.results.reader import First
from ceql.results.tables import bound_events
from ceql.results.text import attributes, between, cell, clean, shorten, to_python, to_rows

_EVENTS = 8
_WIDTH = 60
_LEAST = 12
Kind = Literal["measure", "attribute", "key", "time", "events", "row"]
"""The contents that a column may have, in the order in which people look for them."""


@dataclass(frozen=True)
class Column:
    """A column of the view: its head, and for each match the lines of its cell."""

    head: str
    cells: list[list[str]]
    right: bool = False
    narrows: bool = False
    """Whether it may be cut where there is no room for all."""
    kind: Kind = "row"
    values: pa.Array | None = None
    """What the cells are sorted by; None for their text."""

    @property
    def texts(self) -> list[str]:
        """The head and the cells, each in a line."""
        return [self.head, *("; ".join(lines) for lines in self.cells)]


def columns(first: First, brief: bool = False) -> list[Column]:
    """The columns for the matches; `brief` leaves out the time of their start."""
    batch = first.matches
    middle = batch.schema.get_field_index("events")
    values = {name: to_python(batch.column(name), " ") for name in batch.schema.names[:middle]}
    rows = zip(values.pop("start"), values.pop("end"), strict=True)
    found = [Column("match", [[f"{start}..{end}"] for start, end in rows], values=batch.column("start"))]
    if "end_time" in values:
        times = zip(values.pop("start_time"), values.pop("end_time"), strict=True)
        cells = [[cell(end) if brief else between(start, end)] for start, end in times]
        when = batch.column("end_time" if brief else "start_time")
        found.append(Column("end" if brief else "time", cells, kind="time", values=when))
    for name, keys in values.items():
        found.append(_column(batch, name, keys, "key"))
    measures = [field.name for field in batch.schema if is_measure(field)]
    found += [_column(batch, name, to_python(batch.column(name), " "), "measure") for name in measures]
    for variable, lists, bound in bound_events(batch, first.selection):
        found += [replace(column, narrows=True) for column in _variable(first, variable, lists, bound)]
    return found


def _column(batch: pa.RecordBatch, name: str, values: list[Any], kind: Kind) -> Column:
    """The column of a key or a measure."""
    cells = [[cell(value)] for value in values]
    return Column(clean(name), cells, _is_number(batch.schema, name), kind=kind, values=batch.column(name))


def _variable(first: First, variable: str, lists: pa.Array, bound: Int64s) -> Iterator[Column]:
    """A column for each attribute that SELECT names, else one for all."""
    positions = lists.to_pylist()
    more = [[f"… {len(p) - _EVENTS} more"] if len(p) > _EVENTS else [] for p in positions]
    if first.rows is None:
        cells = [[", ".join([*map(str, p[:_EVENTS]), *m])] for p, m in zip(positions, more, strict=True)]
        yield Column(clean(variable), cells, kind="events")
        return
    ends = np.cumsum([0, *map(len, positions)])
    events = [
        to_rows(take_rows(first.rows, pa.array(bound[begin:end][:_EVENTS])), " ") for begin, end in pairwise(ends)
    ]
    names = first.selection.projections.get(variable)
    if names is None:
        texts = [
            [attributes(row, first.hidden) or f"#{position}" for position, row in zip(p, rows, strict=False)]
            for p, rows in zip(positions, events, strict=True)
        ]
        yield Column(clean(variable), [shown + m for shown, m in zip(texts, more, strict=True)], kind="events")
        return
    for name in names:
        single = variable in first.selection.singles
        null = "" if single else "NULL"
        values = [
            [null if row.get(name) is None else cell(row[name]) for row in rows] + m
            for rows, m in zip(events, more, strict=True)
        ]
        right = single and _is_number(first.rows.schema, name)
        yield Column(clean(f"{variable}.{name}"), [[", ".join(shown)] for shown in values], right, kind="attribute")


def by_weight(columns: list[Column]) -> list[int]:
    """The numbers of the columns, the most telling first: measures, selected attributes, keys, times, events, rows."""
    return sorted(range(len(columns)), key=lambda k: get_args(Kind).index(columns[k].kind))


def text(first: First, width: int | None = None) -> str:
    """A table of plain characters, as many columns as fit in `width` (the terminal's, unless given)."""
    width = get_terminal_size().columns if width is None else width
    whole = columns(first)
    if _total(_widths(whole)) > width:
        whole = columns(first, brief=True)
    widths = _widths(whole)
    while _total(widths) > width:
        wide = [k for k, column in enumerate(whole) if column.narrows and widths[k] > _LEAST]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    shown = [_aligned(column, w) for column, w in zip(whole, widths, strict=True)]
    fit = next((k for k in range(len(shown), 1, -1) if _total(widths[:k]) <= width), 1)
    lines = ["  ".join(cells[row] for cells in shown[:fit]).rstrip() for row in range(first.matches.num_rows + 1)]
    lines.insert(1, "  ".join("-" * len(cells[0]) for cells in shown[:fit]))
    if fit < len(shown):
        lines.append(f"… and the columns {', '.join(cells[0].strip() for cells in shown[fit:])}")
    lines.append(note(first))
    return "\n".join(lines)


def html(first: First) -> str:
    """A table element and a note below it, everything in them escaped."""
    return f"{html_table(telling(first), first.matches.num_rows)}<p>{escape(note(first))}</p>"


def telling(first: First) -> list[Column]:
    """The columns, the most telling first."""
    every = columns(first)
    return [every[k] for k in by_weight(every)]


def html_table(shown: list[Column], n: int) -> str:
    """These columns for `n` matches."""
    head = "".join(f"<th>{escape(column.head)}</th>" for column in shown)
    body = "".join(
        f"<tr>{''.join('<td>' + '<br>'.join(map(escape, column.cells[row])) + '</td>' for column in shown)}</tr>"
        for row in range(n)
    )
    return f'<table class="ceql-matches"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def html_note(why: str) -> str:
    """A note in place of matches that cannot be shown."""
    return f"<div><p>Matches: {escape(clean(why))}</p></div>"


def note(first: First) -> str:
    """How many matches there are, as far as that is known."""
    n = first.matches.num_rows
    if first.total is None:
        return f"the first {n} matches; there are more"
    if n < first.total:
        return f"the first {n} of {first.total:,} matches"
    return f"{n or 'no'} match{'' if n == 1 else 'es'}"


def _is_number(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and kind_of(schema.field(name).type) == "number"


def _widths(columns: list[Column]) -> list[int]:
    return [min(_WIDTH, max(map(len, column.texts))) for column in columns]


def _total(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _aligned(column: Column, width: int) -> list[str]:
    """The head and the cells, all of one width; numbers to the right."""
    texts = [shorten(text, width) for text in column.texts]
    return [text.rjust(width) if column.right else text.ljust(width) for text in texts]
