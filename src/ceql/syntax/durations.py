"""Durations: `1 MINUTE 30 SECONDS`, after WITHIN and among the values of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from lark import Token

from ceql.errors import Span, did_you_mean
from ceql.syntax.limits import MAX_COUNT, QueryProblem, read_number

NANOSECONDS = {
    "DAY": 86_400_000_000_000,
    "HOUR": 3_600_000_000_000,
    "MINUTE": 60_000_000_000,
    "SECOND": 1_000_000_000,
    "MILLISECOND": 1_000_000,
}
_UNITS = [*(f"{unit}S" for unit in NANOSECONDS), "EVENTS", *NANOSECONDS, "EVENT"]
_SHORT = {"MS": "MILLISECONDS", "S": "SECONDS", "SEC": "SECONDS", "SECS": "SECONDS", "M": "MINUTES", "MIN": "MINUTES"}
_SHORT |= {"MINS": "MINUTES", "H": "HOURS", "HR": "HOURS", "HRS": "HOURS", "D": "DAYS", "ROWS": "EVENTS"}
_IN_DAYS = {"W": 7, "WEEK": 7, "WEEKS": 7, "MONTH": 30, "MONTHS": 30, "YEAR": 365, "YEARS": 365}
_IN_MILLISECONDS = {"US": "0.001", "MICROSECONDS": "0.001", "MICROSECOND": "0.001"}
_IN_MILLISECONDS |= {"NS": "0.000001", "NANOSECONDS": "0.000001", "NANOSECOND": "0.000001"}


def nanoseconds_of(tokens: Sequence[Token], no_events: str) -> int:
    """The sum of the parts of a duration; the message `no_events` if one of them counts events."""
    total = Fraction(0)
    for number, word in zip(tokens[::2], tokens[1::2], strict=True):
        unit = unit_of(number, word)
        if unit == "EVENT":
            raise QueryProblem(no_events, _place(word))
        total += Fraction(read_number(number, _place(number))) * NANOSECONDS[unit]
    span = Span(_place(tokens[0]).start, _place(tokens[-1]).end)
    if total.denominator != 1:
        raise QueryProblem("A duration is a whole number of nanoseconds", span)
    if total > MAX_COUNT:
        raise QueryProblem("A duration is less than 292 years", span)
    return int(total)


def print_duration(nanoseconds: int) -> str:
    """A duration in the largest unit that it is a whole number of.

    >>> print_duration(90_000_000_000), print_duration(-1_500_000)
    ('90 SECONDS', '-1.5 MILLISECONDS')
    """
    if nanoseconds < 0:
        return f"-{print_duration(-nanoseconds)}"
    if nanoseconds == 0:
        return "0 SECONDS"
    for unit, size in NANOSECONDS.items():
        if nanoseconds % size == 0:
            count = nanoseconds // size
            return f"{count} {unit}{'S' * (count != 1)}"
    whole, rest = divmod(nanoseconds, NANOSECONDS["MILLISECOND"])
    return f"{whole}.{rest:06d}".rstrip("0") + " MILLISECONDS"


def unit_of(number: Token, word: Token) -> str:
    """The unit without its plural, EVENT included; an unknown one is a `QueryProblem` that suggests another."""
    unit = word.upper()
    if unit not in _UNITS:
        raise QueryProblem(
            f"Found '{word}', expected EVENTS or a unit of time (DAYS, HOURS, MINUTES, SECONDS, MILLISECONDS)",
            _place(word),
            _other_unit(read_number(number, _place(number)), unit),
        )
    return unit.removesuffix("S")


def _other_unit(number: int | Decimal, unit: str) -> str | None:
    """The same duration in a unit that there is."""
    if unit in _IN_DAYS:
        days = number * _IN_DAYS[unit]
        return f"Write {days:f} DAYS." if isinstance(days, Decimal) else f"Write {days} DAYS."
    if unit in _IN_MILLISECONDS:
        return f"Write {number * Decimal(_IN_MILLISECONDS[unit]):f} MILLISECONDS."
    return f"Did you mean '{_SHORT[unit]}'?" if unit in _SHORT else did_you_mean(unit, _UNITS)


def _place(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)
