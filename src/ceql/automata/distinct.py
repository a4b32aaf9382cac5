"""Bounds how many different values a condition on COUNT(DISTINCT) can tell apart: more need not be carried.

`COUNT(DISTINCT b.port) >= 3` holds from the third port on, so a partial match carries two ports at the most. From then
on all partial matches are alike to the condition, whatever their ports are, and go on as one group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ceql.analysis.cutting import Condition, Read
from ceql.syntax import tree as t
from ceql.syntax.walking import below, nodes

MANY = 2**31 - 1  # no number is enough


def enough(condition: Condition, operand: int) -> int:
    """The number of different values from which on further ones make no difference to a condition."""
    return min(MANY, max(_limits(condition.predicate, operand), default=MANY))


def _limits(node: Any, operand: int) -> Iterator[int]:
    """Of each place in which a predicate reads an operand: the number from which on nothing changes."""
    match node:
        case t.Conj() | t.Disj() | t.Neg():
            for part in below(node):
                yield from _limits(part, operand)
        case t.Comparison(op, left, t.Literal(value)) if _is(left, operand):
            yield _limit(op, value)
        case t.Comparison(op, t.Literal(value), right) if _is(right, operand):
            yield _limit(t.FLIPPED[op], value)
        case _ if any(_is(part, operand) for part in nodes(node)):
            yield MANY


def _limit(op: str, value: Any) -> int:
    if isinstance(value, bool | str | None):
        return 1
    number = math.ceil(value) if op in ("<", ">=") else math.floor(value) + 1
    return max(1, int(number))


def _is(node: Any, operand: int) -> bool:
    return isinstance(node, Read) and bool(node.operand == operand)
