"""Conditions on aggregates: of which part of the formula each speaks as a whole, and what must be known of its events.

In: a claim with aggregates. Out: a `Condition` whose `ends` is the node that it speaks of. Its aggregates are operands
over all events of a variable in an instance of that node, so they are known when no more such events can come. Where
the filtered part goes round inside of the part that binds another variable, each round is decided by itself: that
variable must then be complete before the rounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ceql.analysis.conditions import aggregates
from ceql.analysis.cutting import FIRST_LAST, WHOLE, Condition, Cut, NotCut, Operand, Read, Role, most, there
from ceql.analysis.lengths import bound_name, key_name
from ceql.analysis.shape import Claim, Comparand, Either, Kind, Shape, Test
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes

_LONGEST = 56  # instructions of a program


def as_a_whole(shape: Shape, claim: Claim) -> Condition | None:
    """The condition of a claim with aggregates; None if only whole matches can be looked at.

    `NotCut` is raised where a function takes an aggregate.
    """
    tests = claim.tests
    owners = {test.owner for test in tests if test.has_prev}
    combined = {name: comparand for test in tests for name, comparand in test.combined.items()}
    folded = {part.variable: test.variables[part.variable] for test in tests for part in aggregates(test.predicate)}
    if any(isinstance(part, t.Lapse) for test in tests for part in nodes(test.predicate)):
        folded[WHOLE] = Comparand(claim.node, shape.below(claim.node))
    ends = _ends(shape, claim, [*combined.values(), *folded.values()])
    if len(owners) > 1 or ends is None or not owners <= combined.keys() | {None}:
        return None
    count, owner = len(combined), next(iter(owners), None)
    cut = Cut(dict(zip(combined, range(count), strict=True)), owner, {name: count + k for k, name in enumerate(folded)})
    over_operands = _over_operands(shape, claim, cut)
    if over_operands is None:
        return None
    check_length(over_operands)
    roles: list[Role] = []
    for name, comparand in [*combined.items(), *folded.items()]:
        scope = ends if ends in shape.above(comparand.scope) else comparand.scope
        roles.append(Role(name, comparand.leaves, scope, most(shape, scope, comparand.leaves) <= 1))
    return _ending(shape, claim, ends, predicate_of(claim), over_operands, cut.operands, roles)


def length_as_a_whole(shape: Shape, claim: Claim, window: t.Window) -> Condition | None:
    """The condition that the first and the last event of a part are inside a window; None if only whole matches can be
    looked at. Where the attribute may fall, those between them may be outside."""
    ends = _ends(shape, claim, [])
    if ends is None:
        return None
    names = {"first": key_name(window), "last": bound_name(window)}
    asked = t.Comparison(">=", t.Ref("first", names["first"]), t.Ref("last", names["last"]))
    over_operands: Any = replace(asked, left=Read(0), right=Read(1))  # type: ignore[arg-type]
    folds = zip(names.values(), FIRST_LAST, strict=True)
    operands = [Operand(k, False, t.Attribute(name), fold) for k, (name, fold) in enumerate(folds)]
    roles = [Role(name, shape.below(claim.node), claim.node, False) for name in names]
    return _ending(shape, claim, ends, asked, over_operands, operands, roles)


def _ending(
    shape: Shape,
    claim: Claim,
    ends: int,
    asked: t.Predicate,
    over_operands: Any,
    operands: list[Operand],
    roles: list[Role],
) -> Condition:
    """A condition on an instance of a node as a whole, asked only if the filtered part is used there."""
    if ends != claim.node and not shape.surely(ends, shape.below(claim.node)):
        roles.append(Role("", shape.below(claim.node), ends, True))
        operands.append(there(len(roles) - 1))
    return Condition(claim, -1, asked, over_operands, tuple(operands), tuple(roles), ends=ends)


def predicate_of(claim: Claim) -> t.Predicate:
    """The predicate of a claim, as its author sees it."""
    match claim.what:
        case Either(cases):
            return t.Disj(tuple(t.Conj(tuple(test.predicate for test in case)) for case in cases))
    return claim.tests[0].predicate


def _over_operands(shape: Shape, claim: Claim, cut: Cut) -> Any:
    """The predicate of a claim, cut; None of an OR, a case of which combines several events."""
    if not isinstance(claim.what, Either):
        return cut.predicate(claim.tests[0].predicate)
    cases = [[_of_case(shape, test, cut) for test in case] for case in claim.what.cases]
    if any(part is None for case in cases for part in case):
        return None
    return t.Disj(tuple(t.Conj(tuple(case)) for case in cases))


def _of_case(shape: Shape, test: Test, cut: Cut) -> Any:
    combined = test.combined
    if all(most(shape, c.scope, c.leaves) <= 1 and shape.surely(c.scope, c.leaves) for c in combined.values()):
        return cut.predicate(test.predicate)
    if len(combined) > 1 or test.is_measured or test.has_prev:
        return None
    return cut.every(next(iter(combined)), test.predicate)


def _ends(shape: Shape, claim: Claim, comparands: list[Comparand]) -> int | None:
    """The node whose instance a claim speaks of."""
    around = shape.above(claim.node)
    outer = max((comparand.scope for comparand in comparands), key=around.index, default=claim.node)
    ends = outer
    if any(map(shape.goes_round, around[1 : around.index(outer) + 1])):
        ends = claim.node
        others = [comparand for comparand in comparands if comparand.scope != ends]
        if not all(is_before(shape, comparand, ends) for comparand in others):
            return None
    above = around[around.index(ends) :]
    sides = [k for k, node in enumerate(above) if k and shape.nodes[node].kind is Kind.ALL]
    if not sides:
        return ends
    # the events of other sides come between, and do not tell that a part has ended: that of all sides does
    return None if any(map(shape.goes_round, above[1 : sides[-1] + 1])) else above[sides[-1]]


def is_before(shape: Shape, comparand: Comparand, node: int) -> bool:
    """Whether all events of a variable come before any instance of a node, in the instance of its own scope."""
    way = shape.above(node)
    for leaf in comparand.leaves:
        other = shape.above(leaf)
        meet = next(parent for parent in other if parent in way)
        if any(map(shape.goes_round, other[other.index(meet) : other.index(comparand.scope) + 1])):
            return False
        here = shape.nodes[meet]
        if here.kind is Kind.SEQUENCE:
            mine, nodes = (line[line.index(meet) - 1] for line in (other, way))
            if here.items.index(mine) > here.items.index(nodes):
                return False
        elif here.kind is not Kind.CHOICE:
            return False
    return True


def check_length(predicate: Any) -> None:
    """Raise `NotCut` if a predicate over operands makes too long a program."""
    if _instructions(predicate) > _LONGEST:
        raise NotCut


def _instructions(node: Any) -> int:
    """How many instructions a predicate over operands has at most."""
    match node:
        case t.Conj(items) | t.Disj(items):
            return sum(map(_instructions, items)) + len(items)
        case t.Neg(inner) | t.Minus(inner) | t.Call(_, (inner,)):
            return _instructions(inner) + 1
        case t.IsNull(inner):
            return _instructions(inner) + 2
        case t.Comparison(_, left, right):
            return _instructions(left) + _instructions(right) + 1
        case t.Arithmetic(_, left, right):
            return _instructions(left) + _instructions(right) + 3
        case Read():
            return 2
        case _:
            return 1
