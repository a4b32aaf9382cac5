"""Aggregates: the types of their values, and the values themselves over whole batches of matches.

In: the attributes of events, and for each of many lists of events (the events of a variable in a match) where it begins
and ends. Out: a column with the aggregate of each list. An expression under an aggregate is calculated once for each
event, whatever the number of lists that have it; then each aggregate is one reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.conditions import of_one_event
from ceql.errors import DataError, SchemaError, no_column
from ceql.io.schemas import is_comparable, kind_of, names_near, value_type
from ceql.jit import Array
from ceql.predicates.masks import MaskCompiler
from ceql.predicates.time_arithmetic import unit_in, with_unit
from ceql.recognition import decimals
from ceql.recognition.kernels import fold_best, fold_sums
from ceql.recognition.lists import count_different, percentiles, variances
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression
from ceql.syntax.walking import mapped, nodes

OWN = ("FIRST", "LAST", "MIN", "MAX")  # whose value is one of the values
_BETWEEN = ("MEDIAN", "PERCENTILE")  # whose value lies between two of them
_SPREAD = ("VARIANCE", "STDDEV")


@dataclass(frozen=True)
class Folds:
    """What is read of a match, over the columns of its events."""

    schema: pa.Schema
    """Of the events; a time column of plain numbers says its unit."""
    open_schema: bool
    time: str | None
    source: str

    def field(self, name: str, part: Any) -> pa.Field:
        """A field for the values of an attribute, an aggregate or a time of the match."""
        whose: str | None = None
        match part:
            case t.Ref(_, attribute) | t.Aggregate("FIRST" | "LAST" | "MIN" | "MAX", _, t.Ref(_, attribute)):
                whose = attribute
            case t.Lapse():
                whose = self.time
        unit = unit_in(self.schema, whose) if whose is not None else None
        return with_unit(pa.schema([pa.field(name, self.type_of(part))]), name, unit).field(0)

    def type_of(self, part: Any) -> pa.DataType:
        """The type of an attribute, of an aggregate or of a time of the match."""
        match part:
            case t.Lapse(name):
                if self.time is None:
                    raise SchemaError(f"{name} needs a time column, and there is none", self.source, part.span)
                type = self.schema.field(self.time).type
                return type if name != "DURATION" else pc.subtract(pa.nulls(1, type), pa.nulls(1, type)).type
            case t.Ref(_, attribute):
                return self._column_type(attribute, part)
            case t.Aggregate("COUNT", distinct=False):
                for ref in (node for node in nodes(part.operand) if isinstance(node, t.Ref)):
                    self._column_type(ref.attribute, ref)
                return pa.int64()
            case t.Aggregate(operand=operand) if operand is not None:
                return self._folded_type(part, self._operand(operand)[0])
        raise AssertionError(part)

    def _folded_type(self, part: t.Aggregate, type: pa.DataType) -> pa.DataType:
        """The type of an aggregate of values of this type."""
        function = part.function
        if function in ("MIN", "MAX", "COUNT") and not is_comparable(type):
            name = "COUNT(DISTINCT ...)" if part.distinct else function
            raise SchemaError(f"{name} needs values that compare, not {type}", self.source, part.span)
        if function == "COUNT":
            return pa.int64()
        if function in OWN:
            return type
        if kind_of(type) not in ("number", "null"):
            raise SchemaError(f"{function} needs numbers, not a {kind_of(type)}", self.source, part.span)
        if pa.types.is_decimal(type) and function not in _SPREAD:
            return decimals.sum_type(type) if function == "SUM" else decimals.mean_type(type)
        return pa.int64() if function == "SUM" and pa.types.is_integer(type) else pa.float64()

    def _column_type(self, name: str, node: t.Ref) -> pa.DataType:
        index = self.schema.get_field_index(name)
        if index >= 0:
            return value_type(self.schema.field(index).type)
        if self.open_schema:
            return pa.null()
        raise no_column(name, names_near(self.schema, name), self.source, node.span)

    def _operand(self, operand: t.Expression) -> tuple[pa.DataType, Callable[[pa.RecordBatch], Any]]:
        """What an aggregate is over: a column as it is, or what is calculated of one event."""
        if isinstance(operand, t.Ref):
            type = self._column_type(operand.attribute, operand)
            return type, lambda batch: _plain(batch, operand.attribute, type)
        compiler = MaskCompiler(
            lambda node: self._column_type(node.name, t.Ref("", node.name, span=node.span)),
            self.source,
            lambda node: unit_in(self.schema, node.name),
        )
        type, read = compiler.expression(of_one_event(operand))

        def spread(batch: pa.RecordBatch) -> pa.Array:
            values = read(batch)
            return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else values

        return type, spread

    def values(self, operand: t.Expression, batch: pa.RecordBatch) -> pa.Array:
        """The values of an operand at the rows of a batch."""
        return self._operand(operand)[1](batch)

    def fold(self, part: t.Aggregate, values: pa.Array | None, row: Array, offsets: Array) -> pa.Array:
        """An aggregate of each list: its entries are the rows `row[offsets[k] : offsets[k + 1]]` of the values.

        `values` are those of the operand; None for COUNT(x), which has none.
        """
        if values is None:
            return pa.array(np.diff(offsets))
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)[row]
            offsets = np.concatenate([[0], np.cumsum(valid)])[offsets]
            row = row[valid]
        if part.function in OWN:
            return self._chosen(part, values, row, offsets)
        counts = np.diff(offsets)
        if part.function == "COUNT":
            return pa.array(count_different(values, row, offsets) if part.distinct and len(row) else counts)
        if not len(row):
            return pa.nulls(len(counts), self.type_of(part))
        if part.function in _BETWEEN or part.function in _SPREAD:
            return self._of_lists(part, values, row, offsets)
        if pa.types.is_decimal(values.type):
            return self._added_decimals(part, values, row, offsets)
        whole = part.function == "SUM" and pa.types.is_integer(values.type)
        plain = _signed(part, values, row) if whole else values.cast(pa.float64(), safe=False)
        numbers = (plain.fill_null(0) if plain.null_count else plain).to_numpy(zero_copy_only=False)
        # other values than those of the lists may be there: these are looked at if need be
        if whole and not _fits(numbers, counts) and not _fits(numbers[row], counts):
            raise DataError(f"{print_expression(part)} may not fit 64 bits")
        sums = np.zeros(len(counts), numbers.dtype)
        fold_sums(numbers, row, offsets, sums)
        if part.function == "AVG":
            sums = sums / np.maximum(counts, 1)
        none = counts == 0
        return pa.array(sums, mask=none if none.any() else None)

    def _of_lists(self, part: t.Aggregate, values: pa.Array, row: Array, offsets: Array) -> pa.Array:
        """MEDIAN, PERCENTILE, VARIANCE or STDDEV."""
        counts = np.diff(offsets)
        if part.function in _SPREAD:
            numbers = values.cast(pa.float64(), safe=False)
            found = variances((numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(), row, offsets)
            return pa.array(np.sqrt(found) if part.function == "STDDEV" else found, mask=counts < 2)
        type = self.type_of(part)
        if pa.types.is_decimal(type):
            found = percentiles(values, row, offsets, share_of(part), type.scale - values.type.scale)
            return _decimals(found, counts, type, part)
        return pa.array(percentiles(values, row, offsets, share_of(part)), mask=counts == 0)

    def _added_decimals(self, part: t.Aggregate, values: pa.Array, row: Array, offsets: Array) -> pa.Array:
        """SUM or AVG."""
        counts, type = np.diff(offsets), self.type_of(part)
        sums = [np.zeros(len(counts), np.int64) for _ in range(type.bit_width // 32)]
        for piece, to in zip(decimals.pieces(values), sums, strict=True):
            fold_sums(piece, row, offsets, to)
        totals = decimals.joined(sums)
        if part.function == "AVG":
            totals = decimals.divided(totals, np.maximum(counts, 1).astype(object), type.scale - values.type.scale)
        return _decimals(totals, counts, type, part)

    def _chosen(self, part: t.Aggregate, values: pa.Array, row: Array, offsets: Array) -> pa.Array:
        if not len(row):
            return pa.nulls(len(offsets) - 1, self.type_of(part))
        begin, end = offsets[:-1], offsets[1:]
        further = int(part.number or 0) if part.function in ("FIRST", "LAST") else 0
        empty = end - begin <= further
        if len(row) == len(empty) and not empty.any():
            return values.take(pa.array(row))  # one value each, as of a variable that is bound once
        if part.function in ("FIRST", "LAST"):
            at = begin + further if part.function == "FIRST" else end - 1 - further
            if not empty.any():
                return values.take(pa.array(row[at]))
            return values.take(pa.array(row[np.where(empty, 0, at)], mask=empty))
        comparable = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
        ranks = pc.rank(comparable, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        best = np.zeros(len(empty), np.int64)
        fold_best(ranks, row, offsets, 1 if part.function == "MIN" else -1, best)
        return values.take(pa.array(best, mask=empty if empty.any() else None))


def share_of(part: t.Aggregate) -> Fraction:
    """The share of values that a MEDIAN or PERCENTILE is not above."""
    return Fraction(1, 2) if part.number is None else Fraction(part.number)


def _decimals(numbers: Array, counts: Array, type: pa.DataType, part: t.Aggregate) -> pa.Array:
    """Unscaled numbers as decimals; NULL where nothing was counted."""
    found = [number if some else None for number, some in zip(numbers.tolist(), counts.tolist(), strict=True)]
    return decimals.to_decimals(found, type, print_expression(part))


def _signed(part: t.Aggregate, values: pa.Array, row: Array) -> pa.Array:
    """Whole numbers as int64; one in the lists that is greater is a `DataError`."""
    if values.type == pa.uint64():
        large = pc.greater(values, pa.scalar(2**63 - 1, pa.uint64())).fill_null(False)
        if large.to_numpy(zero_copy_only=False)[row].any():
            raise DataError(f"{print_expression(part)} does not fit 64 bits: a value is greater than 2^63 - 1")
        values = pc.if_else(large, pa.scalar(0, pa.uint64()), values)
    return values.cast(pa.int64())


def _fits(numbers: Array, counts: Array) -> bool:
    """Whether sums of so many of these whole numbers surely fit 64 bits."""
    return float(np.abs(numbers.astype(np.float64)).max()) * float(counts.max()) < 2.0**63


def _plain(batch: pa.RecordBatch, name: str, type: pa.DataType) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return pa.nulls(batch.num_rows, type)
    column = batch.column(index)
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return column if column.type == type else column.cast(type)


def outside(node: Any, parts: list[Any], wanted: Any, name: Callable[[int], t.Expression]) -> Any:
    """An expression or predicate with `name(k)` in place of each node of the `wanted` types, which is added to `parts`.

    >>> found: list[object] = []
    >>> whole = t.Comparison(">", t.Aggregate("COUNT", "b"), t.Literal(3))
    >>> outside(whole, found, t.Aggregate, lambda k: t.Attribute(f"#{k}")).left, found
    (Attribute(name='#0'), [Aggregate(function='COUNT', variable='b', operand=None, distinct=False, number=None)])
    """
    if isinstance(node, wanted):
        if node not in parts:
            parts.append(node)
        return replace(name(parts.index(node)), span=node.span)
    return mapped(node, partial(outside, parts=parts, wanted=wanted, name=name))
