"""Conditions that only all of their events together decide: what is listed of these events.

In: a claim of which no single value of many events is enough, as with an aggregate of all values at once (MEDIAN,
STDDEV, FIRST(e, n)), a function of values of several events, or events of different rounds. Out: a `Condition` with the
attributes that are listed of each event, in order. It is decided on that list, where no more of its events can come.
"""

from __future__ import annotations

from typing import Any

from ceql.analysis.cutting import LISTED, Condition, Operand, Read, Role
from ceql.analysis.lengths import TIME, bound_name, key_name
from ceql.analysis.shape import Claim, Comparand, Kind, Length, Same, Shape
from ceql.analysis.wholes import predicate_of
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves as attributes_of
from ceql.syntax.walking import nodes


def listed(shape: Shape, claim: Claim) -> Condition:
    """The condition of a claim on the list of its events."""
    around = shape.above(claim.node)
    comparands = [comparand for test in claim.tests for comparand in test.variables.values()]
    if isinstance(claim.what, Length) or _asks_for_time(claim):
        comparands.append(Comparand(claim.node, shape.below(claim.node)))
    ends = max((comparand.scope for comparand in comparands), key=around.index, default=claim.node)
    # the events of other sides come between, and do not tell that a part has ended: that of all sides does
    above = around[around.index(ends) :]
    ends = next((node for node in reversed(above) if shape.nodes[node].kind is Kind.ALL), ends)
    valued = every = frozenset[int]().union(*(comparand.leaves for comparand in comparands))
    if any(test.has_prev for test in claim.tests):  # any event of the match may be the one before
        ends = around[-1]
        valued = every = shape.below(ends)
    elif not _is_one_instance(shape, claim, comparands, ends):
        every = shape.below(ends)
    roles = (Role("", every, ends, False), Role("", valued, ends, False))
    what = tuple(t.Attribute(name) for name in sorted(attributes(claim)))
    whole: Any = Read(0, truth=True)
    operand = Operand(0, False, t.Comparison("=", t.Literal(1), t.Literal(1)), LISTED)
    return Condition(claim, -1, _asked(claim), whole, (operand,), roles, ends=ends, listed=what)


def attributes(claim: Claim) -> set[str]:
    """The attributes that a claim reads; TIME where it asks for a time of the match."""
    if isinstance(claim.what, Length):
        return {key_name(claim.what.window), bound_name(claim.what.window)}
    read = [leaf for test in claim.tests for leaf in attributes_of(test.predicate)]
    if isinstance(claim.what, Same):
        read = [leaf for terms in claim.what.terms.values() for term in terms for leaf in attributes_of(term)]
    found = {leaf.name if isinstance(leaf, t.Attribute) else leaf.attribute for leaf in read}
    return found | ({TIME} if _asks_for_time(claim) else set())


def _asks_for_time(claim: Claim) -> bool:
    return any(isinstance(part, t.Lapse) for test in claim.tests for part in nodes(test.predicate))


def _asked(claim: Claim) -> t.Predicate:
    match claim.what:
        case Length(window):
            return t.Comparison(">=", t.Ref("first", key_name(window)), t.Ref("last", bound_name(window)))
        case _:
            return predicate_of(claim)


def _is_one_instance(shape: Shape, claim: Claim, comparands: list[Comparand], ends: int) -> bool:
    """Whether the filtered part has one instance in the part that is decided as a whole, which its events alone tell.

    Else all events there are listed, so that rounds can be told apart.
    """
    inside = shape.above(claim.node)
    between = inside[1 : inside.index(ends) + 1]
    return (
        all(comparand.scope == claim.node for comparand in comparands)
        and not any(map(shape.goes_round, between))
        and (ends == claim.node or shape.surely(ends, shape.below(claim.node)))
    )
