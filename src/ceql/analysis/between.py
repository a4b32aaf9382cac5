"""Conditions between events: whose events they read, and what a partial match must carry of them.

In: the claims of a shape. Out: `Condition`s. The variables of a condition are its *roles*. What it reads of one event
is an *operand*: an expression over that event, or over the one before it (PREV), as large as it can be, so that a
condition on two variables mostly compares two operands. A condition holds if it is true of every combination of events
in its roles; so of a role with many events it is enough to know the greatest, the least or the only value of an
operand, where the condition gets no easier, or no harder, as that value grows (`worst`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Any

from ceql.analysis.cutting import Condition, Cut, NotCut, Operand, Read, Role, most, there
from ceql.analysis.lengths import TIME, bound_name, key_name, never_falls
from ceql.analysis.listed import listed
from ceql.analysis.shape import Claim, Either, Kind, Length, Shape, Test
from ceql.analysis.wholes import as_a_whole, check_length, length_as_a_whole
from ceql.syntax import tree as t

ORDERED = ("<", "<=", ">", ">=")
_MOST_ORS, _MOST_CASES = 32, 60  # whose cases are followed one by one


class Worst(Enum):
    """Which of many values decides for all of them."""

    GREATEST = "greatest"
    LEAST = "least"
    ONLY = "only"


def conditions(shape: Shape, claims: list[Claim]) -> list[Condition]:
    """These claims as conditions; those that no values of their events decide are about the lists of these events."""
    found: list[Condition] = []
    ors = 0
    for claim in claims:
        try:
            made = list(_conditions(shape, claim))
        except NotCut:
            made = []
        cases = 1 + max((condition.case for condition in made), default=-1)
        fits = cases <= _MOST_CASES and (not cases or ors < _MOST_ORS)
        if made and fits and all(_can_combine(shape, condition) for condition in made):
            found += made
            ors += cases > 0
        else:
            found.append(listed(shape, claim))
    return found


def _conditions(shape: Shape, claim: Claim) -> Iterator[Condition]:
    if any(test.is_measured for test in claim.tests):
        found = as_a_whole(shape, claim)
        if found is not None:
            yield found
            if _only_gets_harder(found):
                yield replace(found, early=True)
        return
    match claim.what:
        case Test() as test:
            yield _condition(shape, claim, test.predicate, [test], -1)
        case Either(cases):
            tests = [test for case in cases for test in case]
            comparands = [c for test in tests for c in test.variables.values()]
            if all(most(shape, c.scope, c.leaves) <= 1 and shape.surely(c.scope, c.leaves) for c in comparands):
                # there is one combination: all of these or all of those is either of the two
                whole = t.Disj(tuple(t.Conj(tuple(test.predicate for test in case)) for case in cases))
                if len({test.owner for test in tests if test.has_prev}) <= 1:
                    yield _condition(shape, claim, whole, tests, -1)
                    return
            if any(c.scope != claim.node for c in comparands) or not all(test.variables for test in tests):
                return
            for k, case in enumerate(cases):
                for test in case:
                    yield _condition(shape, claim, test.predicate, [test], k)
        case Length(window):
            if never_falls(window):
                yield _length(shape, claim, window)
            elif (found := length_as_a_whole(shape, claim, window)) is not None:
                yield found


def _length(shape: Shape, claim: Claim, window: t.Window) -> Condition:
    """Every event is within the window of those before it."""
    names = {"first": key_name(window), "last": bound_name(window)}
    asked = t.Comparison(">=", t.Ref("first", names["first"]), t.Ref("last", names["last"]))
    over_operands: Any = replace(asked, left=Read(0), right=Read(1))  # type: ignore[arg-type]
    operands = tuple(Operand(k, False, t.Attribute(name)) for k, name in enumerate(names.values()))
    roles = tuple(Role(name, shape.below(claim.node), claim.node, False) for name in names)
    return Condition(claim, -1, asked, over_operands, operands, roles, forward=True)


def _condition(shape: Shape, claim: Claim, predicate: t.Predicate, tests: list[Test], case: int) -> Condition:
    owner = next((test.owner for test in tests if test.has_prev), None)
    variables = {name: comparand for test in tests for name, comparand in test.variables.items()}
    around = shape.above(claim.node)
    scopes = sorted({comparand.scope for comparand in variables.values()}, key=around.index)
    # where none of its variables is of the filtered part itself, it is asked only if that part is used
    conditional = not scopes or (scopes[0] != claim.node and not shape.surely(scopes[0], shape.below(claim.node)))
    count = len(variables) + conditional
    outer = scopes[-1] if scopes else claim.node
    cut = Cut({name: k for k, name in enumerate(variables)}, owner)
    over_operands = cut.predicate(predicate)
    check_length(over_operands)
    roles = []
    for name, comparand in variables.items():
        # of two, those combine that are in the same instance of the outer scope, in whichever round of the inner one
        scope = outer if count <= 2 else _widened(shape, comparand.scope)
        roles.append(Role(name, comparand.leaves, scope, most(shape, scope, comparand.leaves) <= 1))
        if all(operand.role != len(roles) - 1 for operand in cut.operands) and not shape.surely(
            scope, comparand.leaves
        ):
            cut.operands.append(there(len(roles) - 1))  # none of its values is read, but there must be an event
    if conditional:
        roles.append(Role("", shape.below(claim.node), outer if count <= 2 else _widened(shape, claim.node), True))
        cut.operands.append(there(len(roles) - 1))
    return Condition(claim, case, predicate, over_operands, tuple(cut.operands), tuple(roles))


def _widened(shape: Shape, scope: int) -> int:
    """The outermost node of which each instance has one instance of this one at most."""
    for node in shape.above(scope)[1:]:
        if shape.goes_round(node):
            break
        scope = node
    return scope


def _can_combine(shape: Shape, condition: Condition) -> bool:
    """Whether each role's own instances tell which events combine.

    With three roles or more in different scopes, an outer event after several rounds would have to be combined with the
    events of each round.
    """
    roles = condition.roles
    if len(roles) <= 2 or condition.ends >= 0:
        return True
    if len({role.scope for role in roles}) == 1:
        return True
    for role in roles:
        for other in roles:
            outside = role.scope != other.scope and other.scope in shape.above(role.scope)
            if outside and _may_follow(shape, role, other):
                return False
    return True


def _may_follow(shape: Shape, role: Role, other: Role) -> bool:
    """Whether an event of `other` may come after one of `role` that is in a round inside the scope of `other`."""
    for leaf in role.leaves:
        for later in other.leaves:
            if _order(shape, leaf, later):
                return True
    return False


def _order(shape: Shape, leaf: int, later: int) -> bool:
    """Whether `later` can be read after `leaf` in one instance of the node that has both."""
    way, other = shape.above(leaf), shape.above(later)
    meet = next(node for node in way if node in other)
    around = [shape.nodes[node] for node in other[other.index(meet) :]]
    if any(node.kind is Kind.REPEAT and node.most != 1 for node in around):
        return True
    if shape.nodes[meet].kind is Kind.SEQUENCE:
        items = shape.nodes[meet].items
        return items.index(way[way.index(meet) - 1]) < items.index(other[other.index(meet) - 1])
    return shape.nodes[meet].kind is Kind.ALL


def worst(condition: Condition, role: int) -> Worst | None:
    """Which value of a role's operand decides for all its events; None where one value does not."""
    mine = [k for k, operand in enumerate(condition.operands) if operand.role == role]
    if len(mine) != 1 or condition.operands[mine[0]].previous:
        return None
    if condition.pair is not None and condition.pair[0] == "=":
        return Worst.ONLY
    return hardest(condition, mine[0])


