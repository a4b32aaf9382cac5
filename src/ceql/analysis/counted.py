"""Conditions on COUNT as counts of the formula: `A ; B+ AS b FILTER COUNT(b) >= 3` is `A ; B{3,} AS b`.

In: a formula with filters. Out: the same matches, where each comparison of COUNT(x) with a number is gone if it can be
said by how often a part of the filtered formula comes, and other comparisons if single events can say them
(`extremes`), unless `->` would then lead to other events (`waited_for`). Then they are decided as the events come, and
no match is made that they would rule out. What is left is a condition on aggregates.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ceql.analysis.extremes import said_by_events
from ceql.analysis.scopes import binds, joined_by_next, parts, subformulas
from ceql.analysis.waited_for import begin_alike
from ceql.syntax import tree as t
from ceql.syntax.absence import may_be_missing

MOST = 256  # rounds, each of which has states of its own


class _Range(NamedTuple):
    least: int
    most: float  # math.inf for no end

    def without(self, fewest: int) -> _Range:
        return _Range(self.least - fewest, self.most - fewest)


class _Unsaid(Exception):
    """No count of a part says the same."""


def with_counts(formula: t.Formula) -> t.Formula:
    """The formula, with conditions on COUNT as counts where that is possible.

    >>> from ceql.syntax.parser import parse_formula
    >>> from ceql.syntax.printer import print_formula
    >>> print_formula(with_counts(parse_formula("A ; B+ AS b ; C FILTER COUNT(b) >= 3 AND SUM(b.v) > 1")))
    'A ; B{3,} AS b ; C FILTER SUM(b.v) > 1'
    """
    return _counted(formula, any(map(joined_by_next, subformulas(formula))))


def _counted(formula: t.Formula, has_next: bool) -> t.Formula:
    match formula:
        case t.Event() | t.Not():
            return formula
        case t.Then(items) | t.All(items) | t.Or(items):
            return replace(formula, items=tuple(_counted(item, has_next) for item in items))
        case t.Filter(inner, condition):
            return _filtered(_counted(inner, has_next), condition, formula, has_next)
        case _:
            return replace(formula, formula=_counted(formula.formula, has_next))


def _filtered(inner: t.Formula, condition: t.FilterCondition, whole: t.Filter, has_next: bool) -> t.Formula:
    left: list[t.Condition] = []
    for part in condition.items if isinstance(condition, t.Conj) else (condition,):
        wanted = _wanted(part)
        found: t.Formula | None = None
        if wanted is not None and wanted[0] in binds(inner):
            with suppress(_Unsaid):
                found = _restricted(inner, *wanted)
        else:
            found = said_by_events(inner, part)
        if found is None or (has_next and not begin_alike(inner, found)):
            left.append(part)
        else:
            inner = found
    if not left:
        return inner
    return replace(whole, formula=inner, condition=left[0] if len(left) == 1 else t.Conj(tuple(left)))


def _wanted(condition: t.Condition) -> tuple[str, _Range] | None:
    """The variable and the numbers of events that a condition asks for."""
    negated = isinstance(condition, t.Neg)
    if isinstance(condition, t.Neg):
        condition = condition.item
    match condition:
        case t.Comparison(op, t.Aggregate("COUNT", name, None), t.Literal(int(number))) if not isinstance(number, bool):
            pass
        case t.Comparison(op, t.Literal(int(number)), t.Aggregate("COUNT", name, None)) if not isinstance(number, bool):
            op = t.FLIPPED[op]
        case _:
            return None
    if negated:
        op = t.NEGATED[op]
    ranges = {
        "=": _Range(number, number),
        "<": _Range(0, number - 1),
        "<=": _Range(0, number),
        ">": _Range(number + 1, math.inf),
        ">=": _Range(number, math.inf),
    }
    if op == "!=":
        return (name, _Range(1, math.inf)) if number == 0 else None
    return name, ranges[op]


def _restricted(formula: t.Formula, name: str | None, wanted: _Range) -> t.Formula | None:
    """The valuations with such a number of events bound to `name` (or of events at all); None if there are none.

    `_Unsaid` if no formula says so.
    """
    known = _number(formula, name)
    if wanted.least <= known.least and known.most <= wanted.most:
        return formula
    if known.most < wanted.least or wanted.most < known.least:
        return None
    inner: t.Formula | None
    match formula:
        case t.As(inner, variable):
            inner = _restricted(inner, None if variable == name else name, wanted)
            return None if inner is None else replace(formula, formula=inner)
        case t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            inner = _restricted(inner, name, wanted)
            return None if inner is None else replace(formula, formula=inner)
        case t.Or(items):
            kept = [found for item in items if (found := _restricted(item, name, wanted)) is not None]
            if binds(formula) != frozenset[str]().union(*map(binds, kept)):
                raise _Unsaid  # filters on a name that is gone would mean another one
            return kept[0] if len(kept) == 1 else replace(formula, items=tuple(kept))
        case t.Then(items) | t.All(items):
            numbers = [_number(item, name) for item in items]
            varies = [k for k, number in enumerate(numbers) if number.least < number.most]
            counted = [k for k, number in enumerate(numbers) if number.most > 0]
            if len(varies) != 1 or (isinstance(formula, t.All) and len(counted) > 1):
                raise _Unsaid
            (k,) = varies
            others = sum(number.least for j, number in enumerate(numbers) if j != k)
            item = _restricted(items[k], name, wanted.without(others))
            return None if item is None else replace(formula, items=(*items[:k], item, *items[k + 1 :]))
        case t.Plus(body):
            return _repeated(formula, body, 1, None, name, wanted)
        case t.Count(body, least, most):
            return _repeated(formula, body, least, most, name, wanted)
    raise _Unsaid


def _repeated(
    formula: t.Plus | t.Count,
    body: t.Formula,
    least: int,
    most: int | None,
    name: str | None,
    wanted: _Range,
) -> t.Formula | None:
    each = _number(body, name)
    if each.least != each.most or each.least == 0 or may_be_missing(body):
        raise _Unsaid
    low = max(least, math.ceil(max(wanted.least, 0) / each.least))
    high = min(math.inf if most is None else most, wanted.most // each.least)
    if high < low:
        return None
    if high == 0 or max(low, 0 if high == math.inf else high) > MOST:
        raise _Unsaid
    if (low, high) == (1, math.inf):
        return t.Plus(body, formula.joint, formula.reluctant, span=formula.span)
    most = None if high == math.inf else int(high)
    return t.Count(body, low, most, formula.joint, formula.reluctant, span=formula.span)


def _number(formula: t.Formula, name: str | None) -> _Range:
    """The least and the most events that a variable (or, without one, a valuation) may have; bounds where not exact."""
    match formula:
        case t.Event(type):
            return _Range(1, 1) if name in (None, type) else _Range(0, 0)
        case t.Not():
            return _Range(0, 0)
        case t.As(inner, variable):
            return _number(inner, None if variable == name else name)
        case t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            return _number(inner, name)
        case t.Plus(inner):
            return _rounds(_number(inner, name), 1, math.inf)
        case t.Count(inner, least, most):
            return _rounds(_number(inner, name), least, math.inf if most is None else most)
    numbers = [_number(part, name) for part in parts(formula)]
    if isinstance(formula, t.Or):
        return _Range(min(n.least for n in numbers), max(n.most for n in numbers))
    least = sum(n.least for n in numbers) if isinstance(formula, t.Then) else max(n.least for n in numbers)
    return _Range(least, sum(n.most for n in numbers))


def _rounds(each: _Range, least: int, most: float) -> _Range:
    return _Range(each.least * least, each.most * most if each.most and most else 0)
