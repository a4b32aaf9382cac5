"""Conditions on FIRST, LAST, MIN and MAX as conditions on single events: which event of an iteration must be there.

In: a formula, and a comparison of such an aggregate with a number or text. Out: a formula with the same matches and
without the comparison, if x is bound by one iteration of single events. `B+ AS b FILTER LAST(b.v) > 5` asks for an
event with `v > 5` that only events without v follow. Aggregates skip NULL, and NaN is the greatest number, so that
`MAX(b.v) > 5` and `MIN(b.v) > 5` cannot be said so: what is NaN would have to be told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ceql.analysis.conditions import of_one_event
from ceql.analysis.scopes import binds
from ceql.syntax import tree as t


class _Asked(NamedTuple):
    """First come events that satisfy `before`, then one that satisfies `one`, then events that satisfy `after`.

    Without a predicate any event may come. `once`: it can be said of a single event alone.
    """

    name: str
    before: t.Predicate | None
    one: t.Predicate
    after: t.Predicate | None
    once: bool = False


def said_by_events(formula: t.Formula, condition: t.Condition) -> t.Formula | None:
    """The formula with what the condition asks of its events; None if no formula says so.

    >>> from ceql.syntax.parser import parse_formula
    >>> from ceql.syntax.printer import print_formula
    >>> filtered = parse_formula("A ; B+ AS b FILTER FIRST(b.v) > 5")
    >>> print_formula(said_by_events(filtered.formula, filtered.condition))
    'A ; ((B FILTER B[v IS NULL])* ; (B FILTER B[v > 5]) ; B*) AS b'
    """
    asked = _asked(condition)
    return None if asked is None or asked.name not in binds(formula) else _placed(formula, asked.name, asked)


def _asked(condition: t.Condition) -> _Asked | None:
    negated = isinstance(condition, t.Neg)
    if isinstance(condition, t.Neg):
        condition = condition.item
    match condition:
        case t.Comparison(op, t.Aggregate(function, name, operand, number=None), t.Literal(value) as limit):
            pass
        case t.Comparison(op, t.Literal(value) as limit, t.Aggregate(function, name, operand, number=None)):
            op = t.FLIPPED[op]
        case _:
            return None
    if operand is None or value is None:
        return None
    bare = of_one_event(operand)
    one = t.Comparison(t.NEGATED[op] if negated else op, bare, limit, span=condition.span)
    null = t.IsNull(bare, span=condition.span)
    match function, one.op:
        case "FIRST", _:
            return _Asked(name, null, one, None)
        case "LAST", _:
            return _Asked(name, None, one, null)
        case "MAX", "<" | "<=":
            return _Asked(name, null, one, t.Disj((one, null)))
        case "MIN", "<" | "<=":
            return _Asked(name, None, one, None)
        case "MIN" | "MAX", _:
            return _Asked(name, None, one, None, once=True)
    return None


def _placed(formula: t.Formula, name: str | None, asked: _Asked) -> t.Formula | None:
    """`name` is None below the AS that binds the variable to all events."""
    inner: t.Formula | None
    match formula:
        case t.Event(type) if name in (None, type):
            return _satisfying(formula, asked.one)
        case t.As(inner, variable):
            inner = _placed(inner, None if variable == name else name, asked)
            return None if inner is None else replace(formula, formula=inner)
        case t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            inner = _placed(inner, name, asked)
            return None if inner is None else replace(formula, formula=inner)
        case t.Then(items) | t.All(items) if name is not None:
            mine = [k for k, item in enumerate(items) if name in binds(item)]
            if len(mine) != 1:
                return None
            (k,) = mine
            inner = _placed(items[k], name, asked)
            return None if inner is None else replace(formula, items=(*items[:k], inner, *items[k + 1 :]))
        case t.Plus(body, joint):
            return _in_iteration(body, joint, name, asked)
        case t.Count(body, 0, None, joint):
            return _in_iteration(body, joint, name, asked)
    return None


def _in_iteration(body: t.Formula, joint: t.Joint, name: str | None, asked: _Asked) -> t.Formula | None:
    event = _event(body)
    if asked.once or event is None or not (name is None or name in binds(body)):
        return None

    def rounds(predicate: t.Predicate | None) -> t.Count:
        return t.Count(body if predicate is None else _with(body, predicate), 0, None, joint)

    return t.Then((rounds(asked.before), _with(body, asked.one), rounds(asked.after)), (joint, joint))


def _event(formula: t.Formula) -> t.Event | None:
    """The only event of a formula that has no more."""
    match formula:
        case t.Event():
            return formula
        case t.As(inner) | t.Filter(inner) | t.Within(inner):
            return _event(inner)
        case _:
            return None


def _with(formula: t.Formula, predicate: t.Predicate) -> t.Formula:
    """A formula of one event, which satisfies a predicate."""
    match formula:
        case t.As(inner) | t.Filter(inner) | t.Within(inner):
            return replace(formula, formula=_with(inner, predicate))
        case t.Event():
            return _satisfying(formula, predicate)
        case _:
            raise AssertionError(formula)


def _satisfying(event: t.Event, predicate: t.Predicate) -> t.Filter:
    return t.Filter(event, t.Bracket(event.type, predicate, span=predicate.span), span=event.span)
