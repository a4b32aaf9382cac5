"""Conditions on events that NOT keeps away: what is compared with them of the events of a match.

In: a claim on an absence. Out: a `Condition` in which the absent event plays the first role. It forbids an event of
which it is true with every combination of events in the other roles. So of a role with many events, the value is
carried with which it is hardest to satisfy, or all values are; or what an aggregate makes of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ceql.analysis.between import worst
from ceql.analysis.conditions import aggregates, spell_out
from ceql.analysis.cutting import Condition, Cut, NotCut, Operand, Read, Role, most
from ceql.analysis.shape import Claim, Comparand, Either, Leaves, Same, Shape
from ceql.analysis.wholes import is_before, predicate_of
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes

_NONE: Leaves = frozenset()


def denial(shape: Shape, claim: Claim) -> Condition | None:
    """A condition on an absent event, which has no leaves; None if only whole matches tell all that it asks for."""
    absence = shape.absences[claim.absence]
    absent = Role(next(iter(absence.names), ""), _NONE, -1, True)
    if isinstance(claim.what, Same):
        return _equal(claim, claim.what, absent)
    tests = claim.tests
    if not tests or any(isinstance(part, t.Lapse) for test in tests for part in nodes(test.predicate)):
        return None
    owners = {test.owner if test.owner in test.variables else absent.name for test in tests if test.has_prev}
    combined = {name: comparand for test in tests for name, comparand in test.combined.items()}
    folded = {part.variable: test.variables[part.variable] for test in tests for part in aggregates(test.predicate)}
    roles = [absent]
    for name, comparand in [*combined.items(), *folded.items()]:
        single = most(shape, comparand.scope, comparand.leaves) <= 1
        if not (single or absence.is_next or _on_one_side(shape, claim.absence, comparand)):
            return None  # what `->` keeps away is compared with the events that have come, all others with each
        if not single and isinstance(claim.what, Either) and len(roles) <= len(combined):
            return None  # an OR may hold by one case for some of its events, by another for others
        roles.append(Role(name, comparand.leaves, comparand.scope, single))
    after = 1 + len(combined)
    cut = Cut(
        {absent.name: 0, **{name: 1 + k for k, name in enumerate(combined)}},
        next(iter(owners), None),
        {name: after + k for k, name in enumerate(folded)},
    )
    predicate = predicate_of(claim)
    try:
        over_operands = cut.predicate(predicate)
    except NotCut:
        return None
    condition = Condition(claim, -1, predicate, over_operands, tuple(cut.operands), tuple(roles))
    sets = [k for k in range(1, after) if not roles[k].single and worst(condition, k) is None]
    return condition if len(sets) <= 1 and len(owners) <= 1 else None


def _equal(claim: Claim, same: Same, absent: Role) -> Condition | None:
    """The absent event has the value that all of these leaves have."""
    leaves = frozenset(same.terms) - {-1}
    own, other = same.terms[-1][0], same.terms[min(leaves)][0]
    if len(same.terms[-1]) > 1:
        return None
    asked = t.Comparison("=", spell_out(own, absent.name), spell_out(other, "match"), span=claim.span)
    over_operands: Any = replace(asked, left=Read(0), right=Read(1))  # type: ignore[arg-type]
    operands = (Operand(0, False, own), Operand(1, False, other))
    return Condition(claim, -1, asked, over_operands, operands, (absent, Role("", leaves, claim.node, True)))


def _on_one_side(shape: Shape, absence: int, comparand: Comparand) -> bool:
    """Whether all events of a variable come before an absence, or all after it, in the instance of its scope."""
    gap = shape.gaps[absence].node
    around, own = shape.above(gap), shape.below(gap)
    left, right = shape.sides(absence)
    if comparand.scope not in around:
        return False
    if any(map(shape.goes_round, around[1 : around.index(comparand.scope) + 1])):
        return not comparand.leaves & own and is_before(shape, comparand, gap)
    outside = comparand.leaves - own
    before = not outside or is_before(shape, Comparand(comparand.scope, outside), gap)
    return comparand.leaves <= right or (comparand.leaves & own <= left and before)