def hardest(condition: Condition, operand: int) -> Worst | None:
    """The end at which a condition is hardest to satisfy, as one operand grows and the others stay."""
    p = condition.predicate
    if not isinstance(p, t.Comparison) or p.op not in ORDERED:
        return None
    left, right = (_sign(side, operand) for side in (p.left, p.right))
    sign = (left or 0) - (right or 0) if left is not None and right is not None else None
    if not sign:
        return None
    greatest = (sign > 0) == (p.op in ("<", "<="))  # `x < …` is hardest for the greatest x
    return Worst.GREATEST if greatest else Worst.LEAST


_GROWS = {"COUNT": Worst.GREATEST, "DISTINCT": Worst.GREATEST, "MAX": Worst.GREATEST, "MIN": Worst.LEAST}
"""Aggregates that never fall, or never rise, as more events come."""


def _only_gets_harder(condition: Condition) -> bool:
    """Whether a condition on aggregates that is false stays false, whatever further events are like."""
    if not isinstance(condition.predicate, t.Comparison) or condition.predicate.op not in ORDERED:
        return False
    for n, operand in enumerate(condition.operands):
        if not operand.fold or operand.fold == "FIRST":
            continue
        grows = Worst.GREATEST if operand.what == t.Attribute(TIME) else _GROWS.get(operand.fold)
        if grows is None or hardest(condition, n) is not grows:
            return False
    return True


def _sign(node: Any, operand: int) -> int | None:
    """1 where an expression grows with an operand, -1 where it falls, 0 without it; None where that is not known."""
    match node:
        case Read(k):
            return 1 if k == operand else 0
        case t.Literal() | t.Duration():
            return 0
        case t.Minus(inner):
            sign = _sign(inner, operand)
            return None if sign is None else -sign
        case t.Arithmetic(op, left, right):
            one, two = _sign(left, operand), _sign(right, operand)
            if one is None or two is None:
                return None
            if op in "+-":
                two = two if op == "+" else -two
                return one + two if not (one and two) else None
            if not (one or two):
                return 0
            factor = right if one else left
            if (one and two) or not isinstance(factor, t.Literal) or (op != "*" and not (op == "/" and one)):
                return None
            if isinstance(factor.value, bool | str) or not factor.value:
                return None
            return (one or two) if factor.value > 0 else -(one or two)
    return None
