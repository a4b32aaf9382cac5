"""Expressions of SQL over Arrow columns.

In: a tree of sqlglot without looks at rows, and a function that gives the columns that it names. Out: an array, or a
scalar where only constants stand. NULL is SQL's. Run over no rows, this is also the check that all of it is known:
what is not is a `Refused` with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.errors import DataError, did_you_mean
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.functions import FUNCTIONS, difference
from ceql.row_patterns.problem import Refused
from ceql.row_patterns.statement import CALLED, IN_DAYS

Column = Any  # pa.Array or pa.Scalar
Leaf = Callable[[exp.Expr], Column]
"""The column of exp.Column or exp.Placeholder."""

_COMPARISONS: dict[type[exp.Expr], Any] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_ARITHMETIC: dict[type[exp.Expr], Any] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 10**3,
    "SECOND": 10**6,
    "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
    "DAY": 86400 * 10**6,
    "WEEK": 7 * 86400 * 10**6,
}
_DAYS = re.compile(r"(\d+) (\d+):(\d+):(\d+(?:\.\d+)?)")
"""Of INTERVAL '1 02:30:00' DAY TO SECOND."""
_TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "TEXT": pa.string(),
    "NVARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}


def evaluate(tree: exp.Expr, leaf: Leaf) -> Column:
    """The values of an expression."""
    return _Evaluator(leaf, any(node.args.get(IN_DAYS) for node in tree.walk())).value(tree)


def plain(column: Column) -> Column:
    """A column in the types that operations take: no dictionaries, no views."""
    type = column.type
    if pa.types.is_dictionary(type):
        column = column.cast(type.value_type)
        type = column.type
    if pa.types.is_string_view(type) or pa.types.is_large_string(type):
        column = column.cast(pa.string()) if column.nbytes < 2**31 else column.cast(pa.large_string())
    return column


def as_array(column: Column, length: int) -> pa.Array:
    """A constant as often as there are rows."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pa.repeat(column, length) if isinstance(column, pa.Scalar) else column


def interval(node: exp.Expr) -> int:
    """An interval in microseconds."""
    if isinstance(node, exp.Interval):
        unit = str(node.args.get("unit") or "").upper().rstrip("S")
        text = node.this.name if isinstance(node.this, exp.Literal) else ""
        span, days = node.args.get("unit"), _DAYS.fullmatch(text)
        if isinstance(span, exp.IntervalSpan) and days and (span.this.name, span.expression.name) == ("DAY", "SECOND"):
            units = zip(days.groups(), ("DAY", "HOUR", "MINUTE", "SECOND"), strict=True)
            return sum(int(Decimal(count) * _UNITS[name]) for count, name in units)
        if unit in _UNITS and text.replace(".", "", 1).replace("-", "", 1).isdigit():
            return int(Decimal(text) * _UNITS[unit])
    raise Refused("an interval of this form is not evaluated", span_of(node), "Write INTERVAL '1' HOUR.")


