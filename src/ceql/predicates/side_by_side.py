"""Predicates over several events: bound as if the events stood side by side, in columns `variable.attribute`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import replaced
from ceql.errors import no_column
from ceql.io.schemas import names_near
from ceql.jit import Array
from ceql.predicates.bind import BoundGuards, InputSchema, bind_predicate
from ceql.predicates.logic import ColumnTest, Truths, code, evaluate
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves

Leaf = t.Ref | t.Prev | t.Attribute


def bind_side_by_side(predicate: t.Predicate, schema: pa.Schema, open_schema: bool, source: str) -> BoundGuards:
    """Bind a predicate over several events of one schema; one that does not fit is a `SchemaError`."""
    fields: dict[str, pa.Field] = {}
    for leaf in leaves(predicate):
        index = schema.get_field_index(attribute_of(leaf))
        if index >= 0:
            fields[column_name(leaf)] = schema.field(index).with_name(column_name(leaf))
        elif not open_schema:
            raise no_column(attribute_of(leaf), names_near(schema, attribute_of(leaf)), source, leaf.span)
    flat = replaced(predicate, lambda leaf: t.Attribute(column_name(leaf), span=leaf.span))
    return bind_predicate(flat, InputSchema(pa.schema(list(fields.values())), True, None, ("",)), source)


def truths(bound: BoundGuards, columns: pa.RecordBatch) -> Truths:
    """What a bound predicate is of each row: false, unknown or true (`predicates.logic`)."""
    count = columns.num_rows
    known: dict[ColumnTest, Truths] = {}

    def values(test: ColumnTest) -> Truths:
        if test not in known:
            column = bound.columns[test.slot]
            digits: Array = np.zeros(count, np.int32)
            column.add(digits, columns, 0)
            by_class = np.array([code(column.truth(test.index, k)) for k in range(column.classes)], np.int8)
            known[test] = by_class[digits]
        return known[test]

    return evaluate(bound.guards[0], values, count)


def attribute_of(leaf: Leaf) -> str:
    """The attribute that a leaf reads."""
    return leaf.name if isinstance(leaf, t.Attribute) else leaf.attribute


def column_name(leaf: Leaf) -> str:
    """
    >>> column_name(t.Ref("x", "a")), column_name(t.Prev("a"))
    ('x.a', 'PREV.a')
    """
    match leaf:
        case t.Ref(variable, attribute):
            return f"{variable}.{attribute}"
        case t.Prev(attribute):
            return f"PREV.{attribute}"
        case t.Attribute(name):
            return name
