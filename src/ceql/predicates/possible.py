"""Decides if any event of many can satisfy a guard, by what is known of their columns (`io.parquet_pieces.Bounds`).

In: the bound guards, and for each column the least and greatest value, or all values there are. Out: False only if none
of the events satisfies any guard. Each column gives a set of classes that its values may have, a test the set of what
it may say of these, and logic works on such sets.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ceql.io.parquet_pieces import Bounds
from ceql.jit import Array
from ceql.predicates.bind import BoundGuards
from ceql.predicates.columns import AttributeColumn, Column, NullColumn, NumberColumn, StreamColumn
from ceql.predicates.logic import FALSE, TRUE, AllOf, AnyOf, ColumnTest, Constant, Logic, Not, code
from ceql.predicates.text_column import TextColumn

Classes = frozenset[int]


def may_hold(bound: BoundGuards, bounds: Callable[[str], Bounds]) -> bool:
    """Whether an event of stream 0 with such values may satisfy a guard."""
    classes = [_classes(column, bounds) for column in bound.columns]

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
