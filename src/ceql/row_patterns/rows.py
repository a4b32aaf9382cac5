"""The input of a clause: its rows by partition and in order, a column at a time.

Columns are put in order when something asks for them. Partitions come in the order of their first rows; rows that
ORDER BY does not tell apart keep the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.io import sort_keys
from ceql.jit import Array
from ceql.row_patterns import totals
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.expressions import as_array, evaluate, plain
from ceql.row_patterns.matched import Partitions
from ceql.row_patterns.navigation import Total, column_named
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.statement import RowPattern, SortKey


class Rows:
    """A table, by partition and in order."""

    def __init__(self, table: pa.Table, partition: Sequence[str], order: Sequence[tuple[str, SortKey]], in_days: bool):
        self.table = table
        self.in_days = in_days
        """Whether numbers beside dates are days."""
        self._partition = partition
        self._by = order
        self._columns: dict[str, pa.Array] = {}
        self._shifted: dict[tuple[str, int], pa.Array] = {}

    @property
    def partition_by(self) -> list[str]:
        return list(self._partition)

    @property
    def order_by(self) -> list[str]:
        return [name for name, _ in self._by]

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    @cached_property
    def codes(self) -> Array | None:
        """The number of each row's partition, in the order of the input; None if there is one partition."""
        codes: Array | None = None
        for name in self._partition:
            column = _combined(self.table[name])
            if not pa.types.is_dictionary(column.type):
                column = plain(column).dictionary_encode(null_encoding="encode")
            own = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
            codes = own if codes is None else codes * (int(own.max(initial=0)) + 1) + own
        if codes is None or len(self._partition) == 1:
            return codes
        return np.asarray(pa.array(codes).dictionary_encode().indices).astype(np.int64)

    @cached_property
    def order(self) -> Array | None:
        """The rows of the input in order; None if they are."""
        keys = [key for name, by in self._by for key in _keys(_combined(self.table[name]), by)]
        order = None if _ascending(keys) else np.lexsort(keys[::-1])
        codes = self.codes
        if codes is None:
            return order
        if order is not None:
            codes = codes[order]
        if (codes[1:] >= codes[:-1]).all():
            return order
        by_code = _stable(codes)
        return by_code if order is None else order[by_code]

    @cached_property
    def partitions(self) -> Partitions:
        codes = self.codes
        count = self.table.num_rows
        if codes is None:
            return Partitions(np.array([0, count] if count else [0], np.int64))
        sizes = np.bincount(codes)
        return Partitions(np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[sizes > 0])]))

    def in_order(self, values: Array) -> Array:
        """Values of the rows of the input, in order."""
        return values if self.order is None else values[self.order]

    def column(self, name: str) -> pa.Array:
        """A column in order."""
        if name not in self._columns:
            column = _combined(self.table[name])
            self._columns[name] = column if self.order is None else column.take(pa.array(self.order))
        return self._columns[name]

    def shifted(self, name: str, by: int) -> pa.Array:
        """The column of the row `by` rows on in the partition; NULL where there is none."""
        column = self.column(name)
        if by == 0:
            return column
        if (name, by) not in self._shifted:
            self._shifted[name, by] = shift(column, by, self.partitions.bounds)
        return self._shifted[name, by]

    def of_row(self, node: exp.Expr, by: int = 0) -> pa.Array:
        """What a column, or an aggregate OVER the partition, gives in the row `by` rows on."""
        if isinstance(node, exp.Column):
            return self.shifted(node.name, by)
        key = str(node.this), by
        if key not in self._shifted:
            over = self._over(*node.args["window"])
            self._shifted[key] = shift(over, by, self.partitions.bounds) if by else over
        return self._shifted[key]

    def _over(self, total: Total, running: bool) -> pa.Array:
        bounds, of_row = self.partitions.bounds, self.partitions.of_row
        stretch = _Stretch(bounds[:-1][of_row])
        arguments = [as_array(evaluate(tree, self.of_row), len(of_row)) for tree in total.arguments]
        if running:
            return totals.aggregate(total, arguments, stretch, stretch.first, np.arange(1, len(of_row) + 1))
        return totals.aggregate(total, arguments, stretch, bounds[:-1], bounds[1:]).take(pa.array(of_row))


