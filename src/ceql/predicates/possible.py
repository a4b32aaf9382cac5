"""Whether any event of many can satisfy a guard, by what is known of their columns (`io.parquet_pieces.Bounds`).

In: the bound guards, and for each column the least and greatest value, or all values there are. Out: False only if none
of the events satisfies any guard. Each column gives a set of classes that its values may have, a test the set of what
it may say of these, and logic works on such sets. `Possible` says the same of each event, by some of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from ceql.io.parquet_pieces import Bounds
from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.bind import BoundGuards
from ceql.predicates.columns import AttributeColumn, Column, NullColumn, NumberColumn, StreamColumn
from ceql.predicates.logic import FALSE, TRUE, AllOf, AnyOf, ColumnTest, Constant, Logic, Not, code
from ceql.predicates.text_column import TextColumn

Classes = frozenset[int]
_MOST_CODES = 1 << 10  # that are looked at one by one


def may_hold(bound: BoundGuards, bounds: Callable[[str], Bounds]) -> bool:
    """Whether an event of stream 0 with such values may satisfy a guard."""
    return _may_hold(bound, [_classes(column, bounds) for column in bound.columns])


class Possible:
    """Which events of stream 0 may satisfy a guard, by some of their columns."""

    def __init__(self, bound: BoundGuards) -> None:
        self._bound = bound
        self._known: dict[tuple[str, ...], _ByColumns] = {}

    def rows(self, batch: pa.RecordBatch) -> Array | None:
        """The rows of events that may, by the columns that the batch has; None if that is not known."""
        names = tuple(batch.schema.names)
        if names not in self._known:
            self._known[names] = _ByColumns(self._bound, names)
        return self._known[names].rows(batch)


class _ByColumns:
    """The same by the columns that have these names."""

    def __init__(self, bound: BoundGuards, names: Sequence[str]) -> None:
        self._bound = bound
        self._slots = [k for k, column in enumerate(bound.columns) if _reads(column, names)]
        size = prod(bound.columns[k].classes for k in self._slots)
        # of each combination of classes: 0 no, 1 maybe, -1 not yet known
        self._table: Array | None = np.full(size, -1, np.int32) if self._slots and size <= _MOST_CODES else None

    def rows(self, batch: pa.RecordBatch) -> Array | None:
        if self._table is None:
            return None
        codes: Array = np.zeros(batch.num_rows, np.int32)
        for k in self._slots:
            self._bound.columns[k].add(codes, batch, 0)
        found, rows = np.empty(batch.num_rows, np.int32), np.empty(batch.num_rows, np.int64)
        while True:
            count, missing = kernels.to_relevant(codes, self._table, found, rows)
            if not missing:
                return rows[:count]
            for combined in np.unique(codes[rows[:count][found[:count] < 0]]).tolist():
                self._table[combined] = self._may_hold(combined)

    def _may_hold(self, combined: int) -> bool:
        classes = [frozenset(range(column.classes)) for column in self._bound.columns]
        for k in reversed(self._slots):
            combined, digit = divmod(combined, self._bound.columns[k].classes)
            classes[k] = frozenset([digit])
        return _may_hold(self._bound, classes)


def _reads(column: Column, names: Sequence[str]) -> bool:
    return isinstance(column, StreamColumn) or (isinstance(column, AttributeColumn) and column.attribute in names)


def _may_hold(bound: BoundGuards, classes: list[Classes]) -> bool:
    """Whether a guard may hold where the values of each slot may have these classes."""

    def truths(logic: Logic) -> frozenset[int]:
        match logic:
            case ColumnTest(slot, index):
                return frozenset(code(bound.columns[slot].truth(index, k)) for k in classes[slot])
            case Constant(known):
                return frozenset([code(known)])
            case Not(item):
                return frozenset(TRUE - value for value in truths(item))
            case AllOf(items):
                return _combined(min, TRUE, [truths(item) for item in items])
            case AnyOf(items):
                return _combined(max, FALSE, [truths(item) for item in items])

    return any(TRUE in truths(guard) for guard in bound.guards)


def _combined(pick: Callable[[int, int], int], start: int, sets: list[frozenset[int]]) -> frozenset[int]:
    found = frozenset([start])
    for values in sets:
        found = frozenset(pick(a, b) for a, b in product(found, values))
    return found


def _classes(column: Column, bounds: Callable[[str], Bounds]) -> Classes:
    """The classes that the values of a slot may have."""
    every = frozenset(range(column.classes))
    if isinstance(column, StreamColumn):
        return frozenset([1])
    if not isinstance(column, AttributeColumn):
        return every
    known = bounds(column.attribute)
    null: Classes = frozenset([0] if known.nulls else [])
    if isinstance(column, NullColumn):
        return null | {1}
    if known.values is not None:
        return null | frozenset(column.classify(known.values).tolist())
    if known.ends is None or known.ends.null_count:
        return every if known.nulls else every - {0}
    if isinstance(column, NumberColumn):
        ends: Array = column.classify(known.ends)
        undefined = [column.classes - 1] if column.floating else []
        if undefined and undefined[0] in ends:
            return every
        return null | frozenset(range(int(ends[0]), int(ends[1]) + 1)) | frozenset(undefined)
    if isinstance(column, TextColumn):
        low, high = (text.encode() for text in known.ends.to_pylist())
        inside = [2 + k for k, literal in enumerate(column.literals) if low <= literal.encode() <= high]
        return null | {1} | frozenset(inside)
    return every if known.nulls else every - {0}
