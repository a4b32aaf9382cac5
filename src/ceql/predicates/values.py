"""The values that correlated queries compare, as small numbers: equal values have equal numbers, NULL and NaN have -1.

All terms of a query share one table of values. Numbers whose values nothing waits under are given again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves
from ceql.errors import SchemaError, no_column
from ceql.io.numbering import Numbering
from ceql.io.schemas import kind_of
from ceql.io.values import Values, from_state, side_by_side, to_state, to_values
from ceql.jit import Array
from ceql.predicates.masks import MaskCompiler
from ceql.syntax import tree as t


class ValueNumbers:
    """Numbers the values of `terms`, expressions over one event; `compares` are pairs of terms that meet."""

    def __init__(
        self,
        terms: Sequence[t.Expression],
        compares: Sequence[tuple[int, int]],
        schema: pa.Schema,
        open_schema: bool,
        source: str,
    ) -> None:
        self.terms = terms
        self.compares = compares
        self.open_schema = open_schema
        self.source = source
        self._table = Numbering(1)
        self.bind(schema)
        self._shown = self._common_types()

    def bind(self, schema: pa.Schema) -> None:
        """Look at columns of this schema from now on."""
        self.schema = schema
        compiler = MaskCompiler(self._type, self.source)
        self._read = [None if isinstance(term, t.Attribute) else compiler.expression(term)[1] for term in self.terms]
        self.types = [
            self._type(term) if isinstance(term, t.Attribute) else compiler.expression(term)[0] for term in self.terms
        ]
        for one, other in self.compares:
            kinds = {kind_of(self.types[one]), kind_of(self.types[other])} - {"null"}
            if len(kinds) > 1:
                raise SchemaError(
                    f"cannot compare {self._describe(one)} with {self._describe(other)}",
                    self.source,
                    self.terms[other].span,
                )

    def _describe(self, term: int) -> str:
        node = self.terms[term]
        name = f"column '{node.name}'" if isinstance(node, t.Attribute) else "a calculated value"
        return f"{name} ({self.types[term]})"

    def _type(self, node: t.Attribute) -> pa.DataType:
        index = self.schema.get_field_index(node.name)
        if index < 0:
            if self.open_schema:
                return pa.null()
            raise no_column(node.name, self.schema.names, self.source, node.span)
        type = self.schema.field(index).type
        type = type.value_type if pa.types.is_dictionary(type) else type
        if pa.types.is_nested(type):
            raise SchemaError(f"column '{node.name}' ({type}) cannot be compared", self.source, node.span)
        return type

    def _common_types(self) -> list[pa.DataType]:
        """The type in which each term's values are numbered: times that meet must have the same unit."""
        shown = list(self.types)
        for _ in self.terms:  # at most so many terms are compared with each other, directly or not
            for one, other in self.compares:
                a, b = shown[one], shown[other]
                if a == b or not (pa.types.is_null(a) or pa.types.is_null(b) or pa.types.is_temporal(a)):
                    continue
                if pa.types.is_null(a) or pa.types.is_null(b):
                    common = b if pa.types.is_null(a) else a
                elif pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
                    common = pa.timestamp("ns" if "ns" in (a.unit, b.unit) else "us", tz=a.tz)
                elif pa.types.is_duration(a) and pa.types.is_duration(b):
                    common = pa.duration("ns" if "ns" in (a.unit, b.unit) else "us")
                elif pa.types.is_time(a) and pa.types.is_time(b):
                    common = pa.time64("ns")
                else:
                    common = pa.timestamp("us", tz=getattr(a, "tz", None) or getattr(b, "tz", None))
                shown[one] = shown[other] = common
        return shown

    @property
    def columns(self) -> list[str]:
        """The attributes that the terms read."""
        found = {leaf.name for term in self.terms for leaf in leaves(term) if isinstance(leaf, t.Attribute)}
        return sorted(found)

    def numbers(self, batch: pa.RecordBatch, rows: Array | None) -> Array:
        """The numbers of the terms' values, a row for each of these rows (all, when None)."""
        count = batch.num_rows if rows is None else len(rows)
        result: Array = np.full((count, len(self.terms)), -1, np.int32)
        for k, term in enumerate(self.terms):
            column = self._column(batch, k, term)
            if rows is not None and len(rows) != batch.num_rows:
                column = column.take(pa.array(rows))
            result[:, k] = self._numbers(column, self._shown[k])
        return result

    def _column(self, batch: pa.RecordBatch, k: int, term: t.Expression) -> pa.Array:
        read = self._read[k]
        if read is not None:
            values = read(batch)
            return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else values
        assert isinstance(term, t.Attribute)
        index = batch.schema.get_field_index(term.name)
        return batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)

    def _numbers(self, column: pa.Array, shown: pa.DataType) -> Array:
        if pa.types.is_decimal(column.type):  # what is done with decimals is slow, and they are seldom all different
            column = column.dictionary_encode()
        if pa.types.is_dictionary(column.type) and 2 * len(column.dictionary) <= len(column):
            codes: Array = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            here = np.zeros(len(column.dictionary) + 1, np.bool_)
            here[codes] = True
            used = np.flatnonzero(here[:-1])
            lookup: Array = np.full(len(here), -1, np.int32)
            lookup[used] = self._plain(column.dictionary.take(pa.array(used)), shown)
            return lookup[codes]
        return self._plain(column, shown)

    def _plain(self, column: pa.Array, shown: pa.DataType) -> Array:
        numbers, _ = self._table.numbers(*side_by_side([to_values(column, shown)]))
        return numbers

    @property
    def known(self) -> int:
        """How many values have a number now."""
        return self._table.known

    def release(self, used: Array) -> None:
        """Forget the values whose numbers are not in `used`."""
        given_up = np.zeros(len(self._table), np.bool_)
        given_up[self._table.used] = True
        given_up[used] = False
        self._table.release(np.flatnonzero(given_up))

    # --- state ---

    def state(self, used: Array) -> pa.RecordBatch:
        """The values with these numbers."""
        keys, data = self._table.table.keys[used], self._table.table.data
        values = Values(keys[:, 0].copy(), keys[:, 1].copy(), data, np.ones(len(keys), np.bool_))
        names = ("word", "kind", "bytes")
        columns = {"number": pa.array(used, pa.int64())} | dict(zip(names, to_state(values), strict=True))
        return pa.record_batch(columns)

    def restore(self, state: pa.RecordBatch) -> None:
        """Continue from a `state`."""
        numbers, *columns = state.columns
        rows, data, _ = side_by_side([from_state(columns)])
        given = numbers.to_numpy()
        self._table = Numbering(1)
        self._table.restore(given, rows, data, int(given.max()) + 1 if len(given) else 0)