class _Evaluator:
    def __init__(self, leaf: Leaf, in_days: bool):
        self._leaf = leaf
        self._in_days = in_days

    def value(self, node: exp.Expr) -> Column:
        try:
            return self._value(node)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            message = f"'{node.sql('trino')}' does not fit its types: {str(error).splitlines()[0]}"
            raise Refused(message, span_of(node), "Use CAST.") from None
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise DataError(f"'{node.sql('trino')}' cannot be computed: {str(error).splitlines()[0]}") from None

    def _value(self, node: exp.Expr) -> Column:
        kind = type(node)
        if kind in _COMPARISONS:
            return self._compared(_COMPARISONS[kind], node.this, node.expression)
        if kind in _ARITHMETIC:
            return self._calculated(kind, *self._pair(node.this, node.expression))
        match node:
            case exp.Column() | exp.Placeholder():
                return plain(self._leaf(node))
            case exp.Paren():
                return self.value(node.this)
            case exp.Dot():
                return self._field(node)
            case exp.Literal():
                return _literal(node)
            case exp.Boolean():
                return pa.scalar(bool(node.this))
            case exp.Null():
                return pa.scalar(None)
            case exp.Interval():
                return pa.scalar(interval(node), pa.duration("us"))
            case exp.Neg():
                return pc.negate_checked(self.value(node.this))
            case exp.Not():
                return pc.invert(self._truth(node.this))
            case exp.And():
                return pc.and_kleene(self._truth(node.this), self._truth(node.expression))
            case exp.Or():
                return pc.or_kleene(self._truth(node.this), self._truth(node.expression))
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ():
                return self._same(node)
            case exp.NullSafeNEQ():
                return pc.invert(self._same(node))
            case exp.Between():
                low = self._compared(pc.greater_equal, node.this, node.args["low"])
                return pc.and_kleene(low, self._compared(pc.less_equal, node.this, node.args["high"]))
            case exp.In():
                return self._in(node)
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.Div():
                return self._divided(node)
            case exp.Mod():
                return self._remainder(node)
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._chosen([(node.this, node.args["true"])], node.args.get("false"), None)
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.DateDiff() | exp.TimestampDiff():
                return self._between(node)
            case exp.DPipe():
                return self._joined([node.this, node.expression])
            case exp.Anonymous() if node.args.get(CALLED):
                return self._called(node)
        function = FUNCTIONS.get(kind)
        if function is None:
            name = str(node.this) if isinstance(node, exp.Anonymous) else node.key.upper()
            raise Refused(f"{name} is not evaluated", span_of(node), "Compute it in a column of the rows.")
        arguments = [argument for key in node.arg_types for argument in self._argument(node.args.get(key))]
        try:
            return function(*arguments)
        except Refused as problem:
            raise Refused(problem.message, problem.span or span_of(node), problem.advice) from None

    def _argument(self, value: Any) -> list[Any]:
        if isinstance(value, exp.Var):
            return [value.name]
        if isinstance(value, exp.Expr):
            return [self.value(value)]
        return [self.value(each) for each in value] if isinstance(value, list) else []

    def _field(self, node: exp.Dot) -> Column:
        """A field of a nested column, as it is written or else whatever its case."""
        value = self.value(node.this)
        names = [each.name for each in value.type] if pa.types.is_struct(value.type) else []
        name = node.expression.name
        near = [name] if name in names else [each for each in names if each.lower() == name.lower()]
        if len(near) != 1:
            raise Refused(f"there is no field '{name}'", span_of(node), did_you_mean(name, names))
        return plain(pc.struct_field(value, near[0]))

    def _called(self, node: exp.Anonymous) -> Column:
        """What a function of the user's gives, whose arguments are arrays of one length."""
        arguments = [self.value(each) for each in node.expressions]
        length = max([len(each) for each in arguments if not isinstance(each, pa.Scalar)], default=1)
        found = node.args[CALLED](*(as_array(each, length) for each in arguments))
        if not isinstance(found, pa.Array | pa.ChunkedArray) or len(found) != length:
            kind = f"{len(found)}" if isinstance(found, pa.Array | pa.ChunkedArray) else f"a {type(found).__name__}"
            message = f"'{node.this}' takes arrays of {length} values and gives {kind}"
            raise Refused(message, span_of(node), "Return an Arrow array with as many values as each argument has.")
        alone = all(isinstance(each, pa.Scalar) for each in arguments)
        return found[0] if alone else as_array(found, length)

    def _truth(self, node: exp.Expr) -> Column:
        value = self.value(node)
        if pa.types.is_null(value.type):
            return value.cast(pa.bool_())
        if not pa.types.is_boolean(value.type):
            raise Refused(f"'{node.sql('trino')}' is no condition, it is {value.type}", span_of(node))
        return value

    def _pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Column, Column]:
        """Two values in types that go together."""
        a, b = self.value(left), self.value(right)
        if pa.types.is_null(a.type) and not pa.types.is_null(b.type):
            a = a.cast(b.type)
        if pa.types.is_null(b.type) and not pa.types.is_null(a.type):
            b = b.cast(a.type)
        if pa.types.is_decimal(a.type):
            b = _as_decimal(right, b)
        if pa.types.is_decimal(b.type):
            a = _as_decimal(left, a)
        if self._in_days:
            a, b = _as_days(a, b), _as_days(b, a)
        return _as_time(a, b), _as_time(b, a)

    def _compared(self, compare: Any, left: exp.Expr, right: exp.Expr) -> Column:
        a, b = self._pair(left, right)
        if pa.types.is_string(a.type) != pa.types.is_string(b.type):
            texts = pa.types.is_large_string(a.type) or pa.types.is_large_string(b.type)
            if not texts:
                raise Refused(f"text and {b.type if pa.types.is_string(a.type) else a.type} are compared",
                              span_of(left.parent or left), "Use CAST.")  # fmt: skip
        return compare(a, b)

    def _calculated(self, kind: type[exp.Expr], a: Column, b: Column) -> Column:
        if pa.types.is_date(a.type) and pa.types.is_duration(b.type):
            a = a.cast(pa.timestamp("us"))
        if pa.types.is_date(b.type) and pa.types.is_duration(a.type):
            b = b.cast(pa.timestamp("us"))
        if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
            a, b = a.cast(pa.int64()), b.cast(pa.int64())
        result = _ARITHMETIC[kind](a, b)
        if self._in_days and pa.types.is_date(a.type) and pa.types.is_date(b.type):
            return pc.divide(result.cast(pa.duration("s")).cast(pa.int64()), 86400)
        return result

    def _is(self, node: exp.Is) -> Column:
        value = self.value(node.this)
        if isinstance(node.expression, exp.Null):
            return pc.is_null(value)
        wanted = bool(node.expression.this)
        return pc.fill_null(value if wanted else pc.invert(value), False)

    def _same(self, node: exp.Expr) -> Column:
        a, b = self._pair(node.this, node.expression)
        equal = pc.fill_null(pc.equal(a, b), False)
        return pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b)))

    def _in(self, node: exp.In) -> Column:
        if not node.expressions:
            raise Refused("IN takes a list of values", span_of(node), "Join the subquery's result to the rows.")
        found = self._compared(pc.equal, node.this, node.expressions[0])
        for each in node.expressions[1:]:
            found = pc.or_kleene(found, self._compared(pc.equal, node.this, each))
        return found

    def _like(self, node: exp.Like | exp.ILike) -> Column:
        wanted = self.value(node.expression)
        if not isinstance(wanted, pa.Scalar):
            raise Refused("LIKE takes a constant", span_of(node))
        if not wanted.is_valid:
            return pa.scalar(None, pa.bool_())
        return pc.match_like(self.value(node.this), wanted.as_py(), ignore_case=isinstance(node, exp.ILike))

    def _divided(self, node: exp.Div) -> Column:
        a, b = self._pair(node.this, node.expression)
        if node.args.get("safe"):
            b = pc.if_else(pc.equal(b, pa.scalar(0).cast(b.type)), pa.scalar(None, b.type), b)
        if pa.types.is_integer(a.type) and pa.types.is_integer(b.type) and not node.args.get("typed"):
            a, b = a.cast(pa.float64()), b.cast(pa.float64())
        return pc.divide_checked(a, b)

    def _remainder(self, node: exp.Mod) -> Column:
        a, b = self._pair(node.this, node.expression)
        if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
            a, b = a.cast(pa.int64()), b.cast(pa.int64())
            return pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))
        a, b = a.cast(pa.float64()), b.cast(pa.float64())
        return pc.subtract(a, pc.multiply(pc.trunc(pc.divide(a, b)), b))

    def _case(self, node: exp.Case) -> Column:
        ways = []
        for way in node.args["ifs"]:
            test = way.this if node.this is None else exp.EQ(this=node.this.copy(), expression=way.this.copy())
            ways.append((test, way.args["true"]))
        return self._chosen(ways, node.args.get("default"), node)

    def _chosen(self, ways: list[tuple[exp.Expr, exp.Expr]], other: exp.Expr | None, node: exp.Expr | None) -> Column:
        values = [self.value(value) for _, value in ways]
        values.append(pa.scalar(None) if other is None else self.value(other))
        type = common_type([value.type for value in values])
        result = values[-1].cast(type)
        for (test, _), value in reversed(list(zip(ways, values, strict=False))):
            result = pc.if_else(pc.fill_null(self._truth(test), False), value.cast(type), result)
        return result

    def _cast(self, node: exp.Expr) -> Column:
        to = node.args["to"]
        value = self.value(node.this)
        name = to.this.value if hasattr(to.this, "value") else str(to.this)
        if name == "DECIMAL":
            digits = [int(each.name) for each in to.expressions]
            precision, scale = (*digits, *(38, 0)[len(digits) :])
            type: pa.DataType = pa.decimal128(precision, scale)
        elif name in _TYPES:
            type = _TYPES[name]
        else:
            raise Refused(f"CAST to {to.sql('trino')} is not evaluated", span_of(node))
        if pa.types.is_floating(value.type) and pa.types.is_integer(type):
            value = pc.round(value, round_mode="half_towards_infinity")
        if pa.types.is_integer(value.type) and pa.types.is_decimal(type):
            value = value.cast(pa.decimal128(19, 0))
        return value.cast(type)

    def _between(self, node: exp.Expr) -> Column:
        unit = node.args.get("unit")
        name, ends = "DAY", [node.this, node.expression]
        if unit is not None:  # sqlglot casts to dates for Spark, which counts units of the times themselves
            name, ends = unit.name, [each.this if isinstance(each, exp.TsOrDsToDate) else each for each in ends]
        end, start = self._pair(*ends)
        try:
            return difference(start, end, name, bool(node.args.get("date_part_boundary")))
        except Refused as problem:
            raise Refused(problem.message, span_of(node), problem.advice) from None

    def _joined(self, parts: list[exp.Expr]) -> Column:
        values = [self.value(part) for part in parts]
        texts = [v if pa.types.is_string(v.type) or pa.types.is_large_string(v.type) else v.cast(pa.string())
                 for v in values]  # fmt: skip
        return pc.binary_join_element_wise(*texts, "")


