"""Binds guards to a schema: finds the column slots they need, and turns each guard into logic over tests of slots.

In: the guards of an automaton and the schema of the events. Out: `BoundGuards`. An attribute that the schema lacks, or
a literal of another kind than its column, is a `SchemaError` with its place. If the schema is open (dicts), an
attribute that no event has shown yet is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.neighbours import attribute_in
from ceql.analysis.normal import Atom
from ceql.errors import QueryError, SchemaError, no_column
from ceql.io.schemas import is_text, names_near, value_type
from ceql.predicates.columns import (
    Column,
    MaskColumn,
    NullColumn,
    NumberColumn,
    StreamColumn,
    TextTestColumn,
)
from ceql.predicates.logic import AllOf, AnyOf, ColumnTest, Constant, Logic, Not
from ceql.predicates.masks import MaskCompiler, show_column
from ceql.predicates.patterns import compile_pattern
from ceql.predicates.ranges import Mismatch, Range, Ranges, common, ranges, show, united
from ceql.predicates.text_column import TextColumn
from ceql.predicates.time_arithmetic import unit_in
from ceql.syntax import tree as t

UNKNOWN = Constant(None)


@dataclass(frozen=True, slots=True)
class BoundGuards:
    """Column slots in the order of the code's digits, and one formula for each guard."""

    columns: tuple[Column, ...]
    guards: tuple[Logic, ...]
    known: dict[int, int] = field(default_factory=dict)
    """The sets of guards, as bit masks, of some codes that have occurred: most inputs of a query have the same."""


@dataclass(frozen=True, slots=True)
class InputSchema:
    """What guards are bound to: the columns of the events, which of them is the type, and the streams."""

    schema: pa.Schema
    open_schema: bool
    type: str | None
    streams: tuple[str | None, ...]
    untyped: frozenset[int] = frozenset()
    """The streams that lack the type column, though others have it. The type of their events is the stream's name."""


def bind(guards: Sequence[Atom], input: InputSchema, source: str) -> BoundGuards:
    """Bind `guards`; raises `SchemaError` if one does not fit."""
    return _Binder(input, source).bind(guards)


@dataclass(frozen=True, slots=True)
class BoundTogether:
    """The guards of several queries over the same column slots."""

    columns: tuple[Column, ...]
    kinds: tuple[tuple[Logic, ...], ...]
    """Of each guard of each query: what it asks of the event's type and stream."""
    rest: tuple[tuple[Logic, ...], ...]
    """Of each guard of each query: what it asks of other attributes."""


def bind_together(
    queries: Sequence[tuple[Sequence[Atom], str]],
    input: InputSchema,
    of_query: Callable[[int], AbstractContextManager[None]] = lambda number: nullcontext(),
) -> BoundTogether:
    """Bind the guards of several queries, each given with its text: tests of the same column share a slot.

    A query is bound inside `of_query(its number)`, which may say in an error which query it is.
    """
    binder = _Binder(input, "")
    kinds, rest = [], []
    for number, (guards, source) in enumerate(queries):
        binder.source = binder.masks.source = source
        with of_query(number):
            kinds.append(tuple(binder.event_type(guard) for guard in guards))
            rest.append(tuple(AllOf(tuple(map(binder.predicate, guard.predicates))) for guard in guards))
    return BoundTogether(binder.bound(()).columns, tuple(kinds), tuple(rest))


def bind_predicate(node: t.Predicate, input: InputSchema, source: str) -> BoundGuards:
    """Bind one predicate, whatever the event's type."""
    return _Binder(input, source).bind_one(node)


