"""LP-normal form: every predicate stands at the event it speaks of (foundations-cep-2018, 5.2 and Theorem 2).

In: the formula of a query without cross-event conditions. Out: a formula of `Atom` (an event type, the
variables that it is bound to, the predicates that the event must satisfy) under `Sequence`, `Repeat`,
`Choice` and `Both`. AS and FILTER are gone: `φ AS x` adds x to every atom of φ, and `φ FILTER x[P]` adds P
to every atom of φ that carries x.

A filter on a variable that its own operand does not bind constrains the nearest enclosing formula that does
(docs/reference.md, section 3). Such a filter travels upwards as `Pending`. At the formula ψ that binds x it is
discharged by cases: the matches of ψ in which x satisfies P, the filter taken as true; and those that
do not use the filtered part at all. Their union is exact, since a match either uses the part or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from ceql.analysis.conditions import simplify
from ceql.analysis.scopes import binds, bound_once
from ceql.errors import QueryError
from ceql.syntax import tree as t


@dataclass(frozen=True, slots=True)
class Atom:
    """One event of this type, bound to `variables`, that satisfies all `predicates`."""

    type: str
    stream: str | None
    variables: frozenset[str]
    predicates: tuple[t.Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Normal, ...]
    contiguous: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    body: Normal
    contiguous: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of the items; of none, never."""

    items: tuple[Normal, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """All of the items, in any order, perhaps sharing events."""

    items: tuple[Normal, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """`body`, provided that the enclosing binding of `variable` satisfies `predicate`."""

    body: Normal
    variable: str
    predicate: t.Predicate


Normal = Atom | Sequence | Repeat | Choice | Both | Pending
Constraint = tuple[str, t.Predicate]
NEVER = Choice(())


def normalize(formula: t.Formula, source: str) -> Normal:
    """`formula`, which compares no two events, in LP-normal form."""
    return _normal(formula, source)


def _normal(formula: t.Formula, source: str) -> Normal:
    match formula:
        case t.Event(type, stream):
            return Atom(type, stream, frozenset([type]))
        case t.As(inner, variable):
            body = _bind(_normal(inner, source), variable)
            wanted = [c for c in _pending(body) if c[0] == variable]
            return _discharge([body], [(c, {0}) for c in wanted], lambda parts: parts[0])
        case t.Plus(inner, in_a_row):
            body = _normal(inner, source)
            own = binds(inner)
            wanted = [c for c in _pending(body) if c[0] in own]
            return _discharge([body], [(c, {0}) for c in wanted], lambda parts: _repeat(parts[0], in_a_row))
        case t.Then(items, contiguous):
            bodies = [_normal(i, source) for i in items]
            joins = contiguous
            return _discharge(bodies, _targets(items, bodies), lambda parts: _sequence(parts, joins))
        case t.All(items):
            bodies = [_normal(i, source) for i in items]
            return _discharge(bodies, _targets(items, bodies), _both)
        case t.Or(items):
            return _choice([_normal(i, source) for i in items])
        case t.Filter(inner, condition):
            body = _normal(inner, source)
            simple = simplify(condition, bound_once(inner), source)
            return _filter(body, simple, binds(inner), source)
        case t.PartitionBy():
            raise QueryError("the PARTITION BY operator compares events with each other", source, formula.span)


def _filter(body: Normal, condition: t.FilterCondition, own: frozenset[str], source: str) -> Normal:
    match condition:
        case t.Conj(items):
            for item in items:
                body = _filter(body, cast(t.FilterCondition, item), own, source)
            return body
        case t.Disj(items):
            return _choice([_filter(body, cast(t.FilterCondition, item), own, source) for item in items])
        case t.Bracket(name, predicate):
            return _push(body, name, predicate) if name in own else _hold(body, name, predicate)
        case t.Comparison():  # without any variable: the same for every match, so it can stand at any event
            return _everywhere(body, condition)
        case t.Neg():
            raise AssertionError("simplify() leaves no NOT outside brackets")


def _targets(items: tuple[t.Formula, ...], bodies: list[Normal]) -> list[tuple[Constraint, set[int]]]:
    """The pending constraints that another item of the same formula binds, each with the items that wait for it."""
    targets: dict[Constraint, set[int]] = {}
    bound = [binds(i) for i in items]
    for index, body in enumerate(bodies):
        others = frozenset().union(*(b for j, b in enumerate(bound) if j != index))
        for constraint in _pending(body):
            if constraint[0] in others:
                targets.setdefault(constraint, set()).add(index)
    return list(targets.items())


def _discharge(
    bodies: list[Normal], targets: list[tuple[Constraint, set[int]]], build: Callable[[list[Normal]], Normal]
) -> Normal:
    """`build(bodies)` with the `targets` decided by cases (see the module's docstring)."""
    if not targets:
        return build(bodies)
    (constraint, where), rest = targets[0], targets[1:]
    assumed = [_settle(b, constraint, True) if i in where else b for i, b in enumerate(bodies)]
    refused = [_settle(b, constraint, False) if i in where else b for i, b in enumerate(bodies)]
    return _choice(
        [_push(_discharge(assumed, rest, build), *constraint), _discharge(refused, rest, build)],
    )


def _pending(body: Normal) -> list[Constraint]:
    match body:
        case Atom():
            return []
        case Pending(inner, variable, predicate):
            return [*_pending(inner), (variable, predicate)]
        case Repeat(inner):
            return _pending(inner)
        case Sequence(items) | Choice(items) | Both(items):
            found: dict[Constraint, None] = {}
            for item in items:
                found.update(dict.fromkeys(_pending(item)))
            return list(found)


def _settle(body: Normal, constraint: Constraint, holds: bool) -> Normal:
    """`body` where the constraint is known to hold, or known not to be used."""
    match body:
        case Pending(inner, variable, predicate):
            inner = _settle(inner, constraint, holds)
            if (variable, predicate) == constraint:
                return inner if holds else NEVER
            return _hold(inner, variable, predicate)
        case _:
            return _map(body, lambda item: _settle(item, constraint, holds))


def _push(body: Normal, variable: str, predicate: t.Predicate) -> Normal:
    if isinstance(body, Atom):
        return replace(body, predicates=(*body.predicates, predicate)) if variable in body.variables else body
    return _map(body, lambda item: _push(item, variable, predicate))


def _bind(body: Normal, variable: str) -> Normal:
    if isinstance(body, Atom):
        return replace(body, variables=body.variables | {variable})
    return _map(body, lambda item: _bind(item, variable))


def _everywhere(body: Normal, predicate: t.Predicate) -> Normal:
    if isinstance(body, Atom):
        return replace(body, predicates=(*body.predicates, predicate))
    return _map(body, lambda item: _everywhere(item, predicate))


def _map(body: Normal, change: Callable[[Normal], Normal]) -> Normal:
    """`body` with `change` applied to its parts and rebuilt, so that what became NEVER disappears."""
    match body:
        case Atom():
            return body
        case Pending(inner, variable, predicate):
            return _hold(change(inner), variable, predicate)
        case Repeat(inner, contiguous):
            return _repeat(change(inner), contiguous)
        case Sequence(items, contiguous):
            return _sequence([change(i) for i in items], contiguous)
        case Choice(items):
            return _choice([change(i) for i in items])
        case Both(items):
            return _both([change(i) for i in items])


def _hold(body: Normal, variable: str, predicate: t.Predicate) -> Normal:
    return body if body == NEVER else Pending(body, variable, predicate)


def _repeat(body: Normal, contiguous: bool) -> Normal:
    return body if body == NEVER else Repeat(body, contiguous)


def _sequence(items: list[Normal], contiguous: tuple[bool, ...]) -> Normal:
    return NEVER if NEVER in items else Sequence(tuple(items), contiguous)


def _both(items: list[Normal]) -> Normal:
    return NEVER if NEVER in items else Both(tuple(items))


def _choice(items: list[Normal]) -> Normal:
    flat: dict[Normal, None] = {}
    for item in items:
        flat.update(dict.fromkeys(item.items if isinstance(item, Choice) else [item]))
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))
