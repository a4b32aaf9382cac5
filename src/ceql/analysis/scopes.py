"""Names: what a formula binds, and whether every name that a query uses is bound where it is used.

Event types are variables too. `check` raises `QueryError` with the place and the nearest known name;
what it lets through, the later stages can rely on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ceql.analysis.conditions import refs
from ceql.errors import QueryError, did_you_mean
from ceql.syntax import tree as t


def parts(formula: t.Formula) -> tuple[t.Formula, ...]:
    """The direct subformulas."""
    match formula:
        case t.Event():
            return ()
        case t.As(inner) | t.Plus(inner) | t.Filter(inner) | t.PartitionBy(inner):
            return (inner,)
        case t.Then(items) | t.All(items) | t.Or(items):
            return items


def subformulas(formula: t.Formula) -> Iterator[t.Formula]:
    """`formula` and all that is in it, outside first."""
    yield formula
    for part in parts(formula):
        yield from subformulas(part)


@lru_cache(maxsize=4096)
def binds(formula: t.Formula) -> frozenset[str]:
    """Every variable that some match of `formula` binds, event types included.

    >>> sorted(binds(t.As(t.Then((t.Event("A"), t.Event("B")), (False,)), "x")))
    ['A', 'B', 'x']
    """
    names = frozenset().union(*(binds(p) for p in parts(formula))) if parts(formula) else frozenset[str]()
    match formula:
        case t.Event(type):
            return names | {type}
        case t.As(_, variable):
            return names | {variable}
        case _:
            return names


@lru_cache(maxsize=4096)
def bound_once(formula: t.Formula) -> frozenset[str]:
    """The variables that no match of `formula` binds to more than one event."""
    match formula:
        case t.Event(type):
            return frozenset([type])
        case t.As(inner, variable):
            once = bound_once(inner)
            covers_one = isinstance(inner, t.Event) or (isinstance(inner, t.Filter | t.As) and _one_event(inner))
            return once | {variable} if covers_one and variable not in binds(inner) - once else once - {variable}
        case t.Plus():
            return frozenset()
        case t.Filter(inner) | t.PartitionBy(inner):
            return bound_once(inner)
        case t.Then(items) | t.All(items):
            counts: dict[str, int] = {}
            for item in items:
                for name in binds(item):
                    counts[name] = counts.get(name, 0) + (1 if name in bound_once(item) else 2)
            return frozenset(n for n, c in counts.items() if c == 1)
        case t.Or(items):
            return frozenset(n for n in binds(formula) if all(n in bound_once(i) for i in items if n in binds(i)))


def _one_event(formula: t.Formula) -> bool:
    return isinstance(formula, t.Event) or (isinstance(formula, t.Filter | t.As) and _one_event(formula.formula))


def types(formula: t.Formula) -> frozenset[str]:
    """The event types named in `formula`."""
    return frozenset(f.type for f in subformulas(formula) if isinstance(f, t.Event))


def variables(query: t.Query) -> tuple[str, ...]:
    """The selected variables, in order: as listed, or all in order of appearance for `*`."""
    if query.items is not None:
        return tuple(dict.fromkeys(i.name for i in query.items))
    order: dict[str, None] = {}
    for formula in _in_order(query.formula):
        match formula:
            case t.Event(type):
                order[type] = None
            case t.As(_, variable):
                order[variable] = None
    return tuple(order)


def _in_order(formula: t.Formula) -> Iterator[t.Formula]:
    for part in parts(formula):
        yield from _in_order(part)
    yield formula


def check(query: t.Query, source: str) -> None:
    """Raise `QueryError` for a name that nothing binds, or a stream that FROM does not list."""
    known = binds(query.formula)
    for item in query.items or ():
        if item.name not in known:
            raise _unbound(item.name, known, source, item, "nothing in WHERE binds")
    for formula in subformulas(query.formula):
        if isinstance(formula, t.Event) and formula.stream is not None and formula.stream not in query.streams:
            listed = ", ".join(query.streams) or "no stream"
            raise QueryError(
                f"FROM does not list the stream '{formula.stream}' (it lists {listed})",
                source,
                formula.span,
                did_you_mean(formula.stream, list(query.streams)) or "S>T is type T of stream S; write ';' for 'then'.",
            )
        if isinstance(formula, t.PartitionBy):
            own = binds(formula.formula)
            for ref in (r for part in formula.parts for r in part.refs if r.name is not None and r.name not in own):
                raise _unbound(str(ref.name), own, source, ref, "nothing in the partitioned formula binds")
    if len(set(query.streams)) < len(query.streams):
        raise QueryError("FROM lists a stream twice", source, query.span)
    for name, node in _waiting(query.formula):
        reason = "no part of the match that this filter belongs to binds" if name in known else "nothing binds"
        raise _unbound(name, known, source, node, reason)
    for part in query.partition:
        for ref in part.refs:
            if ref.name is not None and ref.name not in known:
                raise _unbound(ref.name, known, source, ref, "nothing in WHERE binds")


Named = tuple[str, t.Bracket | t.Ref | t.PartRef]


def _waiting(formula: t.Formula) -> list[Named]:
    """The names in filters of `formula` that are not bound by it, where the enclosing formula must."""
    match formula:
        case t.Event():
            return []
        case t.Filter(inner, condition):
            own = binds(inner)
            return _waiting(inner) + [use for use in _uses(condition) if use[0] not in own]
        case t.As(inner, variable):
            return [use for use in _waiting(inner) if use[0] != variable]
        case t.Plus(inner):
            return [use for use in _waiting(inner) if use[0] not in binds(inner)]
        case t.Then(items) | t.All(items):
            found: list[Named] = []
            for index, item in enumerate(items):
                others = frozenset().union(*(binds(i) for j, i in enumerate(items) if j != index))
                found += [use for use in _waiting(item) if use[0] not in others]
            return found
        case t.Or(items):
            return [use for item in items for use in _waiting(item)]
        case t.PartitionBy(inner):
            return _waiting(inner)


def _uses(condition: t.Condition) -> list[Named]:
    match condition:
        case t.Bracket(name, predicate):
            uses: list[Named] = [(name, condition)]
            return uses + [(ref.variable, ref) for ref in refs(predicate)]
        case t.Conj(items) | t.Disj(items):
            return [use for item in items for use in _uses(item)]
        case t.Neg(item):
            return _uses(item)
        case _:
            return [(ref.variable, ref) for ref in refs(condition)]


def _unbound(name: str, known: frozenset[str], source: str, node: object, reason: str) -> QueryError:
    hint = did_you_mean(name, sorted(known - {name})) or f"Bound are: {', '.join(sorted(known))}."
    return QueryError(f"{reason} '{name}'", source, getattr(node, "span", None), hint)
