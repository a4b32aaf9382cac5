"""Names: what a formula binds, and whether every name that a query uses is bound where it is used.

Event types are variables too. `check` raises `QueryError` with the place and the nearest known name;
what it lets through, the later stages can rely on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from ceql.analysis.conditions import aggregates, refs
from ceql.errors import QueryError, did_you_mean
from ceql.syntax import tree as t
from ceql.syntax.absence import events_of
from ceql.syntax.walking import nodes


def parts(formula: t.Formula) -> tuple[t.Formula, ...]:
    """The direct subformulas."""
    match formula:
        case t.Event() | t.Not():
            return ()
        case t.As(inner) | t.Plus(inner) | t.Count(inner) | t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            return (inner,)
        case t.Then(items) | t.All(items) | t.Or(items):
            return items


def subformulas(formula: t.Formula) -> Iterator[t.Formula]:
    """`formula` and all that is in it, outside first."""
    yield formula
    for part in parts(formula):
        yield from subformulas(part)


def joined_by_next(formula: t.Formula) -> bool:
    """Whether `->` joins the items or the rounds of a formula itself."""
    match formula:
        case t.Then(_, joints):
            return t.Joint.NEXT in joints
        case t.Plus(_, joint) | t.Count(_, _, _, joint):
            return joint is t.Joint.NEXT
    return False


@lru_cache(maxsize=4096)
def binds(formula: t.Formula) -> frozenset[str]:
    """Every variable that some match of `formula` binds, event types included.

    >>> sorted(binds(t.As(t.Then((t.Event("A"), t.Event("B")), (t.Joint.THEN,)), "x")))
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
            return once | {variable} if _one_event(inner) and variable not in binds(inner) - once else once - {variable}
        case t.Count(inner, _, most) if most is not None and most <= 1:
            return bound_once(inner)
        case t.Plus() | t.Count() | t.Not():
            return frozenset()
        case t.Filter(inner) | t.PartitionBy(inner) | t.Within(inner):
            return bound_once(inner)
        case t.Then(items) | t.All(items):
            counts: dict[str, int] = {}
            for item in items:
                for name in binds(item):
                    counts[name] = counts.get(name, 0) + (1 if name in bound_once(item) else 2)
            return frozenset(n for n, c in counts.items() if c == 1)
        case t.Or(items):
            return frozenset(n for n in binds(formula) if all(n in bound_once(i) for i in items if n in binds(i)))


@lru_cache(maxsize=4096)
def forbids(formula: t.Formula) -> frozenset[str]:
    """The names of the events that NOT keeps away, by which conditions can speak of them.

    That is the name after AS, or the type. A type that the formula also binds means the events that are bound.

    >>> from ceql.syntax.parser import parse_formula
    >>> sorted(forbids(parse_formula("A ; NOT B ; C ; NOT C ; NOT (D OR E) AS x ; B")))
    ['x']
    """
    absent = [f for f in subformulas(formula) if isinstance(f, t.Not)]
    return frozenset(name for f in absent if (name := name_of(f)) is not None) - binds(formula)


def name_of(absent: t.Not) -> str | None:
    """The name of an event that NOT keeps away."""
    if absent.variable is not None:
        return absent.variable
    return absent.formula.type if isinstance(absent.formula, t.Event) else None


def _one_event(formula: t.Formula) -> bool:
    match formula:
        case t.Event():
            return True
        case t.Filter(inner) | t.As(inner) | t.Within(inner):
            return _one_event(inner)
        case t.Count(inner, _, most):
            return most is not None and most <= 1 and _one_event(inner)
        case _:
            return False


def only_empty(formula: t.Formula) -> bool:
    """Whether no match of `formula` has an event.

    >>> only_empty(t.Then((t.Count(t.Event("A"), 0, 0), t.Count(t.Event("B"), 0, 0)), (t.Joint.THEN,)))
    True
    """
    if isinstance(formula, t.Count) and formula.most == 0:
        return True
    return bool(parts(formula)) and all(map(only_empty, parts(formula)))


def types(formula: t.Formula) -> frozenset[str]:
    """The event types named in `formula`."""
    found: set[str] = set()
    for part in subformulas(formula):
        match part:
            case t.Event(type):
                found.add(type)
            case t.Not():
                found.update(event.type for event in events_of(part))
    return frozenset(found)


def there(formula: t.Formula) -> frozenset[str]:
    """The types of the events that a match has, those of absent events left out."""
    return frozenset(part.type for part in subformulas(formula) if isinstance(part, t.Event))


