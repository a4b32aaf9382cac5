"""Tells whether a formula can match events of given types alone, and if not, which types it lacks.

In: a formula and the types that came. Out: the types without which nothing can match. `A ; B` needs both, `A OR B` one
of them, `A ; B?` and `A ; NOT B` only A. Conditions are left out of account: they may fail, but that is another matter.
"""

from __future__ import annotations

from collections.abc import Set

from ceql.analysis.scopes import there
from ceql.syntax import tree as t


def lacking(formula: t.Formula, came: Set[str]) -> frozenset[str]:
    """The types that must come before anything can match; none if something may match already.

    Where several would do, all of them are named.

    >>> from ceql.syntax.parser import parse_formula
    >>> [sorted(lacking(parse_formula(text), {"A"})) for text in ("A ; B", "A OR B", "A ; B? ; NOT C", "A ; (B OR C)")]
    [['B'], [], [], ['B', 'C']]
    """
    named = there(formula)
    if not named.isdisjoint(came) and _can_match(formula, came):
        return frozenset()
    missing = named - came
    needed = frozenset(kind for kind in missing if not _can_match(formula, named - {kind}))
    return needed or missing


def _can_match(formula: t.Formula, came: Set[str]) -> bool:
    """Whether events of these types, or none at all, can be a match."""
    match formula:
        case t.Event(kind):
            return kind in came
        case t.Not():
            return True
        case t.Count(inner, least):
            return least == 0 or _can_match(inner, came)
        case t.As(inner) | t.Plus(inner) | t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            return _can_match(inner, came)
        case t.Then(items) | t.All(items):
            return all(_can_match(item, came) for item in items)
        case t.Or(items):
            return any(_can_match(item, came) for item in items)
