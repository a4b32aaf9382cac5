"""The values by which equalities between events are looked up, as small numbers.

Equal values have equal numbers; NULL and NaN have -1. All terms of a query share one numbering. The number of a value
that no partial match waits for is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from ceql.errors import SchemaError, no_column
from ceql.io.numbering import Numbering
from ceql.io.schemas import column_of, is_comparable, kind_of, names_near, value_type
from ceql.io.values import coded, from_state, numbers_by_code, order_of, to_array, to_state, to_values
from ceql.jit import Array
from ceql.predicates.masks import MaskCompiler
from ceql.predicates.time_arithmetic import unit_in
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves


class ValueNumbers:
    """Numbers the values of `terms`, expressions over one event. `compares` are the pairs of terms compared."""

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
        self._numbering = Numbering(1)
        self._ranks: Array = np.zeros(1, np.int64)
        self._are_ranked = True  # all values that have a number, as of now
        self.bind(schema)
        self._shown = self._common_types()

    def anew(self) -> ValueNumbers:
        """The same terms, of which no value has come."""
        made = copy(self)
        made._numbering = Numbering(1)
        made._ranks = np.zeros(1, np.int64)
        made._are_ranked = True
        return made

    def bind(self, schema: pa.Schema) -> None:
        """Read columns of this schema from now on."""
        self.schema = schema
        compiler = MaskCompiler(self._type, self.source, lambda node: unit_in(schema, node.name))
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
            raise no_column(node.name, names_near(self.schema, node.name), self.source, node.span)
        type = value_type(self.schema.field(index).type)
        if not is_comparable(type):
            raise SchemaError(f"column '{node.name}' ({type}) cannot be compared", self.source, node.span)
        return type

    def _common_types(self) -> list[pa.DataType]:
        """The type in which each term's values are numbered. Times that are compared get the same unit."""
        shown = list(self.types)
        for _ in self.terms:  # as often as a type may have to travel from term to term
            for one, other in self.compares:
                a, b = shown[one], shown[other]
                if a == b or not (pa.types.is_null(a) or pa.types.is_null(b) or pa.types.is_temporal(a)):
                    continue
                if pa.types.is_null(a) or pa.types.is_null(b):
                    common = b if pa.types.is_null(a) else a
                else:
                    common = common_time(a, b)
                shown[one] = shown[other] = common
        return shown

    @property
    def columns(self) -> list[str]:
        """The attributes that the terms read."""
        found = {leaf.name for term in self.terms for leaf in leaves(term) if isinstance(leaf, t.Attribute)}
        return sorted(found)

    def numbers(self, batch: pa.RecordBatch, rows: Array | None, to: Array, none: int) -> None:
        """Write the numbers of the terms' values, a row for each of these rows (all, when None); `none` for NULL."""
        for k, term in enumerate(self.terms):
            column = self._column(batch, k, term)
            if rows is not None and len(rows) != batch.num_rows:
                column = column.take(pa.array(rows))
            numbers = self._numbers(column, self._shown[k])
            to[:, k] = numbers
            if none != -1 and (numbers < 0).any():
                to[numbers < 0, k] = none

    def _column(self, batch: pa.RecordBatch, k: int, term: t.Expression) -> pa.Array:
        read = self._read[k]
        if read is not None:
            values = read(batch)
            return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else values
        assert isinstance(term, t.Attribute)
        return column_of(batch, term.name)

    @property
    def nbytes(self) -> int:
        """The memory that the values take."""
        return self._numbering.nbytes + int(self._ranks.nbytes)

    def number(self, column: pa.Array, shown: pa.DataType) -> Array:
        """The numbers of a column that is no term: equal values have equal numbers, NULL and NaN have -1."""
        return self._numbers(column, shown)

    def values(self, numbers: Array, type: pa.DataType) -> pa.Array:
        """The values of a column of this type that have these numbers."""
        (found,) = self._numbering.values(numbers)
        return to_array(found, type) if len(numbers) else pa.nulls(0, type)

    def ranks(self) -> Array:
        """Of each number, the place of its value in order; values of different kinds do not compare."""
        if not self._are_ranked:
            self._are_ranked = True
            used = self._numbering.used
            (values,) = self._numbering.values(used)
            self._ranks = np.full(len(self._numbering), -1, np.int64)
            self._ranks[used[order_of(values)]] = np.arange(len(used))
        return self._ranks

    def _numbers(self, column: pa.Array, shown: pa.DataType) -> Array:
        if pa.types.is_decimal(column.type):  # slow to convert and seldom all different
            column = column.dictionary_encode()

        def numbers(values: pa.Array) -> Array:
            known = self._numbering.known
            found = self._numbering.numbers([to_values(values, shown)])[0]
            self._are_ranked = self._are_ranked and known == self._numbering.known
            return found

        by_code = coded(column)
        return numbers(column) if by_code is None else numbers_by_code(by_code, numbers)

    def hashes(self, numbers: Array) -> Array:
        """A hash of the value of each of these numbers: 32 bits that follow from the value alone."""
        return self._numbering.hashes(numbers)

    @property
    def known(self) -> int:
        """How many values have a number now."""
        return self._numbering.known

    @property
    def most(self) -> int:
        """One more than the greatest number."""
        return len(self._numbering)

    def release(self, used: Array) -> None:
        """Forget the values whose numbers are not in `used`."""
        unused = np.zeros(len(self._numbering), np.bool_)
        unused[self._numbering.used] = True
        unused[used] = False
        self._numbering.release(np.flatnonzero(unused))
        self._are_ranked = False

    # --- state ---

    def state(self, used: Array) -> pa.RecordBatch:
        """The values with these numbers, where they are numbers of values."""
        used = np.intersect1d(used, self._numbering.used)
        (values,) = self._numbering.values(used)
        names = ("word", "kind", "bytes")
        columns = {"number": pa.array(used, pa.int64())} | dict(zip(names, to_state(values), strict=True))
        return pa.record_batch(columns)

    def restore(self, state: pa.RecordBatch) -> None:
        """Continue from a `state`."""
        numbers, *columns = state.columns
        given = numbers.to_numpy()
        self._numbering = Numbering.restored(given, [from_state(columns)], int(given.max()) + 1 if len(given) else 0)
        self._are_ranked = False


def common_time(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type in which times of these two types are compared."""
    if a == b:
        return a
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return pa.timestamp("ns" if "ns" in (a.unit, b.unit) else "us", tz=a.tz)
    if pa.types.is_duration(a) and pa.types.is_duration(b):
        return pa.duration("ns" if "ns" in (a.unit, b.unit) else "us")
    if pa.types.is_time(a) and pa.types.is_time(b):
        return pa.time64("ns")
    return pa.timestamp("us", tz=getattr(a, "tz", None) or getattr(b, "tz", None))
