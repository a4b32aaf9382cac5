"""The events that the studio shows: a table in order of time, which may still grow.

In: a file, an upload, an example, or JSON lines as they arrive. Out: `Data`, with the events as Arrow, their places on
the time axis as numbers, and what completion needs to know of their columns. The rows of `Data` are in order of time,
so that a position of a match is a row here; `given` has the numbers that these rows have in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.common.chunk import Int64s
from ceql.errors import DataError
from ceql.io.guess import time_column, type_column
from ceql.io.schemas import conform, is_text, unify_schemas
from ceql.io.source import Source
from ceql.results.axis import Floats, to_numbers

MOST_TYPES, MOST_VALUES = 200, 40
_LOOKED_AT = 200_000  # rows that are searched for values to offer


@dataclass(frozen=True)
class Columns:
    """Which columns have the types and the times, and the unit of times that are plain numbers."""

    type: str | None = None
    time: str | None = None
    time_unit: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `Query.run`."""
        return {"type": self.type, "time": self.time, "time_unit": self.time_unit}


def guess_columns(schema: pa.Schema, named: Columns) -> Columns:
    """The columns that are named, or that are called `type` and `time`, or that are the only ones of their kind."""
    type, time = named.type or type_column(schema), named.time or time_column(schema)
    return Columns(type, time, named.time_unit)


