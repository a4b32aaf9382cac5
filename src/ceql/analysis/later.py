"""NOT that is compared with what comes after it: what must be known of the forbidden events until then.

In: the conditions on an absent event that speak of later variables. Out: one condition, on whose truth for any of the
forbidden events a match fails. Forbidden events play its first role. It is enough to know the greatest or the least of
their values where a single comparison gets easier or harder as that value grows; else all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ceql.analysis.between import Worst, hardest, worst
from ceql.analysis.cutting import Condition, Operand, Read, Role
from ceql.analysis.shape import Same, Shape
from ceql.syntax import tree as t
from ceql.syntax.walking import mapped

_MOST_OPERANDS = 8


def later(shape: Shape, absence: int, conditions: Sequence[Condition]) -> Condition | None:
    """These conditions on an absent event as one, which is decided when all its variables are known.

    None if a variable is not sure to have an event, or may have it before the forbidden ones and after them.
    """
    gap = shape.gaps[absence]
    left, right = shape.sides(absence)
    roles = {role.name: role for condition in conditions for role in condition.roles[1:]}
    around = shape.above(gap.node)
    if any(isinstance(condition.claim.what, Same) for condition in conditions):
        return None
    if not all(_is_decided_by_one(condition, len(conditions)) for condition in conditions):
        return None
    outer = max((role.scope for role in roles.values() if role.scope in around), key=around.index, default=gap.node)
    ends = max(gap.node, outer, key=around.index)
    if any(map(shape.goes_round, around[1 : around.index(ends) + 1])):
        return None  # the forbidden events of several rounds would have to be told apart
    for role in roles.values():
        one_side = role.leaves <= right or role.leaves <= left
        if role.scope not in around or not (one_side and shape.surely(gap.node, role.leaves)):
            return None
    numbers = {name: k + 1 for k, name in enumerate(roles)}
    operands: list[Operand] = []
    parts: list[Any] = []
    for condition in conditions:
        parts.append(_shifted(condition.predicate, len(operands)))
        names = [role.name for role in condition.roles]
        operands += [o._replace(role=numbers[names[o.role]] if o.role else 0) for o in condition.operands]
    if len(operands) > _MOST_OPERANDS:
        return None
    scoped = [Role(role.name, role.leaves, ends, role.single) for role in roles.values()]
    asked = [condition.asked for condition in conditions]
    return Condition(
        conditions[0].claim,
        -1,
        asked[0] if len(asked) == 1 else t.Conj(tuple(asked)),
        parts[0] if len(parts) == 1 else t.Conj(tuple(parts)),
        tuple(operands),
        (conditions[0].roles[0], *scoped),
        ends=ends,
        denies=absence,
    )


def _is_decided_by_one(condition: Condition, together: int) -> bool:
    """Whether one value of each role decides: its only one, that of an aggregate, or the hardest to satisfy."""
    for k, role in enumerate(condition.roles):
        mine = [operand for operand in condition.operands if operand.role == k]
        if not (role.single or all(operand.fold for operand in mine)) and (together > 1 or not worst(condition, k)):
            return False
    return True


def easiest(condition: Condition) -> str | None:
    """Which of the forbidden events' values satisfies a condition if any does: MAX or MIN; None: all must be known."""
    mine = [n for n, operand in enumerate(condition.operands) if operand.role == 0]
    if len(mine) != 1:
        return None
    found = hardest(condition, mine[0])
    return None if found is None else "MIN" if found is Worst.GREATEST else "MAX"


def _shifted(node: Any, by: int) -> Any:
    """A predicate over operands, with other numbers."""
    if isinstance(node, Read):
        return replace(node, operand=node.operand + by)
    return mapped(node, partial(_shifted, by=by))
