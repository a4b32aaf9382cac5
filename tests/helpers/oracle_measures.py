"""The oracle's measures: the value of an expression over one match, by brute force."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ceql.syntax import tree
from oracle_functions import call
from oracle_predicates import Moment, calculate, is_nan

Events = Sequence[Mapping[str, Any]]


def measure(
    e: tree.Expression, events: Events, bound: Mapping[str, Sequence[int]], start: int, end: int, unit: str = "ms"
) -> Any:
    """The value of a measure of the match that binds these positions."""

    def value(e: tree.Expression) -> Any:
        match e:
            case tree.Lapse():
                return lapse(e, events[start]["time"], events[end]["time"])
            case tree.Ref():
                return events[bound[e.variable][0]].get(e.attribute) if bound[e.variable] else None
            case tree.Aggregate():
                return aggregate(e, [events[i] for i in bound[e.variable]], unit)
            case tree.Arithmetic():
                return calculate(e.op, value(e.left), value(e.right), unit)
            case tree.Minus():
                return None if value(e.operand) is None else -value(e.operand)
            case tree.Call():
                return call(e.function, [value(argument) for argument in e.arguments], unit)
            case tree.Literal():
                return e.value
        raise ValueError(f"no measure: {e}")

    return value(e)


def lapse(e: tree.Lapse, start: Any, end: Any) -> Any:
    return start if e.name == "START_TIME" else end if e.name == "END_TIME" else end - start


def aggregate(e: tree.Aggregate, events: Events, unit: str) -> Any:
    if e.operand is None:
        return len(events)
    values = [Moment({e.variable: event}, None, {}, unit).value(e.operand) for event in events]
    some = [float(value) if isinstance(value, Decimal) else value for value in values if value is not None]
    if e.function == "COUNT":
        return len({"NaN" if is_nan(value) else value for value in some} if e.distinct else some)
    if not some:
        return None
    match e.function:
        case "SUM":
            return sum(some)
        case "AVG":
            return sum(some) / len(some)
        case "FIRST" | "LAST":
            in_order = some if e.function == "FIRST" else some[::-1]
            return in_order[int(e.number or 0)] if int(e.number or 0) < len(in_order) else None
        case "VARIANCE" | "STDDEV":
            if len(some) < 2:
                return None
            mean = sum(some) / len(some)
            variance = sum((value - mean) ** 2 for value in some) / (len(some) - 1)
            return variance if e.function == "VARIANCE" else math.sqrt(variance)
        case "MEDIAN" | "PERCENTILE":
            return percentile(some, Fraction(1, 2) if e.number is None else Fraction(e.number))
    return (min if e.function == "MIN" else max)(some, key=lambda v: (is_nan(v), v))


def percentile(some: Sequence[Any], share: Fraction) -> Any:
    """The value below which this share of the values lies, between two of them by linear interpolation."""
    values = sorted(some, key=lambda v: (is_nan(v), v))
    place = (len(values) - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    part = float(place - math.floor(place))
    return float(low) if low == high or not part else (1 - part) * low + part * high


def same(a: Any, b: Any) -> bool:
    """Whether two values of a measure are the same; sums of floats may be added up in another order."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and is_nan(b)
    if isinstance(a, float) and isinstance(b, int | float):
        return a == b or math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)