class _Binder:
    def __init__(self, input: InputSchema, source: str) -> None:
        self.input = input
        self.source = source
        self.masks = MaskCompiler(
            lambda node: value_type(self.attribute(node)), source, lambda node: unit_in(input.schema, node.name)
        )
        self.numbers: dict[str, dict[tuple[Range, ...], int]] = {}
        self.texts: dict[str, dict[tuple[frozenset[str], bool], int]] = {}
        self.slots: dict[object, int] = {}  # by what each slot holds, in order
        self.fixed: dict[int, Column] = {}

    def bind(self, guards: Sequence[Atom]) -> BoundGuards:
        return self.bound(tuple(self.guard(guard) for guard in guards))

    def bind_one(self, node: t.Predicate) -> BoundGuards:
        return self.bound((self.predicate(node),))

    def bound(self, logic: tuple[Logic, ...]) -> BoundGuards:
        columns: list[Column] = []
        for key, slot in self.slots.items():
            match key:
                case ("number", str(name)):
                    type = value_type(self.input.schema.field(name).type)
                    columns.append(NumberColumn(name, type, [list(parts) for parts in self.numbers[name]]))
                case ("text", str(name)):
                    tests = self.texts[name]
                    columns.append(TextColumn(name, [literals for literals, _ in tests], [neg for _, neg in tests]))
                case _:
                    columns.append(self.fixed[slot])
        return BoundGuards(tuple(columns), logic)

    # --- slots ---

    def slot(self, key: object, column: Column | None = None) -> int:
        number = self.slots.setdefault(key, len(self.slots))
        if column is not None:
            self.fixed.setdefault(number, column)
        return number

    def number_test(self, name: str, parts: Ranges) -> Logic:
        tests = self.numbers.setdefault(name, {})
        return ColumnTest(self.slot(("number", name)), tests.setdefault(tuple(parts), len(tests)))

    def text_test(self, name: str, literals: frozenset[str], negated: bool) -> Logic:
        tests = self.texts.setdefault(name, {})
        return ColumnTest(self.slot(("text", name)), tests.setdefault((literals, negated), len(tests)))

    # --- guards ---

    def guard(self, guard: Atom) -> Logic:
        parts = [self.event_type(guard), *(self.predicate(p) for p in guard.predicates)]
        return AllOf(tuple(parts))

    def event_type(self, guard: Atom) -> Logic:
        streams = self.input.streams
        parts: list[Logic] = []
        if guard.stream is not None:
            parts.append(self.stream_test(streams.index(guard.stream)))
        named = [k for k, name in enumerate(streams) if name == guard.type]
        if self.input.type is None:
            parts.append(AnyOf(tuple(self.stream_test(k) for k in named)))
        else:
            of_type = self.text_test(self.input.type, frozenset([guard.type]), False)
            untyped = [self.stream_test(k) for k in named if k in self.input.untyped]
            parts.append(AnyOf((of_type, *untyped)) if untyped else of_type)
        return AllOf(tuple(parts))

    def stream_test(self, stream: int) -> Logic:
        if len(self.input.streams) == 1:
            return Constant(True)
        return ColumnTest(self.slot("stream", StreamColumn(len(self.input.streams))), stream)

    # --- predicates ---

    def predicate(self, node: t.Predicate) -> Logic:
        match node:
            case t.Conj(items):
                return AllOf(tuple(self.predicate(cast(t.Predicate, i)) for i in items))
            case t.Disj(items):
                return self.disjunction(cast(tuple[t.Predicate, ...], items))
            case t.Neg(item):
                return Not(self.predicate(cast(t.Predicate, item)))
            case t.Comparison():
                return self.comparison(node)
            case t.Between() | t.In() | t.Like() | t.IsNull():
                positive = self.without_not(node)
                return Not(positive) if node.negated else positive

    def disjunction(self, items: Sequence[t.Predicate]) -> Logic:
        """OR. Where its items ask for values of one column, they are one test, however many they are."""
        parts: list[Logic] = []
        numbers: dict[str, list[Ranges]] = {}
        texts: dict[str, set[str]] = {}
        for item in items:
            match item:
                case t.Comparison(op, t.Attribute() as attribute, t.Literal(value)) if value is not None:
                    type = value_type(self.attribute(attribute))
                    if is_text(type) and isinstance(value, str) and op == "=":
                        texts.setdefault(attribute.name, set()).add(value)
                    elif is_text(type) or pa.types.is_null(type):
                        parts.append(self.predicate(item))
                    else:
                        numbers.setdefault(attribute.name, []).append(self.ranges(attribute, type, op, value))
                case _:
                    parts.append(self.predicate(item))
        parts += [self.number_test(name, united(tests)) for name, tests in numbers.items()]
        parts += [self.text_test(name, frozenset(literals), False) for name, literals in texts.items()]
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def without_not(self, node: t.Between | t.In | t.Like | t.IsNull) -> Logic:
        match node:
            case t.Between(_, low, high):
                return self.between(node, low, high)
            case t.In():
                return self.membership(node)
            case t.Like():
                return self.like(node)
            case t.IsNull(operand):
                return self.is_null(node, operand)

    def between(self, node: t.Between | t.In, low: t.Expression | None, high: t.Expression | None) -> Logic:
        ends = ((">=", low), ("<=", high))
        compared = (t.Comparison(op, node.operand, end, span=node.span) for op, end in ends if end is not None)
        return AllOf(tuple(self.comparison(comparison) for comparison in compared))

    def comparison(self, node: t.Comparison) -> Logic:
        match node.left, node.right:
            case t.Literal(a), t.Literal(b):
                return Constant(_compare_literals(node.op, a, b, node, self.source))
            case t.Literal(), t.Attribute():
                flipped = t.Comparison(t.FLIPPED[node.op], node.right, node.left, span=node.span)
                return self.comparison(flipped)
            case t.Attribute() as attribute, t.Literal(value):
                type = value_type(self.attribute(attribute))
                if value is None or pa.types.is_null(type):
                    return UNKNOWN
                return self.column_test(attribute, type, value, node)
        return ColumnTest(self.slot(("mask", node), MaskColumn(node, self.masks.comparison(node))), 0)

    def column_test(self, attribute: t.Attribute, type: pa.DataType, value: object, node: t.Comparison) -> Logic:
        op = node.op
        if is_text(type):
            if not isinstance(value, str):
                raise self.mismatch(attribute, type, f"holds text and cannot be compared with {show(value)}")
            if op in ("=", "!="):
                return self.text_test(attribute.name, frozenset([value]), op == "!=")
            test = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}[op]
            literal = pa.scalar(value, pa.large_string())
            column = TextTestColumn(attribute.name, node, lambda values: test(values.cast(pa.large_string()), literal))
            return ColumnTest(self.slot(("text order", attribute.name, op, value), column), 0)
        return self.number_test(attribute.name, self.ranges(attribute, type, op, value))

    def ranges(self, attribute: t.Attribute, type: pa.DataType, op: str, value: object) -> Ranges:
        if not (
            pa.types.is_integer(type)
            or pa.types.is_floating(type)
            or pa.types.is_decimal(type)
            or pa.types.is_temporal(type)
            or pa.types.is_boolean(type)
        ):
            raise self.mismatch(attribute, type, f"cannot be compared with {show(value)}")
        try:
            return ranges(op, value, type)
        except Mismatch as why:
            raise self.mismatch(attribute, type, str(why)) from None

    def membership(self, node: t.In) -> Logic:
        """IN: equal to one of the literals, or between the ends of one of the intervals."""
        parts: list[Logic] = []
        equal: list[t.Predicate] = []
        found: list[Ranges] = []
        for item in node.items:
            match item:
                case t.Literal(None):
                    parts.append(UNKNOWN)
                case t.Literal():
                    equal.append(t.Comparison("=", node.operand, item, span=node.span))
                case t.Interval(low, high):
                    inside = self.interval(node.operand, low, high)
                    if inside is None:
                        parts.append(self.between(node, low, high))
                    else:
                        found.append(inside)
        if found:
            parts.append(self.number_test(cast(t.Attribute, node.operand).name, united(found)))
        if equal:
            parts.append(self.disjunction(equal))
        return AnyOf(tuple(parts))

    def interval(self, operand: t.Expression, low: t.Literal | None, high: t.Literal | None) -> Ranges | None:
        """The values between the ends, if the operand is a column of numbers or times."""
        if not isinstance(operand, t.Attribute):
            return None
        type = value_type(self.attribute(operand))
        if is_text(type) or pa.types.is_null(type):
            return None
        ends = [(op, end.value) for op, end in ((">=", low), ("<=", high)) if end is not None]
        tests = [self.ranges(operand, type, op, value) for op, value in ends]
        return tests[0] if len(tests) == 1 else common(tests[0], tests[1])

    def like(self, node: t.Like) -> Logic:
        word = "RLIKE" if node.regex else "LIKE"
        if not isinstance(node.operand, t.Attribute):
            positive = replace(node, negated=False)
            return ColumnTest(self.slot(("mask", positive), MaskColumn(positive, self.masks.like(positive))), 0)
        type = value_type(self.attribute(node.operand))
        if pa.types.is_null(type):
            return UNKNOWN
        if not is_text(type):
            raise self.mismatch(node.operand, type, f"is not text, as {word} needs")
        test = compile_pattern(node, self.source)
        column = TextTestColumn(node.operand.name, node, test)
        return ColumnTest(self.slot((word, node.operand.name, node.pattern), column), 0)

    def is_null(self, node: t.IsNull, operand: t.Expression) -> Logic:
        if isinstance(operand, t.Literal):
            return Constant(operand.value is None)
        if isinstance(operand, t.Attribute):
            if pa.types.is_null(self.attribute(operand)):
                return Constant(True)
            return ColumnTest(self.slot(("null", operand.name), NullColumn(operand.name)), 0)
        return ColumnTest(self.slot(("mask", node.operand), MaskColumn(node, self.masks.is_null(node))), 0)

    # --- attributes ---

    def attribute(self, node: t.Attribute) -> pa.DataType:
        """The column's type; the null type if the schema is open and no event has shown the column yet."""
        schema = self.input.schema
        index = schema.get_field_index(node.name)
        if index >= 0:
            return schema.field(index).type
        if self.input.open_schema:
            return pa.null()
        name = attribute_in(node.name)
        raise no_column(name, names_near(schema, name), self.source, node.span, is_value=True)

    def mismatch(self, attribute: t.Attribute, type: pa.DataType, why: str) -> SchemaError:
        return SchemaError(f"{show_column(attribute, type, self.source)} {why}", self.source, attribute.span)


def _compare_literals(op: str, a: Any, b: Any, node: t.Comparison, source: str) -> bool | None:
    if a is None or b is None:
        return None
    kinds = [bool if isinstance(v, bool) else str if isinstance(v, str) else int for v in (a, b)]
    if kinds[0] is not kinds[1]:
        hint = "A name stands without quotes, or in backticks." if str in kinds else None
        raise QueryError(f"cannot compare {show(a)} with {show(b)}", source, node.span, hint)
    less, equal = bool(a < b), bool(a == b)
    return {"=": equal, "!=": not equal, "<": less, "<=": less or equal, ">": not (less or equal), ">=": not less}[op]
