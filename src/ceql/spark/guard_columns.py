"""The guards of a query as Spark columns: what the engine would find true of a row, computed in the JVM.

In: guards bound to an Arrow schema (`BoundGuards`). Out: a boolean column for each. A column is exact if Spark can give
the engine's truth value for every row; otherwise it is true of more rows, and names the attributes from which the
engine decides.

Each formula is read in negation normal form: NOT moves down to the tests, and a test under NOT becomes its
opposite. AND and OR are then monotone, so that unknown may count as false anywhere (a column may be NULL),
and a test that Spark cannot do may be replaced by a weaker one.

Tests keep the shape that file formats understand: a column, bare, compared with a literal of its own type. A range
is closed, within the type's least and greatest value, so that every literal exists. Floats are compared from above in
any case, which shuts out NaN (the greatest to Spark), and a zero that is a lower end is written -0.0: Parquet's
dictionaries hold -0.0 to be less than 0.0, and would skip it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import and_, or_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from ceql.analysis.neighbours import attribute_in, lag_of
from ceql.io.schemas import value_type
from ceql.predicates.bind import BoundGuards
from ceql.predicates.columns import (
    AttributeColumn,
    MaskColumn,
    NullColumn,
    NumberColumn,
    StreamColumn,
    TextTestColumn,
)
from ceql.predicates.logic import AllOf, AnyOf, ColumnTest, Constant, Logic, Not
from ceql.predicates.ranges import Ranges
from ceql.predicates.text_column import TextColumn
from ceql.spark.arithmetic import NEGATED, ArithmeticTranslator, compare
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves, nodes

Number = int | float
Closed = list[tuple[Number, Number]]
"""Ranges with both ends, ascending and apart."""


@dataclass(frozen=True)
class GuardColumn:
    """Where a guard holds; NULL counts as false."""

    exact: bool
    column: Column
    """Exact: true where the guard holds. Else: true there at least."""
    needs: frozenset[str]
    """Not exact: the attributes that the engine must read to decide the guard itself."""
    always: bool = False
    """Whether it holds for every row."""


def quoted(name: str) -> str:
    """The column of this very name in SQL, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def name_of(attribute: str) -> Column:
    """The column of this very name."""
    return F.col(quoted(attribute))


def guard_columns(
    bound: BoundGuards, schema: pa.Schema, stream: Column | None, column: Callable[[str], Column] = name_of
) -> list[GuardColumn]:
    """A column for each guard of `bound`, which was bound to `schema`.

    `stream` is the number of an event's stream, where there is more than one; `column` gives an attribute.
    """
    translator = _Translator(bound, schema, stream, column)
    return [translator.guard(guard) for guard in bound.guards]


@dataclass(frozen=True)
class _Part:
    """A formula as a column or a constant, and whether that is exactly the formula or only weaker."""

    column: Column | bool
    exact: bool = True