def common_type(types: list[pa.DataType]) -> pa.DataType:
    """A type that holds the values of all of these."""
    known = [type for type in types if not pa.types.is_null(type)] or [pa.null()]
    first = known[0]
    for other in known[1:]:
        if other == first:
            continue
        if pa.types.is_integer(first) and pa.types.is_integer(other):
            first = pa.int64()
        elif pa.types.is_decimal(first) and pa.types.is_integer(other):
            continue
        elif pa.types.is_integer(first) and pa.types.is_decimal(other):
            first = other
        elif _is_number(first) and _is_number(other):
            first = pa.float64()
        else:
            raise pa.ArrowTypeError(f"{first} and {other} do not go together")
    return first


def _literal(node: exp.Literal) -> pa.Scalar:
    text = str(node.this)
    if node.is_string:
        return pa.scalar(text)
    return pa.scalar(int(text)) if text.isdigit() else pa.scalar(float(text))


def _as_decimal(node: exp.Expr, value: Column) -> Column:
    """A number that is written with digits behind the point, beside a decimal; whole numbers, too."""
    if isinstance(node, exp.Literal) and not node.is_string and "e" not in str(node.this).lower():
        return pa.scalar(Decimal(str(node.this)))
    if pa.types.is_integer(value.type):
        return value.cast(pa.decimal128(19, 0))
    return value


