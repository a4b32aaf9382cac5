"""Words: values of rows as whole numbers of 64 bits, which conditions on several rows compare and calculate with.

Times are nanoseconds, decimals units of their last digit, floats in the order-preserving form of `io.sort_keys`, texts
their rank among all that the conditions compare.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.groups.layout import NULL
from ceql.errors import DataError
from ceql.io import sort_keys
from ceql.jit import Array
from ceql.row_patterns.expressions import Column, as_array, plain
from ceql.row_patterns.problem import Refused


class Kind(NamedTuple):
    """What the words of a column are."""

    name: str
    scale: int = 0
    """How many digits a decimal has behind the point: its words are whole numbers of the last one."""

    @property
    def is_exact(self) -> bool:
        """Whether it is a whole number or a decimal."""
        return self.name in (INT.name, DECIMAL)


DECIMAL = "a decimal"
INT, FLOAT, TEXT, TRUTH = Kind("a whole number"), Kind("a float"), Kind("text"), Kind("a truth value")
TIME, SPAN = Kind("a time"), Kind("an interval")


class Words:
    """The words of each row, with one scale for texts."""

    def __init__(self, rows: int):
        self._rows = rows
        self._columns: list[tuple[pa.Array, Kind]] = []

    def add(self, column: Column) -> tuple[int, Kind]:
        """The number and the kind of a column's word."""
        column = plain(as_array(column, self._rows))
        kind = kind_of(column.type)
        if kind is None:
            raise Refused(f"a value of type {column.type} cannot be compared between rows", None)
        for number, (known, _) in enumerate(self._columns):
            if known.type == column.type and known.equals(column):
                return number, kind
        self._columns.append((column, kind))
        return len(self._columns) - 1, kind

    def encoded(self) -> Array:
        """All words, int64[rows, words]."""
        words = np.empty((self._rows, len(self._columns)), np.int64)
        own = [k for k, (_, each) in enumerate(self._columns) if each == TEXT]
        if own:
            columns = [self._columns[k][0] for k in own]
            if any(pa.types.is_large_string(column.type) for column in columns):
                columns = [column.cast(pa.large_string()) for column in columns]
            ranks = pc.rank(pa.concat_arrays(columns), tiebreaker="dense").to_numpy().astype(np.int64)
            words[:, own] = ranks.reshape(len(own), self._rows).T
        for k, (column, kind) in enumerate(self._columns):
            if kind in (INT, TIME, SPAN, TRUTH):
                words[:, k] = whole(column)
            elif kind == FLOAT:
                words[:, k] = sort_keys.encode(column.cast(pa.float64()), "DEFINE")
            elif kind.name == DECIMAL:
                words[:, k] = _unscaled(column)
            if column.null_count:
                words[pc.is_null(column).to_numpy(zero_copy_only=False), k] = NULL
        return words


def _unscaled(column: pa.Array) -> Array:
    """The whole numbers of decimals, in units of their last digit."""
    numbers = pc.fill_null(column, 0).cast(pa.decimal128(38, column.type.scale))
    halves = np.frombuffer(numbers.buffers()[1], np.int64)[2 * numbers.offset : 2 * (numbers.offset + len(numbers))]
    low, high = halves[0::2], halves[1::2]
    if (high != low >> 63).any():
        raise DataError("a decimal that DEFINE compares between rows has more than 18 digits: cast it to DOUBLE")
    return low


def kind_of(type: pa.DataType) -> Kind | None:
    """What kind of word a column of a type has."""
    if pa.types.is_null(type) or pa.types.is_boolean(type):
        return TRUTH
    if pa.types.is_temporal(type):
        return SPAN if pa.types.is_duration(type) else TIME
    if pa.types.is_integer(type):
        return INT
    if pa.types.is_floating(type):
        return FLOAT
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return TEXT
    return Kind(DECIMAL, type.scale) if pa.types.is_decimal(type) else None


def whole(column: pa.Array) -> Array:
    """Whole numbers as they are, times in nanoseconds."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", getattr(column.type, "tz", None)))
    elif pa.types.is_time(column.type):
        column = column.cast(pa.time64("ns"))
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.duration("ns"))
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) or pa.types.is_null(column.type) else column
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
