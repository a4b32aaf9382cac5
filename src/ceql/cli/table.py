"""Matches for people: a table of all of them, or a line for each while they stream."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ceql.cli.writers import Found
from ceql.recognition.result_columns import as_lists, is_measure, true_name, variable_fields
from ceql.results.text import between, cell, clean, event_text, to_python, to_rows

_SHOWN = 8


class TextTableWriter:
    """Writes positions, times, partition keys and the events of each variable."""

    def __init__(self, file: IO[str], projections: dict[str, tuple[str, ...]], hidden: set[str], streaming: bool):
        self._file = file
        self._projections = projections
        self._hidden = hidden
        self._streaming = streaming
        self._heads: list[str] = []
        self._lines: list[list[str]] = []

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        self._heads, lines = table_rows(batch, rows, self._projections, self._hidden)
        if not self._streaming:
            self._lines += lines
            return
        for first, *others in lines:
            named = [f"{head}: {text}".replace("\n", " | ") for head, text in zip(self._heads[1:], others, strict=True)]
            self._file.write("  ".join([first, *named]) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._lines:
            print_table(self._heads, self._lines, self._file)
            self._lines = []
        self._file.flush()
        if self._file is not sys.stdout:
            self._file.close()


def print_table(heads: Sequence[str], lines: Sequence[Sequence[str]], file: IO[str] | None = None) -> None:
    """Prints a table as wide as the terminal; in a file or pipe, as wide as it needs."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        widest = [
            max(len(part) for cells in column for part in cells.split("\n"))
            for column in zip(heads, *lines, strict=True)
        ]
        console.width = max(80, sum(widest) + 3 * len(widest) + 2)
    table = Table(box=SIMPLE, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(Text(clean(head)), overflow="fold")
    for line in lines:
        table.add_row(*(Text(text) for text in line))
    console.print(table)


def table_rows(
    batch: pa.RecordBatch, rows: pa.Table | None, projections: dict[str, tuple[str, ...]], hidden: set[str]
) -> tuple[list[str], list[list[str]]]:
    """The heads, and the cells of each match. Rows show their attributes except the `hidden` ones."""
    names = batch.schema.names
    middle = names.index("events")
    timed = "end_time" in names
    keys = names[4 if timed else 2 : middle]
    measures = [field.name for field in batch.schema if is_measure(field)]
    variables = [field.name for field in variable_fields(batch.schema)] or ["events"] * (not measures)
    columns = {name: to_python(batch.column(name), " ") for name in names if name not in variables}
    lists = {name: as_lists(batch.column(name)).to_pylist() for name in variables}
    all_rows = batch.column("events").to_pylist()
    events = None if rows is None else iter(to_rows(rows, " "))
    lines = []
    for k in range(batch.num_rows):
        line = [f"{columns['start'][k]}..{columns['end'][k]}"]
        if timed:
            line.append(between(columns["start_time"][k], columns["end_time"][k]))
        line += [cell(columns[name][k]) for name in [*keys, *measures]]
        mine = None if events is None else {position: next(events) for position in all_rows[k]}
        for name in variables:
            names = projections.get(true_name(batch.schema.field(name)))
            line.append(_events(lists[name][k], mine, names, hidden | set(keys)))
        lines.append(line)
    return ["match", *(["time"] if timed else []), *keys, *measures, *variables], lines


def struct_rows(
    table: pa.Table, projections: dict[str, tuple[str, ...]], hidden: set[str]
) -> tuple[list[str], list[list[str]]]:
    """The same for matches that hold their events, as Spark's do. Columns: keys, times, variables, all events."""
    names = table.column_names
    middle = names.index("start_time")
    keys = names[:middle]
    measures = [name for name in names[middle + 2 : -1] if not _has_events(table.schema.field(name).type)]
    variables = [name for name in names[middle + 2 : -1] if name not in measures] or ["events"] * (not measures)
    columns = {name: to_python(table[name], " ") for name in [*names[: middle + 2], *measures]}
    events = {name: _structs(table[name]) for name in variables}
    lines = []
    for k in range(table.num_rows):
        line = [between(columns["start_time"][k], columns["end_time"][k])]
        line += [cell(columns[name][k]) for name in [*keys, *measures]]
        for name in variables:
            rows = dict(enumerate(events[name][k]))
            line.append(_events(list(rows), rows, projections.get(name), hidden | set(keys)))
        lines.append(line)
    return ["time", *keys, *measures, *variables], lines


def _has_events(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) and pa.types.is_struct(type.value_type))


def _structs(column: pa.ChunkedArray) -> list[list[dict[str, Any]]]:
    """Lists of structs as lists of dicts, with times as text."""
    found = []
    for lists in column.chunks:
        rows = iter(to_rows(pa.RecordBatch.from_struct_array(lists.flatten()), " "))
        found += [[next(rows) for _ in range(n)] for n in lists.value_lengths().to_pylist()]
    return found


def _events(
    positions: list[int], rows: dict[int, dict[str, Any]] | None, names: tuple[str, ...] | None, hidden: set[str]
) -> str:
    more = [f"… {len(positions) - _SHOWN} more"] if len(positions) > _SHOWN else []
    if rows is None:
        return ", ".join([str(position) for position in positions[:_SHOWN]] + more)
    shown = [event_text(position, rows[position], names, hidden) for position in positions[:_SHOWN]]
    return (", " if names is not None and len(names) == 1 else "\n").join(shown + more)
