"""Reads SELECT: which variables it shows, whether as one event or a list, with which attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from ceql.analysis.scopes import parts, types, variables
from ceql.syntax import tree as t


@dataclass(frozen=True, slots=True)
class Selection:
    """The parts of SELECT that tables of events need."""

    variables: tuple[str, ...] = ()
    """Those that tables show. `*` leaves a type out if its events have better names: of `A AS x`, it shows x."""
    singles: frozenset[str] = frozenset()
    """The variables that no match binds to more than one event."""
    projections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The attributes to show of a variable's events (`SELECT x[a, b]`); all, of variables that are not here."""
    keys: frozenset[str] = frozenset()
    """The attributes of the PARTITION BY clause, which are shown in any case."""
    distinct: bool = False
    """Whether there are no variables, and events are shown whole."""


def selection(query: t.Query) -> Selection:
    """What `query` shows.

    >>> from ceql.syntax.parser import parse
    >>> found = selection(parse("SELECT * WHERE A AS x ; B+ AS y ; C"))
    >>> found.variables, sorted(found.singles)
    (('x', 'y', 'C'), ['A', 'C', 'x'])
    """
    keys = frozenset(ref.attribute for part in query.partition for ref in part.refs)
    if query.distinct:
        return Selection(keys=keys, distinct=True)
    singles = frozenset(name for name, most in _most(query.formula)[1].items() if most == 1)
    listed = None if query.items is None else tuple(dict.fromkeys(item.name for item in query.items))
    names = _best_names(query, singles) if listed is None else listed
    projections = {i.name: i.attributes for i in query.items or () if i.attributes}
    return Selection(names, singles, projections, keys)


def _best_names(query: t.Query, singles: frozenset[str]) -> tuple[str, ...]:
    """All variables, but no type whose events are all bound to variables of one event, or to one of just these."""
    leaves = _leaves(query.formula)
    kinds = types(query.formula) & leaves.keys()
    given = [name for name in leaves if name not in kinds]
    alone = frozenset[int]().union(*(leaves[name] for name in given if name in singles))
    covered = {name for name in kinds if leaves[name] <= alone or leaves[name] in [leaves[x] for x in given]}
    return tuple(name for name in variables(query) if name not in covered)


def _most(formula: t.Formula) -> tuple[int, dict[str, int]]:
    """The most events that a match of the formula has, in all and for each variable; 2 stands for any more."""
    inner = [_most(part) for part in parts(formula)]
    names = {name: 0 for _, most in inner for name in most}
    match formula:
        case t.Event(name):
            return 1, {name: 1}
        case t.As(_, name):
            return inner[0][0], inner[0][1] | {name: inner[0][0]}
        case t.Not():
            return 0, {}
        case t.Count(_, _, most) if most is not None and most <= 1:
            return inner[0] if most else (0, names)
        case t.Plus() | t.Count():
            return 2, dict.fromkeys(names, 2)
    either = isinstance(formula, t.Or)
    total = 0
    for n, each in inner:
        total = max(total, n) if either else min(2, total + n)
        for name, own in each.items():
            names[name] = max(names[name], own) if either else min(2, names[name] + own)
    return total, names


def _leaves(formula: t.Formula) -> dict[str, frozenset[int]]:
    """The places in the formula, numbered, whose events each variable is bound to."""
    numbers = count()
    found: dict[str, frozenset[int]] = {}

    def visit(node: t.Formula) -> frozenset[int]:
        inner: list[frozenset[int]] = [visit(part) for part in parts(node)]
        below = frozenset([next(numbers)]) if isinstance(node, t.Event) else frozenset[int]().union(*inner)
        match node:
            case t.Event(name) | t.As(_, name):
                found[name] = found.get(name, frozenset()) | below
        return below

    visit(formula)
    return found
