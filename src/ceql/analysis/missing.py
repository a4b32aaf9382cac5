"""Filters with aggregates on a part that may be missing: `(B* AS b FILTER COUNT(b) >= 2)`.

The empty valuation binds nothing, so of it COUNT is 0 and the other aggregates are NULL. Where the condition is not
true of that, the part cannot be missing. In: the filtered formula and its condition. Out: the formula, without its
empty valuation if the condition rules it out. Conditions without aggregates ask nothing of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ceql.analysis.conditions import aggregates, is_measured, read_singly, variables_of
from ceql.analysis.scopes import binds, forbids
from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.absence import may_be_missing

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CALCULATE: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def without_empty(formula: t.Formula, condition: t.FilterCondition, source: str) -> t.Formula:
    """The formula, without its empty valuation if that does not satisfy the condition.

    >>> from ceql.syntax.parser import parse_formula
    >>> from ceql.syntax.printer import print_formula
    >>> filtered = parse_formula("(A* ; B?) FILTER COUNT(B) < 1 AND COUNT(A) > 1")
    >>> print_formula(without_empty(filtered.formula, filtered.condition, ""))
    'A+ ; B? OR B{1}'
    """
    if not is_measured(condition) or not may_be_missing(formula):
        return formula
    if _holds(condition, binds(formula), forbids(formula), source):
        return formula
    found = _not_empty(formula)
    if found is None:
        raise QueryError("what is filtered here has no events, so that this never holds", source, condition.span)
    return found


def _not_empty(formula: t.Formula) -> t.Formula | None:
    """The valuations that are not empty; None where there are none."""
    if not may_be_missing(formula):
        return formula
    match formula:
        case t.Count(inner, least, most, joint, reluctant):
            some = _not_empty(inner)
            if most == 0 or some is None:
                return None
            least = max(1, 0 if may_be_missing(inner) else least)
            if (least, most) == (1, None):
                return t.Plus(some, joint, reluctant, span=formula.span)
            return replace(formula, formula=some, least=least)
        case t.As(inner) | t.Plus(inner) | t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            some = _not_empty(inner)
            return None if some is None else replace(formula, formula=some)
        case t.Or(items):
            return _either([_not_empty(item) for item in items])
        case t.Then(items, joints):
            # the first item that is there, and what follows it
            return _either([_from(items, joints, k, formula) for k in range(len(items))])
        case t.All(items):
            return _either([_without(items, k, formula) for k in range(len(items))])
    return formula


def _either(items: list[t.Formula | None]) -> t.Formula | None:
    some = [item for item in items if item is not None]
    flat = [part for item in some for part in (item.items if isinstance(item, t.Or) else (item,))]
    return None if not flat else flat[0] if len(flat) == 1 else t.Or(tuple(flat))


def _from(items: tuple[t.Formula, ...], joints: tuple[t.Joint, ...], k: int, whole: t.Then) -> t.Formula | None:
    first = _not_empty(items[k])
    if first is None or k == len(items) - 1:
        return first
    return replace(whole, items=(first, *items[k + 1 :]), joints=joints[k:])


def _without(items: tuple[t.Formula, ...], k: int, whole: t.All) -> t.Formula | None:
    first = _not_empty(items[k])
    if first is None or k == len(items) - 1:
        return first
    return replace(whole, items=(first, *items[k + 1 :]))


def _holds(condition: t.Condition, own: frozenset[str], absent: frozenset[str], source: str) -> bool:
    """Whether the empty valuation satisfies a condition."""
    match condition:
        case t.Conj(items):
            return all(_holds(item, own, absent, source) for item in items)
        case t.Disj(items):
            return any(_holds(item, own, absent, source) for item in items)
    singly = {leaf.variable for leaf in read_singly(condition) if isinstance(leaf, t.Ref)}
    if not is_measured(condition) or singly & (own | absent):
        return True
    others = sorted(variables_of(condition) - own)
    if others:
        raise QueryError(
            f"this asks for an aggregate of a part that may be missing, and compares it with '{others[0]}' outside",
            source,
            next((a.span for a in aggregates(condition)), condition.span),
            "Filter the formula that has both.",
        )
    return _truth(condition, source) is True


def _truth(condition: t.Condition, source: str) -> bool | None:
    """What a condition is of no events; None is unknown."""

    def compared(op: str, a: Any, b: Any) -> bool | None:
        numbers = all(isinstance(side, int | float) or hasattr(side, "as_tuple") for side in (a, b))
        return None if a is None or b is None or not (numbers or type(a) is type(b)) else _COMPARE[op](a, b)

    def both(one: bool | None, two: bool | None) -> bool | None:
        return False if one is False or two is False else None if one is None or two is None else True

    def value(node: t.Expression) -> Any:
        return _value(node, source)

    found: bool | None
    match condition:
        case t.Comparison(op, left, right):
            return compared(op, value(left), value(right))
        case t.IsNull(operand, negated):
            return (value(operand) is None) is not negated
        case t.Between(operand, low, high):
            it = value(operand)
            found = both(compared(">=", it, value(low)), compared("<=", it, value(high)))
        case t.In(operand, items):
            it = value(operand)
            found = False
            for item in items:
                if isinstance(item, t.Literal):
                    inside = compared("=", it, item.value)
                else:
                    above = item.low is None or compared(">=", it, item.low.value)
                    inside = both(above, item.high is None or compared("<=", it, item.high.value))
                found = True if found or inside else None if found is None or inside is None else False
        case t.Like(operand):
            if value(operand) is not None:
                raise _unclear(condition, source)
            return None
        case _:
            raise AssertionError(condition)
    return None if found is None else found is not condition.negated


def _value(node: t.Expression, source: str) -> Any:
    match node:
        case t.Literal(value):
            return value
        case t.Duration(nanoseconds):
            return nanoseconds
        case t.Aggregate(function):
            return 0 if function == "COUNT" else None
        case t.Lapse():
            return None
        case t.Minus(operand):
            inner = _value(operand, source)
            return None if inner is None else -inner
        case t.Arithmetic(op, left, right):
            one, two = _value(left, source), _value(right, source)
            if one is None or two is None:
                return None
            if op in _CALCULATE:
                return _CALCULATE[op](one, two)
            if op == "/":
                return float(one) / float(two) if two else None
        case t.Call(function, arguments):
            values = [_value(argument, source) for argument in arguments]
            some = [value for value in values if value is not None]
            if function == "COALESCE":
                return some[0] if some else None
            if function in ("LEAST", "GREATEST"):
                return (min if function == "LEAST" else max)(some, default=None)
            if len(some) < len(values):
                return None
    raise _unclear(node, source)


def _unclear(node: t.Expression | t.Condition, source: str) -> QueryError:
    return QueryError("this is asked of a part that may be missing", source, node.span, "Filter what is there.")
