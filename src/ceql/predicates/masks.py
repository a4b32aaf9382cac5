"""Predicates over several attributes, with arithmetic or functions, as vectorised masks by Arrow's compute functions.

`MaskCompiler` checks the types once and gives functions from a batch to a boolean array, in which NULL is unknown.
Integers stay integers and overflow is an error; `/` gives floats, division by zero gives NULL, `%` has the sign of the
dividend, and a comparison with NaN is unknown. `time_arithmetic` has sums and differences of times, `functions` the
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.lengths import is_hidden
from ceql.errors import DataError, QueryError, SchemaError
from ceql.io.schemas import column_of, is_comparable, is_text, kind_of, value_type
from ceql.predicates.exact import COMPARE, exact
from ceql.predicates.functions import CALENDAR, Unfit, compile_call
from ceql.predicates.patterns import compile_pattern
from ceql.predicates.ranges import Mismatch, show, to_domain
from ceql.predicates.time_arithmetic import duration_scalar, finest, in_ticks, in_unit, time_arithmetic, unit_of_type
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves

Evaluate = Callable[[pa.RecordBatch], Any]  # gives a pa.Array or pa.Scalar


class MaskCompiler:
    """Compiles expressions against a schema.

    `lookup` gives an attribute's type or raises; `unit` that of a time column of plain numbers, None for other columns.
    """

    def __init__(
        self,
        lookup: Callable[[t.Attribute], pa.DataType],
        source: str,
        unit: Callable[[t.Attribute], str | None] = lambda node: None,
    ) -> None:
        self.lookup = lookup
        self.source = source
        self.unit = unit

    def comparison(self, node: t.Comparison) -> Callable[[pa.RecordBatch], pa.Array]:
        """`left op right` of one event."""
        if isinstance(node.left, t.Attribute) and isinstance(node.right, t.Attribute):
            of_numbers = self._of_columns(node, node.left, node.right)
            if of_numbers is not None:
                return of_numbers
        unit = self.unit_of(node.left, node.right)
        left_type, left = self._typed(node.left, node.right, unit)
        right_type, right = self._typed(node.right, node.left, unit)
        kinds = {kind_of(left_type), kind_of(right_type)} - {"null"}
        if len(kinds) > 1 or not (is_comparable(left_type) and is_comparable(right_type)):
            raise SchemaError(
                f"cannot compare {self._describe(node.left, left_type)} with {self._describe(node.right, right_type)}",
                self.source,
                node.span,
                (_number_hint(node) if "duration" in kinds else None) or _unit_hint(kinds),
            )
        if not kinds:
            return lambda batch: pa.nulls(batch.num_rows, pa.bool_())
        floating = pa.types.is_floating(left_type) or pa.types.is_floating(right_type)
        compare = COMPARE[node.op]
        shown = _compared_as(left_type, right_type)

        def mask(batch: pa.RecordBatch) -> pa.Array:
            a, b = left(batch), right(batch)
            if shown is not None:
                a, b = self._run(lambda: pc.cast(a, shown), node), self._run(lambda: pc.cast(b, shown), node)
            result = self._run(lambda: compare(a, b), node)
            if floating:
                nan = pc.or_(_is_nan(a), _is_nan(b))
                result = pc.if_else(nan, pa.scalar(None, pa.bool_()), result)
            return _spread(result, batch.num_rows)

        return mask

    def _of_columns(
        self, node: t.Comparison, left: t.Attribute, right: t.Attribute
    ) -> Callable[[pa.RecordBatch], pa.Array] | None:
        """The comparison of two columns of numbers that differ in type, or may not be rounded to floats."""
        compare = exact(node.op, value_type(self.lookup(left)), value_type(self.lookup(right)))
        if compare is None:
            return None

        def mask(batch: pa.RecordBatch) -> pa.Array:
            columns = []
            for side in (left, right):
                column = column_of(batch, side.name)
                columns.append(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
            return self._run(lambda: compare(*columns), node)

        return mask

    def is_null(self, node: t.IsNull) -> Callable[[pa.RecordBatch], pa.Array]:
        _, operand = self.expression(node.operand)
        return lambda batch: _spread(pc.is_null(operand(batch)), batch.num_rows)

    def like(self, node: t.Like) -> Callable[[pa.RecordBatch], pa.Array]:
        """LIKE or RLIKE of a calculated text, without its NOT."""
        type, operand = self.expression(node.operand)
        word = "RLIKE" if node.regex else "LIKE"
        if pa.types.is_null(type):
            return lambda batch: pa.nulls(batch.num_rows, pa.bool_())
        if not is_text(type):
            raise SchemaError(f"{word} needs text, not {self._describe(node.operand, type)}", self.source, node.span)
        test = compile_pattern(node, self.source)
        return lambda batch: test(_spread(operand(batch), batch.num_rows))

    def unit_of(self, *nodes: t.Expression) -> str | None:
        """The unit of plain numbers that are times, where nothing else is read."""
        read = [leaf for node in nodes for leaf in leaves(node)]
        units = {self.unit(leaf) if isinstance(leaf, t.Attribute) else None for leaf in read}
        return units.pop() if len(units) == 1 else None

    def _typed(self, node: t.Expression, other: t.Expression | None, unit: str | None) -> tuple[pa.DataType, Evaluate]:
        """A side of a comparison. A text literal that is compared with a time is read as a time."""
        if isinstance(node, t.Literal) and isinstance(node.value, str) and not isinstance(other, t.Literal | None):
            type = self.lookup(other) if isinstance(other, t.Attribute) else self._expression(other, unit)[0]
            if pa.types.is_temporal(type):
                try:
                    ticks = to_domain(node.value, type)
                except Mismatch as why:
                    whose = f"this ({type})"
                    if isinstance(other, t.Attribute):
                        whose = show_column(other, type, self.source)
                    raise SchemaError(f"{whose} {why}", self.source, node.span) from None
                target = _calculated(type)
                value = pa.scalar(int(ticks // 1), pa.int64()).cast(target)
                return target, lambda batch: value
        return self._expression(node, unit)

    def expression(self, node: t.Expression) -> tuple[pa.DataType, Evaluate]:
        """The type of an expression over one event, and what gives its values."""
        return self._expression(node, self.unit_of(node))

    def _expression(self, node: t.Expression, unit: str | None) -> tuple[pa.DataType, Evaluate]:
        """The same; next to times that are numbers of `unit`, a duration is a number too."""
        match node:
            case t.Literal(value):
                return self._literal(value, node)
            case t.Duration(nanoseconds):
                length = duration_scalar(nanoseconds) if unit is None else _number(in_ticks(nanoseconds, unit))
                return length.type, lambda batch: length
            case t.Attribute(name):
                type = self.lookup(node)
                return self._attribute(name, type)
            case t.Minus(operand):
                zero = t.Literal(0)
                if pa.types.is_duration(self._expression(operand, unit)[0]):
                    return self._arithmetic(t.Arithmetic("-", t.Duration(0), operand, span=node.span), None)
                return self._arithmetic(t.Arithmetic("-", zero, operand, span=node.span), unit)
            case t.Arithmetic():
                return self._arithmetic(node, unit)
            case t.Call():
                return self._call(node, unit)
            case _:
                raise AssertionError(f"not an expression over one event: {node}")

    def _call(self, node: t.Call, unit: str | None) -> tuple[pa.DataType, Evaluate]:
        if node.function in CALENDAR:
            arguments = [self._moment(argument) for argument in node.arguments]
        else:
            arguments = [self._expression(argument, unit) for argument in node.arguments]
        try:
            type, read = compile_call(node, arguments)
        except Unfit as why:
            wrong = node.arguments[why.argument]
            raise SchemaError(
                f"{node.function} takes {why}, not {self._describe(wrong, arguments[why.argument][0])}",
                self.source,
                wrong.span or node.span,
                _unit_hint({"duration", "number"}) if node.function in CALENDAR else None,
            ) from None
        return type, lambda batch: self._run(lambda: read(batch), node)

    def _moment(self, node: t.Expression) -> tuple[pa.DataType, Evaluate]:
        """An expression whose value is a time; plain numbers that are times are made timestamps."""
        unit, (type, read) = self.unit_of(node), self.expression(node)
        if unit is None or kind_of(type) != "number":
            return type, read
        moment = pa.timestamp(unit)
        if pa.types.is_integer(type):
            return moment, lambda batch: pc.cast(read(batch), moment)
        # a fraction of a tick belongs to the tick
        return moment, lambda batch: pc.cast(pc.cast(pc.floor(read(batch)), pa.int64()), moment)

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

    def _arithmetic(self, node: t.Arithmetic, unit: str | None) -> tuple[pa.DataType, Evaluate]:
        left_type, left = self._expression(node.left, unit)
        right_type, right = self._expression(node.right, unit)
        times = time_arithmetic(node.op, left_type, right_type)
        if times is not None:
            type, add = times
            return type, lambda batch: self._run(lambda: add(left(batch), right(batch)), node)
        for side, type in ((node.left, left_type), (node.right, right_type)):
            if kind_of(type) not in ("number", "null"):
                raise SchemaError(
                    f"'{node.op}' needs numbers, not {self._describe(side, type)}",
                    self.source,
                    side.span or node.span,
                    _number_hint(node) if node.op in "+-" else _unit_hint({kind_of(left_type), kind_of(right_type)}),
                )
        whole = pa.types.is_integer(left_type) and pa.types.is_integer(right_type) and node.op != "/"
        type = pa.int64() if whole else pa.float64()

        def calculate(batch: pa.RecordBatch) -> Any:
            a, b = left(batch), right(batch)
            return self._run(lambda: _calculate(node.op, a.cast(type), b.cast(type), whole), node)

        return type, calculate

    def _describe(self, node: t.Expression, type: pa.DataType) -> str:
        if isinstance(node, t.Attribute):
            return show_column(node, type, self.source)
        return show(node.value) if isinstance(node, t.Literal) else f"a {kind_of(type)}"

    def _run(self, action: Callable[[], Any], node: t.Comparison | t.Arithmetic | t.Call) -> Any:
        try:
            return action()
        except pa.ArrowInvalid as error:
            what = node.function if isinstance(node, t.Call) else node.op
            raise DataError(f"'{what}' cannot be calculated exactly here: {error}") from error


def show_column(node: t.Attribute, type: pa.DataType, source: str) -> str:
    """A column as an error message names it; of one that a query makes, its author knows only the text."""
    if (node.name.startswith((".", "#")) or is_hidden(node.name)) and node.span is not None:
        return f"{source[slice(*node.span)]} ({type})"
    return f"column '{node.name}' ({type})"


def _calculated(type: pa.DataType) -> pa.DataType:
    """The type in which values of this type are calculated with and compared."""
    type = value_type(type)
    if pa.types.is_integer(type):
        return pa.int64()
    if pa.types.is_floating(type) or pa.types.is_decimal(type):
        return pa.float64()
    if is_text(type):
        return pa.large_string()
    return type


def _compared_as(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which times and durations of these types are compared; None for all other values."""
    if left == right or not all(pa.types.is_timestamp(type) or pa.types.is_duration(type) for type in (left, right)):
        return None
    if pa.types.is_timestamp(left) and left.tz:
        left = pa.timestamp(left.unit, "UTC")  # Arrow does not compare times of different zones
    return in_unit(left, finest(unit_of_type(left), unit_of_type(right)))


