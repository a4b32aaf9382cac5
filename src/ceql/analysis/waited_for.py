"""Tells whether a formula and what it was rewritten to begin alike, as far as `->` asks.

In: two formulas with the same matches. `->` passes over no event at which what follows could begin, whether that leads
to a match or not. So `A -> (X* ; B)` with `COUNT(X) >= 1` is not `A -> (X+ ; B)`, which passes over a B.
"""

from __future__ import annotations

from collections.abc import Iterator

from ceql.analysis.scopes import joined_by_next, subformulas
from ceql.syntax import tree as t
from ceql.syntax.absence import may_be_missing

_Asked = tuple[t.FilterCondition | t.Part | t.Window, ...]
_Beginning = tuple[t.Event, _Asked]


def begin_alike(one: t.Formula, other: t.Formula) -> bool:
    """Whether the same events can begin two formulas, and what each `->` in them leads to."""
    return _beginnings(one) == _beginnings(other) and set(_after_next(one)) == set(_after_next(other))


def _after_next(formula: t.Formula) -> Iterator[tuple[frozenset[_Beginning], bool]]:
    for part in filter(joined_by_next, subformulas(formula)):
        match part:
            case t.Then(items, joints):
                for joint, item in zip(joints, items[1:], strict=True):
                    if joint is t.Joint.NEXT:
                        yield _beginnings(item)
            case t.Plus(body) | t.Count(body):
                yield _beginnings(body)[0], False


def _beginnings(formula: t.Formula) -> tuple[frozenset[_Beginning], bool]:
    """The events at which a formula can begin, with what is asked of them, and whether it may be missing."""
    return frozenset(_first(formula, ())), may_be_missing(formula)


def _first(formula: t.Formula, asked: _Asked) -> Iterator[_Beginning]:
    match formula:
        case t.Event():
            yield formula, asked
        case t.As(inner) | t.Plus(inner):
            yield from _first(inner, asked)
        case t.Count(inner, _, most):
            yield from _first(inner, asked) if most != 0 else ()
        case t.Filter(inner, condition):
            yield from _first(inner, (*asked, condition))
        case t.PartitionBy(inner, by):
            yield from _first(inner, (*asked, *by))
        case t.Within(inner, window):
            yield from _first(inner, (*asked, window))
        case t.All(items) | t.Or(items):
            for item in items:
                yield from _first(item, asked)
        case t.Then(items):
            for item in items:
                yield from _first(item, asked)
                if not isinstance(item, t.Not) and not may_be_missing(item):
                    return