def variables(query: t.Query) -> tuple[str, ...]:
    """The selected variables, in order: as listed, then those of measures; or all in order of appearance for `*`."""
    if query.items is not None:
        named = [node.variable for node in nodes(query.measures) if isinstance(node, t.Ref | t.Aggregate)]
        return tuple(dict.fromkeys([*(i.name for i in query.items), *sorted(named)]))
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
    """Raise `QueryError` for a name that nothing binds, a stream that FROM does not list, or a formula of no events."""
    known, absent = binds(query.formula), forbids(query.formula)
    if only_empty(query.formula):
        raise QueryError(
            "this formula matches no events, and a match has at least one",
            source,
            query.formula.span,
            "A count of {0} leaves its part out.",
        )
    for item in query.items or ():
        if item.name not in known:
            if any(ref.attribute == item.name for part in query.partition for ref in part.refs):
                raise QueryError(
                    f"'{item.name}' is an attribute, and SELECT lists variables",
                    source,
                    item.span,
                    "Leave it out: what PARTITION BY names is a column of the result anyway.",
                )
            raise _unbound(item.name, known, source, item, "nothing in WHERE binds")
    after = query.after_match
    if after is not None and after.variable is not None and after.variable not in known:
        raise _unbound(after.variable, known, source, after, "nothing in WHERE binds")
    for formula in subformulas(query.formula):
        for event in (formula,) if isinstance(formula, t.Event) else _absent_events(formula):
            _check_stream(event, query, source)
        if isinstance(formula, t.Filter):
            for aggregate in aggregates(formula.condition):
                if aggregate.variable in absent:
                    raise QueryError(
                        f"'{aggregate.variable}' is absent from every match, so there is nothing to aggregate",
                        source,
                        aggregate.span,
                    )
        if isinstance(formula, t.PartitionBy):
            own = binds(formula.formula) | forbids(formula.formula)
            for ref in (r for part in formula.parts for r in part.refs if r.name is not None and r.name not in own):
                raise _unbound(str(ref.name), own, source, ref, "nothing in the partitioned formula binds")
    if len(set(query.streams)) < len(query.streams):
        raise QueryError("FROM lists a stream twice", source, query.span)
    for name, node in _waiting(query.formula):
        reason = "no part of the match that this filter belongs to binds" if name in known else "nothing binds"
        raise _unbound(name, known, source, node, reason)
    named = known | absent | types(query.formula)
    for part in query.partition:
        for ref in part.refs:
            if ref.name is not None and ref.name not in named:
                raise _unbound(ref.name, known, source, ref, "nothing in WHERE binds")


def _absent_events(formula: t.Formula) -> tuple[t.Event, ...]:
    return events_of(formula) if isinstance(formula, t.Not) else ()


def _check_stream(event: t.Event, query: t.Query, source: str) -> None:
    if event.stream is not None and event.stream not in query.streams:
        listed = ", ".join(query.streams) or "no stream"
        raise QueryError(
            f"FROM does not list the stream '{event.stream}' (it lists {listed})",
            source,
            event.span,
            did_you_mean(event.stream, list(query.streams)) or "S>T is type T of stream S; write ';' for 'then'.",
        )


Named = tuple[str, t.Bracket | t.Ref | t.PartRef | t.Aggregate]


def _waiting(formula: t.Formula) -> list[Named]:
    """The names in filters of `formula` that are not bound by it, where the enclosing formula must."""
    match formula:
        case t.Event() | t.Not():
            return []
        case t.Filter(inner, condition):
            own = binds(inner) | forbids(inner)
            return _waiting(inner) + [use for use in _uses(condition) if use[0] not in own]
        case t.As(inner, variable):
            return [use for use in _waiting(inner) if use[0] != variable]
        case t.Plus(inner) | t.Count(inner):
            return [use for use in _waiting(inner) if use[0] not in binds(inner)]
        case t.Then(items) | t.All(items):
            count = Counter(name for item in items for name in binds(item))
            return [use for item in items for use in _waiting(item) if count[use[0]] == (use[0] in binds(item))]
        case t.Or(items):
            return [use for item in items for use in _waiting(item)]
        case t.PartitionBy(inner) | t.Within(inner):
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
            totals: list[Named] = [(aggregate.variable, aggregate) for aggregate in aggregates(condition)]
            return totals + [(ref.variable, ref) for ref in refs(condition)]


def _unbound(name: str, known: frozenset[str], source: str, node: object, reason: str) -> QueryError:
    hint = did_you_mean(name, sorted(known - {name})) or f"Bound are: {', '.join(sorted(known))}."
    return QueryError(f"{reason} '{name}'", source, getattr(node, "span", None), hint)
