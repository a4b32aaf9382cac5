"""The oracle's predicates: docs/reference.md, section 3 on single events, in SQL's three-valued logic.

None is both NULL, as a value, and unknown, as a truth. Nothing is shared with the engine.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from ceql.syntax import tree
from oracle_functions import Length, add_times, call, in_common

Truth = bool | None
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

EXACT = Context(prec=500)  # more digits than sums and products of columns have


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in a common type: a decimal next to a float becomes a float, text next to a date becomes a date."""
    if is_number(a) and is_number(b):
        if isinstance(a, float) or isinstance(b, float):
            return (float(a) if isinstance(a, Decimal) else a), (float(b) if isinstance(b, Decimal) else b)
        return a, b
    if isinstance(a, str) and isinstance(b, date):
        parsed: date = type(b).fromisoformat(a)
        if isinstance(parsed, datetime) and isinstance(b, datetime) and b.tzinfo and not parsed.tzinfo:
            parsed = parsed.replace(tzinfo=UTC)
        return parsed, b
    if isinstance(a, date) and isinstance(b, str):
        return alike(b, a)[::-1]
    if type(a) is not type(b):
        raise ValueError(f"{a!r} and {b!r} do not compare")
    return a, b


def compare(op: str, a: Any, b: Any, unit: str = "ms") -> Truth:
    if a is None or b is None or is_nan(a) or is_nan(b):
        return None
    return COMPARE[op](*alike(*in_common(a, b, unit)))


def all_of(truths: Iterable[Truth]) -> Truth:
    values = list(truths)
    return False if False in values else None if None in values else True


def negation(truth: Truth) -> Truth:
    return None if truth is None else not truth


def calculate(op: str, a: Any, b: Any, unit: str = "ms") -> Any:
    if a is None or b is None:
        return None
    a, b = in_common(a, b, unit)
    if isinstance(a, date | Length) or isinstance(b, date | Length):
        return add_times(op, a, b)
    with localcontext(EXACT):
        return operation(op, *alike(a, b))


def operation(op: str, a: Any, b: Any) -> Any:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return float(a) / float(b) if b != 0 else None
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return math.nan if math.isinf(a) else math.fmod(a, b)
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return a % b  # Decimal's % already has the sign of the dividend


@dataclass(frozen=True)
class Moment:
    """Where a predicate is evaluated: an event for each variable, and the one before the owner's."""

    events: Mapping[str, Mapping[str, Any]]
    owner: str | None
    previous: Mapping[str, Any]
    unit: str = "ms"  # of times that are plain numbers
    measure: Callable[[tree.Aggregate | tree.Lapse], Any] | None = None  # of the whole valuation

    def value(self, e: tree.Expression) -> Any:
        match e:
            case tree.Literal():
                return e.value
            case tree.Attribute():
                return self.events[self.owner or ""].get(e.name)
            case tree.Ref():
                return self.events[e.variable].get(e.attribute)
            case tree.Prev():
                return self.previous.get(e.attribute)
            case tree.Arithmetic():
                return calculate(e.op, self.value(e.left), self.value(e.right), self.unit)
            case tree.Duration():
                return Length(e.nanoseconds)
            case tree.Aggregate() | tree.Lapse():
                assert self.measure is not None
                return self.measure(e)
            case tree.Call():
                return call(e.function, [self.value(argument) for argument in e.arguments], self.unit)
            case tree.Minus():
                operand = self.value(e.operand)
                if isinstance(operand, Length):
                    return Length(-operand.nanoseconds)
                return None if operand is None else operand.copy_negate() if isinstance(operand, Decimal) else -operand

    def truth(self, p: tree.Condition) -> Truth:
        match p:
            case tree.Conj():
                return all_of(self.truth(item) for item in p.items)
            case tree.Disj():
                return negation(all_of(negation(self.truth(item)) for item in p.items))
            case tree.Neg():
                return negation(self.truth(p.item))
            case tree.Comparison():
                return compare(p.op, self.value(p.left), self.value(p.right), self.unit)
            case tree.IsNull():
                return (self.value(p.operand) is None) != p.negated
            case tree.Bracket():
                raise ValueError("x[...] inside a predicate")
        value = self.value(p.operand)
        match p:
            case tree.Like():
                result = None if value is None else text_matches(p, value)
            case tree.Between():
                low, high = self.value(p.low), self.value(p.high)
                result = all_of([compare(">=", value, low, self.unit), compare("<=", value, high, self.unit)])
            case tree.In():
                result = negation(all_of(negation(self.is_in(value, item)) for item in p.items))
        return negation(result) if p.negated else result

    def is_in(self, value: Any, item: tree.Literal | tree.Interval) -> Truth:
        if isinstance(item, tree.Literal):
            return compare("=", value, item.value)
        low, high = item.low, item.high
        return all_of(
            ([] if low is None else [compare(">=", value, low.value)])
            + ([] if high is None else [compare("<=", value, high.value)])
        )


def text_matches(like: tree.Like, text: str) -> bool:
    if like.regex:
        return re.search(like.pattern, text) is not None
    pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in like.pattern)
    return re.fullmatch(pattern, text, re.DOTALL) is not None
