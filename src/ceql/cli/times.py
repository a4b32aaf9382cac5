"""Times of events: text is read as ISO 8601, all times of a stream as one type; plain numbers are shown as times."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.schemas import is_text
from ceql.io.sort_keys import PER_SECOND
from ceql.io.times import type_of_times


class TextTimes:
    """Turns the column `name` into timestamps: in UTC if the first texts have a zone, else without a zone.

    With `skip`, events without a time are left out, and `skipped` counts them.
    """

    def __init__(self, name: str | None, skip: bool = False):
        self.name = name
        self.skipped = 0
        self._skip = skip
        self._seen = False
        self._type: pa.DataType | None = None

    def convert(self, table: pa.Table) -> pa.Table:
        """`table` with its time as a timestamp, if it is text or Arrow has read it as a timestamp."""
        index = table.schema.get_field_index(self.name) if self.name is not None else -1
        if index < 0:
            # without the column in any event, there is no time at all
            return self._timed(table, pa.nulls(table.num_rows)) if self._seen else table
        self._seen = True
        column = table.column(index)
        if is_text(column.type) or pa.types.is_timestamp(column.type):
            if self._type is None:
                self._type = self._type_of(column)
            column = self._cast(column)
            table = table.set_column(index, self.name, column)
        return self._timed(table, column)

    def _type_of(self, column: pa.ChunkedArray) -> pa.DataType:
        if self._skip and is_text(column.type):  # numbers, of which some are spoilt
            first = next((value.as_py() for value in column if value.is_valid), "")
            if re.fullmatch(r"[+-]?\d+(\.\d+)?", first):
                return pa.float64() if "." in first else pa.int64()
        return pa.timestamp("ns", column.type.tz) if pa.types.is_timestamp(column.type) else type_of_times(column)

    def _cast(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return column.cast(self._type)
        except pa.ArrowInvalid as error:
            if not self._skip:
                raise DataError(
                    f"the times in column '{self.name}' are not all ISO 8601 of one form: {error}"
                ) from error
        if len(column) == 1:
            return pa.chunked_array([pa.nulls(1, self._type)])
        half = len(column) // 2
        return pa.chunked_array([*self._cast(column[:half]).chunks, *self._cast(column[half:]).chunks])

    def _timed(self, table: pa.Table, column: pa.Array | pa.ChunkedArray) -> pa.Table:
        if not self._skip:
            return table
        absent = pc.is_null(column, nan_is_null=True)
        if not pc.any(absent).as_py():
            return table
        kept = table.filter(pc.invert(absent))
        self.skipped += table.num_rows - kept.num_rows
        return kept


def shown_times(table: pa.Table | pa.RecordBatch, names: tuple[str, ...], unit: str) -> pa.Table | pa.RecordBatch:
    """The table, with the columns `names` as timestamps if they are plain numbers of this unit."""
    for name in names:
        index = table.schema.get_field_index(name)
        if index < 0:
            continue
        column = table.column(index)
        if pa.types.is_integer(column.type):
            table = table.set_column(index, name, column.cast(pa.int64()).cast(pa.timestamp(unit)))
        elif pa.types.is_floating(column.type):
            # a double holds the seconds since 1970 to a microsecond
            micros = pc.round(pc.multiply(column.cast(pa.float64()), 1e6 / PER_SECOND[unit]))
            table = table.set_column(index, name, micros.cast(pa.int64(), safe=False).cast(pa.timestamp("us")))
    return table