@dataclass(eq=False)
class Data:
    """A table of events in order of time. `live`: more of them may come; `changed` tells when they do."""

    id: str
    name: str
    origin: dict[str, Any]
    """What loads the same again, as a link says it."""
    columns: Columns
    batches: list[pa.RecordBatch]
    given: Int64s | None = None
    live: bool = False
    problem: str | None = None
    late: int = 0
    parts: dict[str, pa.Table] = field(default_factory=dict)
    """Of several streams, the events of each by its name (`streams.py`); empty for one."""
    stream: Int64s | None = None
    """Of several streams, the number of the stream of each row."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    _table: tuple[int, pa.Table] | None = None
    _places: tuple[int, tuple[Floats, bool]] | None = None

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def table(self) -> pa.Table:
        """All events that have come."""
        batches = list(self.batches)
        if self._table is None or self._table[0] != len(batches):
            if self.live or len({batch.schema for batch in batches}) > 1:
                schema = unify_schemas(batch.schema for batch in batches)
                batches = [conform(batch, schema) for batch in batches]
            made = pa.Table.from_batches(batches) if batches else pa.table({})
            self._table = len(batches), made
        return self._table[1]

    @property
    def places(self) -> tuple[Floats, bool]:
        """Where each event stands on the axis, and whether that is in seconds: by time, else by row."""
        table = self.table
        if self._places is None or len(self._places[1][0]) != table.num_rows:
            self._places = table.num_rows, self._find_places(table)
        return self._places[1]

    def _find_places(self, table: pa.Table) -> tuple[Floats, bool]:
        time, unit = self.columns.time, self.columns.time_unit
        if time is not None and time in table.schema.names and table.num_rows:
            column = table[time].combine_chunks()
            if pa.types.is_integer(column.type) and unit is not None:
                column = column.cast(pa.int64()).cast(pa.timestamp(unit))
            found = to_numbers(column)
            if found is not None and np.isfinite(found[0]).all():
                return found
        return np.arange(table.num_rows, dtype=np.float64), False

    def row_numbers(self, rows: Int64s) -> Int64s:
        """The numbers that these rows have in the file."""
        return rows if self.given is None else self.given[rows]

    def append(self, batch: pa.RecordBatch) -> None:
        """Take in events that have come; those before the latest time came late and take no part."""
        time = self.columns.time
        if time is not None and time in batch.schema.names and batch.num_rows:
            batch = self._in_order(batch, time)
        if batch.num_rows:
            with self.changed:
                self.batches.append(batch)
                self.changed.notify_all()

    def _in_order(self, batch: pa.RecordBatch, time: str) -> pa.RecordBatch:
        """The events of a batch that are no earlier than those before them."""
        found = to_numbers(batch.column(time))
        if found is None:
            raise DataError(f"the column '{time}' has no times")
        own = found[0]
        last = self.places[0][-1] if self.batches and len(self.places[0]) else -np.inf
        kept = own >= np.maximum.accumulate(np.concatenate([[last], own]))[:-1]
        self.late += int((~kept).sum())
        return batch if kept.all() else batch.filter(pa.array(kept))

    def end(self, problem: str | None = None) -> None:
        """No more events come."""
        with self.changed:
            self.live, self.problem = False, problem
            self.changed.notify_all()

    @cached_property
    def bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    def summary(self) -> dict[str, Any]:
        """What the page shows of the data, and what completion offers."""
        table = self.table
        return {
            "id": self.id,
            "name": self.name,
            "origin": self.origin,
            "rows": table.num_rows,
            "type": self.columns.type,
            "time": self.columns.time,
            "unit": self.columns.time_unit,
            "live": self.live,
            "problem": self.problem,
            "sorted": self.given is not None,
            "streams": list(self.parts),
            "columns": [
                column
                for described in zip(table.schema, table.columns, strict=True)
                for column in self._described(*described)
            ],
            "types": self._types(),
        }

    def _types(self) -> list[dict[str, Any]]:
        """The types of events, the most frequent first."""
        name, table = self.columns.type, self.table
        if name is None or name not in table.schema.names:
            return []
        counts = pc.value_counts(_plain(table[name])).to_pylist()
        found = [(c["values"], c["counts"]) for c in counts if c["values"] is not None]
        found.sort(key=lambda pair: -pair[1])
        return [{"name": str(value), "events": count} for value, count in found[:MOST_TYPES]]

    def _described(self, field: pa.Field, column: pa.ChunkedArray, path: str = "") -> Iterator[dict[str, Any]]:
        """A column, then the fields inside it, by their paths."""
        name, nested = path + field.name, pa.types.is_struct(field.type)
        values = [] if name == self.columns.type else _values(column)
        yield {"name": name, "type": "struct" if nested else str(field.type), "nested": path != "", "values": values}
        for k, inner in enumerate(field.type if nested else ()):
            yield from self._described(inner, pc.struct_field(column, [k]), f"{name}.")


def _values(column: pa.ChunkedArray) -> list[str]:
    """The values of a column of text that has few of them."""
    column = column.slice(0, _LOOKED_AT)
    if not (is_text(column.type) or pa.types.is_dictionary(column.type)):
        return []
    values = pc.unique(_plain(column)).drop_null().slice(0, MOST_VALUES + 1).to_pylist()
    return sorted(map(str, values)) if len(values) <= MOST_VALUES else []


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def from_source(id: str, name: str, origin: dict[str, Any], source: Source, columns: Columns) -> Data:
    """All events of a source, put in order of time."""
    source.time = columns.time
    batches = list(source.batches())
    table = pa.Table.from_batches(batches) if batches else source.schema.empty_table()
    order = _order(table, columns.time)
    if order is not None:
        table = table.take(pa.array(order))
    if table.num_columns and not pa.types.is_null(table.schema.field(0).type):
        table = table.combine_chunks()
    return Data(id, name, origin, columns, table.to_batches(), order)


def _order(table: pa.Table, time: str | None) -> Int64s | None:
    """The rows in order of time; None if they are."""
    if time is None or time not in table.schema.names or not table.num_rows:
        return None
    column = table[time].combine_chunks()
    if column.null_count:
        raise DataError(f"{column.null_count:,} events have no time (NULL in column '{time}')")
    found = to_numbers(column)
    if found is None:
        raise DataError(f"the column '{time}' ({column.type}) has no times; choose another column of times")
    if not (np.diff(found[0]) < 0).any():
        return None
    order: Int64s = np.argsort(found[0], kind="stable")
    return order
