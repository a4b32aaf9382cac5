"""Finds queries that can never match because of PREV, which is NULL on the first event of a match.

In: the shape of a formula. Out: the condition that no first event satisfies, if there is one for every way to begin.
Nothing is said of a query that may match: a condition counts only if all ways into it are tested, and if no values of
the other attributes could make it true.
"""

from __future__ import annotations

from ceql.analysis.conditions import skips_null
from ceql.analysis.shape import Claim, Kind, Leaves, Shape, Test
from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves

_Truths = frozenset[bool | None]
_ANY: _Truths = frozenset({True, False, None})
_UNKNOWN: _Truths = frozenset({None})


def never_begins(shape: Shape | None, source: str) -> str | None:
    """Why no match can begin, with the place and what to write; None if one can."""
    if shape is None:
        return None
    blocked: dict[int, Claim] = {}
    for claim in shape.claims:
        for leaf in _blocked(shape, claim):
            blocked.setdefault(leaf, claim)
    first = _first(shape, shape.root)
    if not first <= blocked.keys():
        return None
    claim = blocked[min(first)]
    error = QueryError(
        f"the query can never match: PREV is NULL on the first event of a match, so '{claim.text}' fails there",
        source,
        claim.span,
        "Begin with an event of its own, as in A AS first ; A+ AS x FILTER x[v > PREV.v], or let the first one pass: "
        "x[v > PREV.v OR PREV.v IS NULL].",
    )
    return str(error)


def _first(shape: Shape, node: int) -> Leaves:
    """The leaves that can read the first event of a node's matches."""
    here = shape.nodes[node]
    match here.kind:
        case Kind.LEAF:
            return frozenset([node])
        case Kind.SEQUENCE:
            kept = next((k for k, item in enumerate(here.items) if not shape.nullable(item)), len(here.items) - 1)
            return frozenset[int]().union(*(_first(shape, item) for item in here.items[: kept + 1]))
        case Kind.REPEAT if here.most == 0:
            return frozenset()
        case Kind.REPEAT | Kind.CHOICE | Kind.ALL:
            return frozenset[int]().union(*(_first(shape, item) for item in here.items))


def _blocked(shape: Shape, claim: Claim) -> Leaves:
    """The leaves that cannot read the first event of a match, by this claim."""
    if not isinstance(claim.what, Test):
        return frozenset()
    test = claim.what
    if test.owner is None or set(test.variables) != {test.owner} or True in _truths(test.predicate):
        return frozenset()
    owner = test.variables[test.owner]
    sure = owner.scope == claim.node or shape.surely(owner.scope, shape.below(claim.node))
    return owner.leaves if sure else frozenset()


def _truths(condition: t.Condition) -> _Truths:
    """The values that a condition may have where PREV is NULL."""
    match condition:
        case t.Comparison() | t.Like() | t.In() | t.Between() | t.IsNull() if skips_null(condition, _has_prev):
            return _ANY
        case t.Comparison() | t.Like() | t.In():
            return _UNKNOWN if _has_prev(condition) else _ANY
        case t.Between(operand, negated=negated):
            if _has_prev(operand):
                return _UNKNOWN
            return frozenset({None, negated}) if _has_prev(condition) else _ANY
        case t.IsNull(negated=negated):
            return frozenset({not negated}) if _has_prev(condition) else _ANY
        case t.Neg(item):
            return frozenset(None if truth is None else not truth for truth in _truths(item))
        case t.Conj(items):
            return _joined([_truths(item) for item in items], False)
        case t.Disj(items):
            return _joined([_truths(item) for item in items], True)
        case t.Bracket(_, predicate):
            return _truths(predicate)


def _joined(items: list[_Truths], strong: bool) -> _Truths:
    """The values of AND, whose strong value is False, or OR, whose strong value is True."""
    found: set[bool | None] = {strong} if any(strong in item for item in items) else set()
    weak = not strong
    if all(weak in item for item in items):
        found.add(weak)
    if any(None in item for item in items) and all(item != {strong} for item in items):
        found.add(None)
    return frozenset(found)


def _has_prev(node: t.Condition | t.Expression) -> bool:
    return any(isinstance(leaf, t.Prev) for leaf in leaves(node))
