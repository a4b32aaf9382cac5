"""Comparisons and arithmetic over one event's attributes as Spark columns, with the values of `predicates.masks`.

In: the syntax node of a mask and the schema that it was bound to. Out: a column, or None where Spark cannot give the
very same values. The columns spell out the rules of masks, so that Spark's ANSI mode makes no difference: integers are
64 bits wide, `/` gives doubles, a division by zero is NULL, a comparison with NaN is unknown. Only where the engine
would stop, since a sum overflows or an integer has no exact double, may the row raise an error here, too. (The engine
looks at rows of every type; Spark may do so, since it evaluates common parts of guards once.) Each integer operation
handles its own overflow; this also keeps Spark's optimizer from reordering sums into ones that overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from ceql.io.schemas import is_text, kind_of, value_type
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression

MOST_NODES = 60  # each operation names the attributes below it once more
EXACT = 2**53  # integers up to here are doubles
EXACT_DIGITS = 15  # decimals of so many digits are exact integers as doubles

NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_INT64, _DOUBLE = pa.int64(), pa.float64()


@dataclass(frozen=True)
class _Value:
    """A column with the type that the engine calculates in."""

    type: pa.DataType
    column: Column
    present: tuple[Column, ...] = ()
    """Of an integer: the conditions under which it is not NULL."""
    narrow: bool = False
    """An integer that is surely an exact double."""


class _Inexact(Exception):
    """Spark cannot be made to give the engine's value."""


class ArithmeticTranslator:
    """Translates comparisons and arithmetic over the columns of `schema`."""

    def __init__(self, schema: pa.Schema, column: Callable[[str], Column]) -> None:
        self.schema = schema
        self.column = column

    def comparison(self, node: t.Comparison, negated: bool) -> Column | bool | None:
        """True where `node` is true (or false, when `negated`); not true where it is unknown."""
        if _size(node.left) + _size(node.right) > MOST_NODES:
            return None
        try:
            left, right = self._value(node.left), self._value(node.right)
            return _compare(NEGATED[node.op] if negated else node.op, left, right)
        except _Inexact:
            return None

    def is_null(self, node: t.IsNull, negated: bool) -> Column | bool | None:
        if _size(node.operand) > MOST_NODES:
            return None
        try:
            value = self._value(node.operand).column
        except _Inexact:
            return None
        return value.isNotNull() if negated else value.isNull()

    def _value(self, node: t.Expression) -> _Value:
        match node:
            case t.Literal(value):
                return _literal(value)
            case t.Attribute(name):
                return self._attribute(name)
            case t.Minus(operand):
                return self._value(t.Arithmetic("-", t.Literal(0), operand))
            case t.Arithmetic(op, left, right):
                return _calculate(op, self._value(left), self._value(right), node)
            case t.Duration() | t.Call():
                raise _Inexact  # the engine's functions and times are Arrow's
        raise AssertionError(f"not an expression over one event: {node}")

    def _attribute(self, name: str) -> _Value:
        index = self.schema.get_field_index(name)
        type = value_type(self.schema.field(index).type) if index >= 0 else pa.null()
        if pa.types.is_null(type):
            return _literal(None)
        column = self.column(name)
        if pa.types.is_signed_integer(type):
            return _Value(_INT64, column.cast("bigint"), (column.isNotNull(),), narrow=type.bit_width < 64)
        if type in (pa.float32(), pa.float64()):
            return _Value(_DOUBLE, column.cast("double"))
        if pa.types.is_decimal128(type) and type.precision <= EXACT_DIGITS and type.scale >= 0:
            return _Value(_DOUBLE, _decimal(column, type))
        if is_text(type):
            return _Value(pa.large_string(), column)
        if pa.types.is_boolean(type) or type == pa.date32() or (pa.types.is_timestamp(type) and type.unit == "us"):
            return _Value(type, column)
        raise _Inexact


def _decimal(column: Column, type: pa.DataType) -> Column:
    """A decimal as Arrow makes it a double: its digits times a power of ten, which is not always the nearest."""
    if type.scale == 0:
        return column.cast("double")
    power = F.lit(str(10**type.scale)).cast(f"decimal({type.scale + 1}, 0)")
    return (column * power).cast("bigint").cast("double") * F.lit(float(f"1e-{type.scale}"))


def _literal(value: int | Decimal | str | bool | None) -> _Value:
    match value:
        case bool():
            return _Value(pa.bool_(), F.lit(value))
        case int():
            return _Value(_INT64, F.lit(value).cast("bigint"), narrow=abs(value) <= EXACT)
        case Decimal():
            return _Value(_DOUBLE, F.lit(float(value)))
        case str():
            return _Value(pa.large_string(), F.lit(value))
        case None:
            return _Value(pa.null(), F.lit(None))


def _compare(op: str, left: _Value, right: _Value) -> Column | bool:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return False
    if kind_of(left.type) != kind_of(right.type):
        raise _Inexact
    if left.type == _DOUBLE or right.type == _DOUBLE:
        a, b = _as_double(left), _as_double(right)
        # NaN is greater than all else to Spark, so that one side is enough to look at, but for !=
        suspects = {">": [a], ">=": [a], "!=": [a, b]}.get(op, [b])
        return reduce(and_, [compare(op, a, b), *(~F.isnan(side) for side in suspects)])
    return compare(op, left.column, right.column)


def compare(op: str, a: Column, b: Column) -> Column:
    """`a op b`, as Spark has it."""
    match op:
        case "=":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
    raise AssertionError(op)


def _calculate(op: str, left: _Value, right: _Value, node: t.Arithmetic) -> _Value:
    if left.type == right.type == _INT64 and op != "/":
        a, b = left.column, right.column
        present = left.present + right.present
        if op == "%":
            return _Value(_INT64, F.try_mod(a, b), (*present, b != F.lit(0)))
        result = {"+": F.try_add, "-": F.try_subtract, "*": F.try_multiply}[op](a, b)
        message = f"'{print_expression(node)}' leaves the range of 64-bit integers"
        return _Value(_INT64, F.coalesce(result, F.when(_all(present), _error(message, "bigint"))), present)
    a, b = _as_double(left), _as_double(right)
    match op:
        case "/":
            return _Value(_DOUBLE, F.try_divide(a, b))
        case "%":
            return _Value(_DOUBLE, F.try_mod(a, b))
    return _Value(_DOUBLE, a + b if op == "+" else a - b if op == "-" else a * b)


def _as_double(value: _Value) -> Column:
    if value.type != _INT64 or value.narrow:
        return value.column.cast("double")
    wide = (value.column > F.lit(EXACT)) | (value.column < F.lit(-EXACT))
    message = f"an integer beyond {EXACT} cannot be calculated with as a float"
    return F.when(wide, _error(message, "double")).otherwise(value.column.cast("double"))


def _error(message: str, type: str) -> Column:
    return F.raise_error(F.lit(message)).cast(type)


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(and_, conditions, F.lit(True))


def _size(node: t.Expression) -> int:
    match node:
        case t.Arithmetic(_, left, right):
            return 1 + _size(left) + _size(right)
        case t.Minus(operand):
            return 1 + _size(operand)
    return 1