class _Translator:
    """Translates the logic of guards over the columns of `schema`."""

    def __init__(
        self, bound: BoundGuards, schema: pa.Schema, stream: Column | None, column: Callable[[str], Column]
    ) -> None:
        self.bound = bound
        self.schema = schema
        self.stream = stream
        self.column = column
        self.arithmetic = ArithmeticTranslator(schema, column)

    def guard(self, guard: Logic) -> GuardColumn:
        part = self.formula(guard, False)
        column = F.lit(part.column) if isinstance(part.column, bool) else part.column
        needs = frozenset() if part.exact else frozenset(map(attribute_in, self.read(guard))) & set(self.schema.names)
        return GuardColumn(part.exact, column, needs, part.exact and part.column is True)

    def formula(self, logic: Logic, negated: bool) -> _Part:
        match logic:
            case Constant(value):
                return _Part(value is not None and value != negated)
            case Not(item):
                return self.formula(item, not negated)
            case AllOf(items) | AnyOf(items):
                parts = [self.formula(item, negated) for item in items]
                return _any(parts) if isinstance(logic, AnyOf) != negated else _all(parts)
            case ColumnTest(slot, index):
                column = self.test(slot, index, negated)
                return _Part(self.weaker(logic) if column is None else column, column is not None)

    def test(self, slot: int, index: int, negated: bool) -> Column | bool | None:
        """One test, or its opposite; None where Spark cannot do it, as of lags: there, events have no order."""
        if any(lag_of(name) is not None for name in self.read(ColumnTest(slot, index))):
            return None
        match self.bound.columns[slot]:
            case NumberColumn(attribute=name, tests=tests):
                type = value_type(self.schema.field(name).type)
                return _number(self.column(name), type, tests[index], negated)
            case TextColumn(attribute=name, tests=texts, negated=outside):
                text = self.column(name)
                wanted = sorted(texts[index])
                inside = text == F.lit(wanted[0]) if len(wanted) == 1 else text.isin(wanted)
                return ~inside if outside[index] != negated else inside
            case NullColumn(attribute=name):
                return self.column(name).isNotNull() if negated else self.column(name).isNull()
            case StreamColumn():
                if self.stream is None:
                    raise ValueError("the guards tell streams apart, and no column says which stream a row is of")
                return self.stream != F.lit(index) if negated else self.stream == F.lit(index)
            case TextTestColumn(node=t.Like() as node, attribute=name):
                return _pattern(self.column(name), node, negated)
            case TextTestColumn(node=t.Comparison(op, _, t.Literal(value)), attribute=name):
                return compare(NEGATED[op] if negated else op, self.column(name), F.lit(value))
            case MaskColumn(node=t.Comparison() as node):
                return self.arithmetic.comparison(node, negated)
            case MaskColumn(node=t.IsNull() as node):
                return self.arithmetic.is_null(node, negated)
            case MaskColumn():
                return None
        raise AssertionError(slot)

    def weaker(self, test: ColumnTest) -> Column | bool:
        """A weaker condition: true wherever the test or its opposite is. A test of a NULL is neither true nor false."""
        column = self.bound.columns[test.slot]
        if isinstance(column, MaskColumn) and (isinstance(column.node, t.IsNull) or _calls(column.node)):
            return True
        present = [_Part(self.column(name).isNotNull()) for name in sorted(self.attributes(test))]
        return _all(present).column

    def attributes(self, logic: Logic) -> set[str]:
        """The attributes of the schema that a formula looks at."""
        return self.read(logic) & set(self.schema.names)

    def read(self, logic: Logic) -> set[str]:
        """The same, with lags."""
        match logic:
            case AllOf(items) | AnyOf(items):
                return set().union(*map(self.read, items))
            case Not(item):
                return self.read(item)
            case ColumnTest(slot):
                column = self.bound.columns[slot]
                if isinstance(column, AttributeColumn):
                    return {column.attribute}
                if isinstance(column, MaskColumn):
                    return {leaf.name for leaf in leaves(column.node) if isinstance(leaf, t.Attribute)}
        return set()


def _calls(node: t.Comparison | t.Like) -> bool:
    """Whether functions take part, some of which give a value for NULL."""
    return any(isinstance(part, t.Call) for part in nodes(node))


# --- AND and OR ---


def _all(parts: Sequence[_Part]) -> _Part:
    if any(part.column is False for part in parts):
        return _Part(False)
    columns = [part.column for part in parts if not isinstance(part.column, bool)]
    return _Part(_joined(columns, and_) if columns else True, all(part.exact for part in parts))


def _any(parts: Sequence[_Part]) -> _Part:
    always = [part for part in parts if part.column is True]
    if always:
        return _Part(True, any(part.exact for part in always))
    columns = [part.column for part in parts if not isinstance(part.column, bool)]
    return _Part(_joined(columns, or_) if columns else False, all(part.exact for part in parts))


def _joined(columns: Sequence[Column], operator: Callable[[Column, Column], Column]) -> Column:
    """All columns in order, as a balanced tree: Spark recurses along it."""
    if len(columns) == 1:
        return columns[0]
    half = len(columns) // 2
    return operator(_joined(columns[:half], operator), _joined(columns[half:], operator))


# --- numbers, truth values, dates and times ---


@dataclass(frozen=True)
class _Domain:
    """The values of a type in order, as the numbers of `ranges.py`, and as literals."""

    least: Number
    greatest: Number
    literal: Callable[[Number], Column]
    dtype: type[np.float32] | type[np.float64] | None = None

    def ceil(self, number: Number) -> Number:
        """The least value of the type at or above."""
        if self.dtype is None:
            return number
        with np.errstate(over="ignore"):
            near = float(self.dtype(number))
        return near if near >= number else self.after(near)

    def after(self, value: Number) -> Number:
        return value + 1 if self.dtype is None else self._towards(value, np.inf)

    def before(self, value: Number) -> Number:
        return value - 1 if self.dtype is None else self._towards(value, -np.inf)

    def _towards(self, value: Number, end: float) -> float:
        assert self.dtype is not None
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(self.dtype(value), self.dtype(end)))

    def closed(self, ranges: Ranges) -> Closed:
        """Half-open ranges as closed ones."""
        found: Closed = []
        for start, end in sorted(ranges, key=lambda part: self.least if part[0] is None else part[0]):
            low = self.least if start is None else max(self.ceil(start), self.least)
            if end is not None and self.ceil(end) <= self.least:
                continue
            high = self.greatest if end is None else min(self.before(self.ceil(end)), self.greatest)
            if low > high:
                continue
            if found and low <= self.after(found[-1][1]):
                found[-1] = (found[-1][0], max(found[-1][1], high))
            else:
                found.append((low, high))
        return found

    def others(self, ranges: Closed) -> Closed:
        """All other values."""
        found: Closed = []
        start: Number | None = self.least
        for low, high in ranges:
            if start is not None and low > start:
                found.append((start, self.before(low)))
            start = self.after(high) if high < self.greatest else None
        return found if start is None else [*found, (start, self.greatest)]