def _number_hint(node: t.Comparison | t.Arithmetic) -> str | None:
    """What to write in place of a number where a duration belongs."""
    for side in (node.left, node.right):
        if isinstance(side, t.Literal) and type(side.value) in (int, Decimal):
            return f"Write a duration: {side.value} SECONDS."
    return None


def _unit_hint(kinds: set[str]) -> str | None:
    """What to do if a duration meets plain numbers, which may be meant as times."""
    if kinds >= {"duration", "number"}:
        return "If the time column holds plain numbers, say their unit: time_unit='s', 'ms', 'us' or 'ns'."
    return None


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
    rows = next((len(v) for v in (a, b) if isinstance(v, pa.Array)), 1)  # also of no rows
    x, y = _spread(a, rows), _spread(b, rows)
    null = pc.or_(x.is_null(), y.is_null())
    with np.errstate(invalid="ignore"):
        values = np.fmod(
            x.fill_null(0.0).to_numpy(zero_copy_only=False), y.fill_null(1.0).to_numpy(zero_copy_only=False)
        )
    result = pc.if_else(null, pa.scalar(None, pa.float64()), pa.array(values, pa.float64()))
    return result if isinstance(a, pa.Array) or isinstance(b, pa.Array) else result[0]


def _number(value: Fraction) -> pa.Scalar:
    return pa.scalar(int(value), pa.int64()) if value.denominator == 1 else pa.scalar(float(value), pa.float64())


def _is_nan(value: Any) -> Any:
    return pc.is_nan(value) if pa.types.is_floating(value.type) else pa.scalar(False)


def _spread(value: Any, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
