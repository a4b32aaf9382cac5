"""The oracle's functions of values, and times: Spark SQL's meaning, value by value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True, order=True)
class Length:
    """A duration."""

    nanoseconds: int


def length_of(value: timedelta) -> Length:
    return Length(value // timedelta(microseconds=1) * 1000)


def in_common(a: Any, b: Any, unit: str) -> tuple[Any, Any]:
    """A duration next to a number counts in the unit of plain-number times."""
    a = length_of(a) if isinstance(a, timedelta) else a
    b = length_of(b) if isinstance(b, timedelta) else b
    if isinstance(a, Length) and is_plain(b):
        return Fraction(a.nanoseconds, NANOSECONDS[unit]), exact(b)
    if isinstance(b, Length) and is_plain(a):
        return exact(a), Fraction(b.nanoseconds, NANOSECONDS[unit])
    return a, b


def is_plain(value: Any) -> bool:
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def exact(value: Any) -> Any:
    return value if isinstance(value, Fraction) else Fraction(value) if math.isfinite(value) else value


def add_times(op: str, a: Any, b: Any) -> Any:
    """Sums and differences in which times or durations take part."""
    sign = 1 if op == "+" else -1
    if isinstance(a, Length) and isinstance(b, Length):
        return Length(a.nanoseconds + sign * b.nanoseconds)
    if isinstance(b, Length):
        return a + sign * timedelta(microseconds=b.nanoseconds / 1000)
    if isinstance(a, Length) and op == "+":
        return b + timedelta(microseconds=a.nanoseconds / 1000)
    if op == "-" and isinstance(a, date):
        return length_of(a - b)
    raise ValueError(f"{a!r} {op} {b!r}")


def call(function: str, values: list[Any], unit: str) -> Any:
    """The value of a function."""
    if function in ("LEAST", "GREATEST", "COALESCE"):
        some = [value for value in values if value is not None]
        if not some or function == "COALESCE":
            return some[0] if some else None
        return (min if function == "LEAST" else max)(some, key=lambda v: (isinstance(v, float) and math.isnan(v), v))
    if any(value is None for value in values):
        return None
    first = values[0]
    match function:
        case "ABS":
            return Length(abs(first.nanoseconds)) if isinstance(first, Length) else abs(first)
        case "ROUND":
            return rounded(first, values[1] if len(values) > 1 else 0)
        case "FLOOR" | "CEIL":
            if isinstance(first, float) and not math.isfinite(first):
                return 0 if math.isnan(first) else 2**63 - 1 if first > 0 else -(2**63)
            return math.floor(first) if function == "FLOOR" else math.ceil(first)
        case "LOWER":
            return first.lower()
        case "UPPER":
            return first.upper()
        case "LENGTH":
            return len(first)
        case "SUBSTRING":
            return substring(*values)
        case "CONCAT":
            return "".join(map(str, values))
    moment = first if isinstance(first, date) else datetime(1970, 1, 1) + timedelta(
        microseconds=int(first * NANOSECONDS[unit] // 1000)
    )  # fmt: skip
    if function == "DAYOFWEEK":
        return moment.isoweekday() % 7 + 1
    return getattr(moment, function.lower(), 0)  # a date has no hour


def rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    found = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    if isinstance(value, int):
        return value if digits >= 0 else int(found)
    return float(found)


def substring(text: str, begin: int, size: int = 10**9) -> str:
    start = begin - 1 if begin > 0 else len(text) + begin if begin < 0 else 0
    return "".join(c for k, c in enumerate(text) if start <= k < start + size)