def _as_days(value: Column, other: Column) -> Column:
    """A duration beside a number as a number of days, and a number beside a date or time as a duration of days."""
    if pa.types.is_duration(value.type) and _is_number(other.type):
        return pc.divide(value.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), float(_UNITS["DAY"]))
    if _is_number(value.type) and (pa.types.is_date(other.type) or pa.types.is_timestamp(other.type)):
        passed = pc.round(pc.multiply(value.cast(pa.float64()), float(_UNITS["DAY"])))
        return passed.cast(pa.int64()).cast(pa.duration("us"))
    return value


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _as_time(value: Column, other: Column) -> Column:
    """A text beside a date or time is one; the current time beside a time without a zone is that of UTC."""
    if isinstance(value, pa.Scalar) and pa.types.is_timestamp(value.type) and pa.types.is_timestamp(other.type):
        return value.cast(pa.timestamp("us")) if value.type.tz and not other.type.tz else value
    if isinstance(value, pa.Scalar) and pa.types.is_string(value.type) and value.is_valid:
        parse: dict[Any, Any] = {pa.types.is_date: date, pa.types.is_timestamp: datetime, pa.types.is_time: time}
        for is_type, kind in parse.items():
            if is_type(other.type):
                try:
                    return pa.scalar(kind.fromisoformat(value.as_py()), other.type)
                except ValueError:
                    raise Refused(f"'{value.as_py()}' is no {kind.__name__}", None) from None
    return value
