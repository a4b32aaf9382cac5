"""Comparisons with a literal as ranges of a column's ordered domain.

A numeric, boolean or temporal column is read as int64, a column of floats as float64. A test on it is a set of
half-open ranges [low, high) of that domain; the ends of all ranges of all tests cut the domain into classes.
Comparisons are exact: 2^53 + 1 is not 2^53, 1.5 lies between the integers 1 and 2, and a decimal literal is compared
with a decimal column digit by digit. Only for a column of floats the literal is rounded first, so that `price = 1.1` is
true of the float 1.1.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from ceql.io.sort_keys import PER_SECOND

End = int | float | None  # None: the range has no end on this side
Range = tuple[End, End]
Ranges = list[Range]
LEAST, GREATEST = -(2**63), 2**63 - 1


class Mismatch(Exception):
    """The literal is of another kind than the column; the message completes "column 'a' (type) ..."."""


def ranges(op: str, literal: object, type: pa.DataType) -> Ranges:
    """Where `value op literal` is true of a non-NULL (and not NaN) value.

    >>> ranges("<=", Decimal("1.5"), pa.int32())
    [(None, 2)]
    """
    if pa.types.is_floating(type):
        at_least, above = _float_ends(literal)
    else:
        exact = to_domain(literal, type)
        at_least, above = math.ceil(exact), math.floor(exact) + 1
        if not pa.types.is_decimal(type):
            at_least, above = _clamped(at_least), _clamped(above)
    match op:
        case "<":
            return [(None, at_least)]
        case "<=":
            return [(None, above)]
        case ">":
            return [(above, None)]
        case ">=":
            return [(at_least, None)]
        case "=":
            return [(at_least, above)] if at_least != above else []
        case "!=":
            return [(None, at_least), (above, None)]
    raise AssertionError(op)


def contains(parts: Ranges, value: int | float) -> bool:
    """Whether a value of the domain lies in one of the ranges, which are in order."""
    below = bisect_right(parts, (0, value), key=_low)
    return below > 0 and (0, value) < _high(parts[below - 1])


def united(tests: Iterable[Ranges]) -> Ranges:
    """The values in one of the tests' ranges or more, as ranges in order that do not touch.

    >>> united([[(5, 6)], [(1, 3)], [(None, 2)], [(6, 7)]])
    [(None, 3), (5, 7)]
    """
    result: Ranges = []
    for part in sorted((part for parts in tests for part in parts), key=_low):
        if result and _low(part) <= _high(result[-1]):
            result[-1] = (result[-1][0], max(result[-1], part, key=_high)[1])
        else:
            result.append(part)
    return result


def common(one: Ranges, other: Ranges) -> Ranges:
    """The values in ranges of both tests.

    >>> common([(1, None)], [(None, 2), (3, 4)])
    [(1, 2), (3, 4)]
    """
    found = ((max(a, b, key=_low)[0], min(a, b, key=_high)[1]) for a in one for b in other)
    return [part for part in found if _low(part) < _high(part)]


def _low(part: Range) -> tuple[int, int | float]:
    """The lower end, to be compared: no end is below all values, infinite ones included."""
    return (-1, 0) if part[0] is None else (0, part[0])


def _high(part: Range) -> tuple[int, int | float]:
    return (1, 0) if part[1] is None else (0, part[1])


def cuts(tests: list[Ranges], type: pa.DataType) -> list[int | float]:
    """The values of the domain at which the result of a test changes, ascending."""
    ends = {end for parts in tests for part in parts for end in part if end is not None}
    if not pa.types.is_floating(type) and not pa.types.is_decimal(type):
        ends = {end for end in ends if LEAST < end <= GREATEST}
    return sorted(ends)


def to_domain(literal: object, type: pa.DataType) -> Fraction:
    """A literal in the int64 domain into which `io.sort_keys.encode` maps columns of this type."""
    if pa.types.is_boolean(type):
        if not isinstance(literal, bool):
            raise Mismatch(f"holds TRUE and FALSE and cannot be compared with {show(literal)}")
        return Fraction(int(literal))
    if pa.types.is_temporal(type):
        return _temporal(literal, type)
    if isinstance(literal, bool) or not isinstance(literal, int | Decimal):
        raise Mismatch(f"holds numbers and cannot be compared with {show(literal)}")
    if pa.types.is_decimal(type):
        power: int = 10**type.scale
        return Fraction(literal) * power
    if type == pa.uint64():
        return Fraction(literal) - 2**63
    return Fraction(literal)


def show(literal: object) -> str:
    """A literal as an error message names it."""
    if isinstance(literal, bool):
        return "TRUE" if literal else "FALSE"
    return f"the text '{literal}'" if isinstance(literal, str) else f"the number {literal}"


def _clamped(number: int) -> int:
    return min(max(number, LEAST), GREATEST + 1)


def _float_ends(literal: object) -> tuple[float, float]:
    """The least float at or above the literal, and the least float above it."""
    if isinstance(literal, bool) or not isinstance(literal, int | Decimal):
        raise Mismatch(f"holds numbers and cannot be compared with {show(literal)}")
    try:
        near = float(literal)
    except OverflowError:
        near = math.inf if literal > 0 else -math.inf
    if isinstance(literal, Decimal):
        return near, float(np.nextafter(near, np.inf))
    exact = Fraction(literal)
    if math.isinf(near):
        return (math.inf, math.inf) if near > 0 else (-float(np.finfo(np.float64).max),) * 2
    at_least = near if Fraction(near) >= exact else float(np.nextafter(near, np.inf))
    above = near if Fraction(near) > exact else float(np.nextafter(near, np.inf))
    return at_least, above


def _temporal(literal: object, type: pa.DataType) -> Fraction:
    if pa.types.is_interval(type):
        raise Mismatch("holds calendar intervals, which cannot be compared")
    if not isinstance(literal, str) and pa.types.is_duration(type):
        raise Mismatch(f"holds durations and cannot be compared with {show(literal)}: write {literal} SECONDS")
    if not isinstance(literal, str):
        raise Mismatch(f"holds times and cannot be compared with {show(literal)}")
    try:
        if pa.types.is_time(type):
            clock = time.fromisoformat(literal)
            seconds = Fraction(clock.hour * 3600 + clock.minute * 60 + clock.second)
            return (seconds + Fraction(clock.microsecond, 10**6)) * PER_SECOND[type.unit]
        if pa.types.is_duration(type):
            raise Mismatch("holds durations: write one without quotes, such as 5 MINUTES")
        moment = datetime.fromisoformat(literal)
    except ValueError:
        raise Mismatch(
            f"holds times, and '{literal}' is not one (write '2026-01-31T12:00:00' or '2026-01-31')"
        ) from None
    zone = getattr(type, "tz", None)
    if zone is None and moment.tzinfo is not None:
        raise Mismatch(f"has no time zone and cannot be compared with '{literal}', which has one")
    if zone is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=_zone(zone))
    epoch = datetime(1970, 1, 1, tzinfo=UTC if moment.tzinfo else None)
    seconds = Fraction((moment - epoch) // timedelta(microseconds=1), 10**6)
    if pa.types.is_date32(type):
        return seconds / 86_400
    return seconds * PER_SECOND["ms" if pa.types.is_date64(type) else type.unit]


def _zone(name: str) -> ZoneInfo | timezone:
    try:
        if name[0] in "+-":
            sign = 1 if name[0] == "+" else -1
            return timezone(sign * timedelta(hours=int(name[1:3]), minutes=int(name[4:6])))
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Mismatch(f"has the time zone '{name}', which is not known here; write the text with a zone") from None
