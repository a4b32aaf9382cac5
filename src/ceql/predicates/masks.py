"""Predicates over several attributes or with arithmetic, as vectorised masks by Arrow's compute functions.

`MaskCompiler` checks the types once and gives functions from a batch to a boolean array, in which NULL is unknown.
Integers stay integers and overflow is an error; `/` gives floats, division by zero gives NULL, `%` has the sign of the
dividend, and a comparison with NaN is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError, QueryError, SchemaError
from ceql.io.schemas import is_comparable, is_text, kind_of, value_type
from ceql.predicates.ranges import Mismatch, show, to_domain
from ceql.syntax import tree as t

Evaluate = Callable[[pa.RecordBatch], Any]  # gives a pa.Array or pa.Scalar

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class MaskCompiler:
    """Compiles expressions against a schema; `lookup` gives an attribute's type or raises."""

    def __init__(self, lookup: Callable[[t.Attribute], pa.DataType], source: str) -> None:
        self.lookup = lookup
        self.source = source

    def comparison(self, node: t.Comparison) -> Callable[[pa.RecordBatch], pa.Array]:
        """`left op right` of one event."""
        left_type, left = self._typed(node.left, node.right)
        right_type, right = self._typed(node.right, node.left)
        kinds = {kind_of(left_type), kind_of(right_type)} - {"null"}
        if len(kinds) > 1 or not (is_comparable(left_type) and is_comparable(right_type)):
            raise SchemaError(
                f"cannot compare {_describe(node.left, left_type)} with {_describe(node.right, right_type)}",
                self.source,
                node.span,
            )
        if not kinds:
            return lambda batch: pa.nulls(batch.num_rows, pa.bool_())
        floating = pa.types.is_floating(left_type) or pa.types.is_floating(right_type)
        compare = _COMPARE[node.op]

        def mask(batch: pa.RecordBatch) -> pa.Array:
            a, b = left(batch), right(batch)
            result = self._run(lambda: compare(a, b), node)
            if floating:
                nan = pc.or_(_is_nan(a), _is_nan(b))
                result = pc.if_else(nan, pa.scalar(None, pa.bool_()), result)
            return _spread(result, batch.num_rows)

        return mask

    def is_null(self, node: t.IsNull) -> Callable[[pa.RecordBatch], pa.Array]:
        _, operand = self._typed(node.operand, None)
        return lambda batch: _spread(pc.is_null(operand(batch)), batch.num_rows)

    def _typed(self, node: t.Expression, other: t.Expression | None) -> tuple[pa.DataType, Evaluate]:
        """A side of a comparison. A text literal that is compared with a time is read as a time."""
        if isinstance(node, t.Literal) and isinstance(node.value, str) and isinstance(other, t.Attribute):
            type = self.lookup(other)
            if pa.types.is_temporal(type):
                try:
                    ticks = to_domain(node.value, type)
                except Mismatch as why:
                    raise SchemaError(f"column '{other.name}' ({type}) {why}", self.source, node.span) from None
                target = _calculated(type)
                value = pa.scalar(int(ticks // 1), pa.int64()).cast(target)
                return target, lambda batch: value
        return self.expression(node)

    def expression(self, node: t.Expression) -> tuple[pa.DataType, Evaluate]:
        match node:
            case t.Literal(value):
                return self._literal(value, node)
            case t.Attribute(name):
                type = self.lookup(node)
                return self._attribute(name, type)
            case t.Minus(operand):
                return self._arithmetic(t.Arithmetic("-", t.Literal(0), operand, span=node.span))
            case t.Arithmetic():
                return self._arithmetic(node)
            case _:
                raise AssertionError(f"not an expression over one event: {node}")

    def _literal(self, value: object, node: t.Literal) -> tuple[pa.DataType, Evaluate]:
        if isinstance(value, Decimal):
            scalar = pa.scalar(float(value), pa.float64())
        elif isinstance(value, int) and not isinstance(value, bool):
            try:
                scalar = pa.scalar(value, pa.int64())
            except (OverflowError, pa.ArrowInvalid):
                raise QueryError("this number is too large to calculate with", self.source, node.span) from None
        else:
            scalar = pa.scalar(value)
        return scalar.type, lambda batch: scalar

    def _attribute(self, name: str, type: pa.DataType) -> tuple[pa.DataType, Evaluate]:
        target = _calculated(type)

        def read(batch: pa.RecordBatch) -> pa.Array:
            index = batch.schema.get_field_index(name)
            if index < 0:
                return pa.nulls(batch.num_rows, target)
            values = batch.column(index)
            if values.type == target:
                return values
            try:
                return values.cast(target)
            except pa.ArrowInvalid as error:
                raise DataError(f"column '{name}' ({values.type}) cannot be calculated with: {error}") from error

        return target, read

    def _arithmetic(self, node: t.Arithmetic) -> tuple[pa.DataType, Evaluate]:
        left_type, left = self.expression(node.left)
        right_type, right = self.expression(node.right)
        for side, type in ((node.left, left_type), (node.right, right_type)):
            if kind_of(type) not in ("number", "null"):
                raise SchemaError(
                    f"'{node.op}' needs numbers, not {_describe(side, type)}", self.source, side.span or node.span
                )
        whole = pa.types.is_integer(left_type) and pa.types.is_integer(right_type) and node.op != "/"
        type = pa.int64() if whole else pa.float64()

        def calculate(batch: pa.RecordBatch) -> Any:
            a, b = left(batch), right(batch)
            return self._run(lambda: _calculate(node.op, a.cast(type), b.cast(type), whole), node)

        return type, calculate

    def _run(self, action: Callable[[], Any], node: t.Comparison | t.Arithmetic) -> Any:
        try:
            return action()
        except pa.ArrowInvalid as error:
            raise DataError(f"'{node.op}' cannot be calculated exactly here: {error}") from error


def _calculated(type: pa.DataType) -> pa.DataType:
    """The type in which values of this type are calculated with and compared."""
    type = value_type(type)
    if pa.types.is_integer(type):
        return pa.int64()
    if pa.types.is_floating(type) or pa.types.is_decimal(type):
        return pa.float64()
    if is_text(type):
        return pa.large_string()
    if pa.types.is_timestamp(type) and type.tz:
        return pa.timestamp(type.unit, "UTC")  # Arrow does not compare times of different zones
    return type


def _calculate(op: str, a: Any, b: Any, whole: bool) -> Any:
    if op in "+-*":
        checked = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
        plain = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
        return (checked if whole else plain)[op](a, b)
    zero = pa.scalar(0, b.type)
    safe = pc.if_else(pc.equal(b, zero), pa.scalar(None, b.type), b)  # by zero: NULL
    if op == "/":
        return pc.divide(a, safe)
    if whole:
        # the least integer / -1 would overflow; the remainder of any number by -1 is 0
        quotient = pc.divide(a, pc.if_else(pc.equal(safe, pa.scalar(-1, b.type)), pa.scalar(1, b.type), safe))
        remainder = pc.subtract(a, pc.multiply(quotient, safe))
        return pc.if_else(pc.equal(safe, pa.scalar(-1, b.type)), pc.multiply(a, pa.scalar(0, a.type)), remainder)
    return _float_remainder(a, safe)


def _float_remainder(a: Any, b: Any) -> Any:
    """The remainder with the dividend's sign, by numpy: Arrow has none of floats."""
    rows = max(len(v) if isinstance(v, pa.Array) else 1 for v in (a, b))
    x, y = _spread(a, rows), _spread(b, rows)
    null = pc.or_(x.is_null(), y.is_null())
    with np.errstate(invalid="ignore"):
        values = np.fmod(
            x.fill_null(0.0).to_numpy(zero_copy_only=False), y.fill_null(1.0).to_numpy(zero_copy_only=False)
        )
    result = pc.if_else(null, pa.scalar(None, pa.float64()), pa.array(values, pa.float64()))
    return result if isinstance(a, pa.Array) or isinstance(b, pa.Array) else result[0]


def _is_nan(value: Any) -> Any:
    return pc.is_nan(value) if pa.types.is_floating(value.type) else pa.scalar(False)


def _spread(value: Any, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _describe(node: t.Expression, type: pa.DataType) -> str:
    if isinstance(node, t.Attribute):
        return f"column '{node.name}' ({type})"
    return show(node.value) if isinstance(node, t.Literal) else f"a {kind_of(type)}"