def _number(column: Column, type: pa.DataType, test: Ranges, negated: bool) -> Column | bool | None:
    domain = _domain(type)
    if domain is None:
        return None
    inside = domain.closed(test)
    outside = domain.others(inside)
    if negated:
        inside, outside = outside, inside
    if not inside:
        return False
    if domain.dtype is None:
        if not outside:
            return column.isNotNull()
        if len(outside) == 1 and outside[0][0] == outside[0][1] and len(inside) > 1:
            return column != domain.literal(outside[0][0])
    return _joined([_range(column, domain, low, high) for low, high in inside], or_)


def _range(column: Column, domain: _Domain, low: Number, high: Number) -> Column:
    if low == high and (low != 0 or domain.dtype is None):
        return column == domain.literal(low)
    ends = []
    if low > domain.least:
        ends.append(column >= domain.literal(low if low != 0 or domain.dtype is None else -0.0))
    if high < domain.greatest or domain.dtype is not None:
        ends.append(column <= domain.literal(high))
    return _joined(ends, and_)


def _domain(type: pa.DataType) -> _Domain | None:
    """The domain of an Arrow type that Spark has; None for one that it has not, or that has no literals here."""
    if pa.types.is_boolean(type):
        return _Domain(0, 1, lambda n: F.lit(bool(n)))
    if pa.types.is_signed_integer(type):
        name = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[type.bit_width]
        return _Domain(-(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1, lambda n: F.lit(n).cast(name))
    if type in (pa.float32(), pa.float64()):
        name, dtype = ("float", np.float32) if type == pa.float32() else ("double", np.float64)
        return _Domain(-np.inf, np.inf, lambda n: F.lit(float(n)).cast(name), dtype)
    if pa.types.is_decimal128(type) and type.scale >= 0:
        most = 10**type.precision - 1
        return _Domain(-most, most, partial(_decimal, type))
    if type == pa.date32():
        return _Domain(-(2**31), 2**31 - 1, lambda n: F.date_from_unix_date(F.lit(n)))
    if pa.types.is_timestamp(type) and type.unit == "us":
        moment = _local_time if type.tz is None else lambda n: F.timestamp_micros(F.lit(n))
        return _Domain(-(2**63), 2**63 - 1, moment)
    return None


def _decimal(type: pa.DataType, unscaled: Number) -> Column:
    digits = str(abs(int(unscaled))).rjust(type.scale + 1, "0")
    whole = len(digits) - type.scale
    text = f"{'-' if unscaled < 0 else ''}{digits[:whole]}.{digits[whole:]}"
    return F.lit(text).cast(f"decimal({type.precision}, {type.scale})")


def _local_time(microseconds: Number) -> Column:
    """A TIMESTAMP_NTZ: no function makes one of a number, and PySpark's timedeltas before 0 are a second off."""
    days, rest = divmod(int(microseconds), 86_400 * 10**6)
    seconds = F.lit(f"{rest // 10**6}.{rest % 10**6:06}").cast("decimal(18, 6)")
    return F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(days=F.lit(days), secs=seconds)


# --- patterns ---


def _pattern(text: Column, node: t.Like, negated: bool) -> Column | bool | None:
    """LIKE by the plain functions that file formats know; None for regular expressions and where these are not enough.

    Java reads many regular expressions otherwise than RE2, and backtracks, where RE2 is linear: the engine decides.
    """
    if node.regex or "_" in node.pattern:
        return None
    if "%" not in node.pattern:
        found = text == F.lit(node.pattern)
    else:
        first, *between, last = node.pattern.split("%")
        if not (first or last or any(between)):
            return False if negated else text.isNotNull()
        if any(between) and (first or last or len(between) > 1):
            return None
        found = text.contains(between[0]) if any(between) else _with_ends(text, first, last)
    return ~found if negated else found


def _with_ends(text: Column, first: str, last: str) -> Column:
    found = []
    if first:
        found.append(text.startswith(first))
    if last:
        found.append(text.endswith(last))
    if first and last:
        found.append(F.octet_length(text) >= F.lit(len(first.encode()) + len(last.encode())))
    return _joined(found, and_)
