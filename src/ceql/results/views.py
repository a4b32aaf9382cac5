"""The first matches as a table: of plain characters for a terminal, as HTML for a notebook.

Each variable has a column with the attributes of its events, as SELECT says. If the events are not known, it has
their positions. Text from the data is made harmless in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from shutil import get_terminal_size

import numpy as np
import pyarrow as pa

from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import take_rows
from ceql.results.reader import First
from ceql.results.tables import bound_events
from ceql.results.text import between, cell, clean, event_text, shorten, to_python, to_rows

_EVENTS = 8
_WIDTH = 60
_LEAST = 12


@dataclass(frozen=True)
class Column:
    """A column of the view: its head, and for each match the lines of its cell."""

    head: str
    cells: list[list[str]]
    right: bool = False


def columns(first: First) -> list[Column]:
    """The columns for the matches."""
    batch = first.matches
    middle = batch.schema.get_field_index("events")
    values = {name: to_python(batch.column(name), " ") for name in batch.schema.names[:middle]}
    rows = zip(values.pop("start"), values.pop("end"), strict=True)
    found = [Column("match", [[f"{start}..{end}"] for start, end in rows])]
    if "end_time" in values:
        times = zip(values.pop("start_time"), values.pop("end_time"), strict=True)
        found.append(Column("time", [[between(start, end)] for start, end in times]))
    for name, keys in values.items():
        right = pa.types.is_integer(batch.schema.field(name).type)
        found.append(Column(clean(name), [[cell(key)] for key in keys], right))
    for variable, lists, bound in bound_events(batch, first.selection):
        lengths = np.asarray(lists.value_lengths()).astype(np.int64)
        ends = np.cumsum(lengths)
        cells = []
        for positions, end, length in zip(lists.to_pylist(), ends.tolist(), lengths.tolist(), strict=True):
            shown = _events(first, variable, positions[:_EVENTS], bound[end - length : end][:_EVENTS])
            cells.append(shown + ([f"… {length - _EVENTS} more"] if length > _EVENTS else []))
        found.append(Column(clean(variable), cells))
    return found


def _events(first: First, variable: str, positions: list[int], bound: Int64s) -> list[str]:
    if first.rows is None:
        return [", ".join(map(str, positions))]
    names = first.selection.projections.get(variable)
    rows = to_rows(take_rows(first.rows, pa.array(bound)), " ")
    texts = [event_text(at, row, names, first.hidden) for at, row in zip(positions, rows, strict=True)]
    return [", ".join(texts)] if names is not None and len(names) == 1 else texts


def text(first: First, width: int | None = None) -> str:
    """A table of plain characters, as many columns as fit in `width` (the terminal's, unless given)."""
    width = get_terminal_size().columns if width is None else width
    shown, used = [], 0
    whole = columns(first)
    for k, column in enumerate(whole):
        left = len(whole) - k - 1
        # the last columns make room for each other
        room = max(min(_WIDTH, width - used - left * (_LEAST + 2)), _LEAST)
        shown.append(_aligned(column, room))
        used += 2 + len(shown[-1][0])
    fit = next((k for k in range(len(shown), 1, -1) if sum(2 + len(cells[0]) for cells in shown[:k]) - 2 <= width), 1)
    lines = ["  ".join(cells[row] for cells in shown[:fit]).rstrip() for row in range(first.matches.num_rows + 1)]
    lines.insert(1, "  ".join("-" * len(cells[0]) for cells in shown[:fit]))
    if fit < len(shown):
        lines.append(f"… and the columns {', '.join(cells[0].strip() for cells in shown[fit:])}")
    lines.append(note(first))
    return "\n".join(lines)


def html(first: First) -> str:
    """A table element and a note below it, everything in them escaped."""
    shown = columns(first)
    head = "".join(f"<th>{escape(column.head)}</th>" for column in shown)
    body = "".join(
        f"<tr>{''.join('<td>' + '<br>'.join(map(escape, column.cells[row])) + '</td>' for column in shown)}</tr>"
        for row in range(first.matches.num_rows)
    )
    table = f'<table class="ceql-matches"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"{table}<p>{escape(note(first))}</p>"


def html_note(why: str) -> str:
    """A note in place of matches that cannot be shown."""
    return f"<div><p>Matches: {escape(clean(why))}</p></div>"


def note(first: First) -> str:
    """How many matches there are, as far as that is known."""
    n = first.matches.num_rows
    if first.total is None:
        return f"the first {n} of more than {n} matches"
    if n < first.total:
        return f"the first {n} of {first.total:,} matches"
    return f"{n or 'no'} match{'' if n == 1 else 'es'}"


def _aligned(column: Column, room: int) -> list[str]:
    """The head and the cells, all of one width, at most `room`; numbers to the right."""
    cells = [column.head, *("; ".join(lines) for lines in column.cells)]
    cells = [shorten(text, room) for text in cells]
    width = max(map(len, cells))
    return [text.rjust(width) if column.right else text.ljust(width) for text in cells]