@dataclass(frozen=True)
class _Stretch:
    """Rows that aggregates go along."""

    first: Array
    """Of each row: the first one of its partition."""


def shift(column: pa.Array, by: int, bounds: Array) -> pa.Array:
    count, far = len(column), min(abs(by), len(column))
    none = pa.nulls(far, column.type)
    parts = [none, column.slice(0, count - far)] if by < 0 else [column.slice(far), none]
    moved = pa.concat_arrays(parts)
    edges = bounds[:-1] if by < 0 else bounds[1:] - 1
    steps = np.arange(far) if by < 0 else -np.arange(far)
    outside = (edges[:, None] + steps[None, :]).ravel() if far * len(edges) < 4 * count + 64 else None
    if outside is None:
        owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        at = np.arange(count) + by
        inside = (at >= bounds[owner]) & (at < bounds[owner + 1])
    else:
        sizes = np.repeat(np.diff(bounds), far)
        near = np.tile(np.arange(far), len(edges)) < sizes
        inside = np.ones(count, bool)
        inside[outside[near]] = False
    return pc.if_else(pa.array(inside), moved, pa.scalar(None, column.type))


def rows_of(table: pa.Table, clause: RowPattern) -> Rows:
    """The rows that a clause reads."""
    return Rows(table, *column_keys(clause, list(table.column_names)), clause.dialect.in_days)


def names_of(clause: RowPattern, names: list[str], sql: str) -> tuple[list[str], list[tuple[str, SortKey]]]:
    """The columns of PARTITION BY and of ORDER BY."""
    problems = Problems()
    with problems.noted():
        return column_keys(clause, names)
    raise problems.error(sql)


def column_keys(clause: RowPattern, names: list[str]) -> tuple[list[str], list[tuple[str, SortKey]]]:
    """The columns of PARTITION BY and of ORDER BY; or why one is none."""
    partition = [column_named(_plain(each, "PARTITION BY"), names) for each in clause.partition]
    return partition, [(column_named(_plain(by.expression, "ORDER BY"), names), by) for by in clause.order]


def _plain(node: exp.Expr, clause: str) -> exp.Expr:
    if not isinstance(node, exp.Column):
        advice = "Compute it in a column of the rows, and name that."
        raise Refused(f"{clause} takes names of columns", span_of(node), advice)
    return node


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _keys(column: pa.Array, by: SortKey) -> list[Array]:
    """Whole numbers in the order that ORDER BY asks for; two if there are NULLs."""
    column = plain(column)
    if sort_keys.is_ordered(column.type) and not pa.types.is_decimal(column.type):
        key = sort_keys.encode(column, "ORDER BY")
    elif pa.types.is_boolean(column.type):
        key = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        key = pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    if by.descending:
        key = ~key
    if not column.null_count:
        return [key]
    null = pc.is_null(column).to_numpy(zero_copy_only=False)
    return [np.where(null, 0 if by.nulls_first else 1, 1 if by.nulls_first else 0), np.where(null, 0, key)]


def _ascending(keys: list[Array]) -> bool:
    """Whether rows are in the order of their keys."""
    if not keys:
        return True
    tied = np.ones(max(0, len(keys[0]) - 1), bool)
    for key in keys:
        if (key[1:] < key[:-1])[tied].any() if not tied.all() else (key[1:] < key[:-1]).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


def _stable(codes: Array) -> Array:
    """The rows by code, else as they are: NumPy sorts numbers of 16 bits by counting them."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    rest = codes >> 16
    while rest.any():
        order = order[np.argsort(rest[order].astype(np.uint16), kind="stable")]
        rest = rest >> 16
    return order
