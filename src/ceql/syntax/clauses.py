"""Builds the clauses of a query, and the `Query` itself, while the parser reads.

In: what the rules of ceql.lark matched, as in `build`. Out: for each clause, the fields of `Query` that it sets, with
sizes, units and choices checked.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from lark import Token

from ceql.errors import Span, did_you_mean
from ceql.syntax import tree
from ceql.syntax.build import Children, FormulaBuilder, is_token, span_of, without_punctuation
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


class Builder(FormulaBuilder):
    """The builder of whole queries. The method of a clause gives the fields of `Query` that the clause sets."""

    def query(self, children: Children) -> tree.Query:
        fields: dict[str, Any] = {}
        for clause in children:
            fields |= clause
        return tree.Query(**fields, span=Span(0, 0))

    def select(self, children: Children) -> dict[str, Any]:
        strategies = [tree.Strategy(c.upper()) for c in children if is_token(c, "ALL", "STRATEGY")]
        match children[-1]:
            case Token(type="STAR"):
                items = None
            case Token():
                items = ()
            case chosen:
                items = tuple(chosen)
        distinct = is_token(children[1], "DISTINCT")
        return {"distinct": distinct, "strategy": strategies[0] if strategies else None, "items": items}

    def items(self, children: Children) -> Children:
        return without_punctuation(children)

    def item(self, children: Children) -> tree.SelectItem:
        name, *attributes = map(str, without_punctuation(children))
        return tree.SelectItem(name, tuple(attributes), span=span_of(children))

    def from_(self, children: Children) -> dict[str, Any]:
        return {"streams": tuple(map(str, without_punctuation(children)))}

    def where(self, children: Children) -> dict[str, Any]:
        return {"formula": children[1]}

    def partition(self, children: Children) -> dict[str, Any]:
        return {"partition": tuple(without_punctuation(children))}

    def within(self, children: Children) -> dict[str, Any]:
        return {"window": children[1]}

    def consume(self, children: Children) -> dict[str, Any]:
        word: Token = children[2]
        if word.upper() not in tree.Consume.__members__:
            raise QueryProblem(
                f"Found '{word}', expected NONE, PARTITION or ANY",
                span_of([word]),
                did_you_mean(word.upper(), list(tree.Consume.__members__)),
            )
        return {"consume": tree.Consume(word.upper())}

    def limit(self, children: Children) -> dict[str, Any]:
        return {"limit": whole_number(children[1], 1, "LIMIT")}

    def attribute_window(self, children: Children) -> tree.AttributeWindow:
        size = whole_number(children[0], 0, "The size of a window over an attribute")
        return tree.AttributeWindow(size, str(children[2]), span=span_of(children))

    def measured_window(self, children: Children) -> tree.EventsWindow | tree.TimeWindow:
        span = span_of(children)
        if len(children) == 2 and _unit(*children) == "EVENT":
            return tree.EventsWindow(whole_number(children[0], 0, "The size of a window in events"), span=span)
        total = Fraction(0)
        for number, word in zip(children[::2], children[1::2], strict=True):
            unit = _unit(number, word)
            if unit == "EVENT":
                raise QueryProblem("A window is counted in events or in time, not in both", span_of([word]))
            total += Fraction(read_number(number, span_of([number]))) * NANOSECONDS[unit]
        if total.denominator != 1:
            raise QueryProblem("A duration is a whole number of nanoseconds", span)
        if not 0 < total <= MAX_COUNT:
            raise QueryProblem("A duration is more than zero and less than 292 years", span)
        return tree.TimeWindow(int(total), span=span)


def _unit(number: Token, word: Token) -> str:
    unit = word.upper()
    if unit not in _UNITS:
        raise QueryProblem(
            f"Found '{word}', expected EVENTS or a unit of time (DAYS, HOURS, MINUTES, SECONDS, MILLISECONDS)",
            span_of([word]),
            _other_unit(read_number(number, span_of([number])), unit),
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


def whole_number(token: Token, least: int, what: str) -> int:
    value = read_number(token, span_of([token]))
    if not isinstance(value, int) or not least <= value <= MAX_COUNT:
        raise QueryProblem(f"{what} is a whole number from {least} to 2^63 - 1, not {token}", span_of([token]))
    return value
