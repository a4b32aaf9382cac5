"""Lists the terms of events that conditions carry or compare, and in which form."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ceql.analysis.between import ORDERED
from ceql.analysis.cutting import Condition, Operand, Read
from ceql.syntax import tree as t

_OWN = ("", "MIN", "MAX", "FIRST", "LAST")  # folds whose value is that of an event


class Use(Enum):
    """How an operand's values are used: as numbers of equal values, by order, by order under an aggregate (where NaN is
    no NULL), in arithmetic, there also for IS NULL or under an aggregate (the same), as a truth value, as they are."""

    NUMBER = "number"
    ORDER = "order"
    RANGE = "range"
    VALUE = "value"
    NULLABLE = "nullable"
    TRUTH = "truth"
    LISTED = "listed"


class Term(NamedTuple):
    """An expression over one event whose values are carried or compared with what is carried."""

    what: t.Expression | t.Predicate
    use: Use
    partner: t.Expression | t.Predicate | None = None
    """What it is compared with by order: both have one encoding."""


def uses(condition: Condition) -> list[tuple[Use, int | None]]:
    """How each operand is used, and which other it is compared with by order."""
    operands = condition.operands
    found: list[tuple[Use, int | None]] = [(Use.TRUTH, None)] * len(operands)

    def visit(node: object) -> None:
        match node:
            case t.Conj(items) | t.Disj(items):
                for item in items:
                    visit(item)
            case t.Neg(item):
                visit(item)
            case t.Comparison(op, left, right):
                one, two = _operand(left), _operand(right)
                if one is None or two is None or one == two:
                    values([left, right], Use.VALUE)
                elif operands[one].fold or operands[two].fold:
                    if operands[one].fold in _OWN and operands[two].fold in _OWN:
                        use(one, _in_order(operands[one]), two)
                        use(two, _in_order(operands[two]), one)
                    else:
                        values([left, right], Use.VALUE)
                elif op in ORDERED:
                    use(one, Use.ORDER, two)
                    use(two, Use.ORDER, one)
                else:
                    use(one, Use.NUMBER, two)
                    use(two, Use.NUMBER, one)
            case t.IsNull(operand):
                values([operand], Use.NULLABLE)

    def values(nodes: Iterable[object], how: Use) -> None:
        for node in nodes:
            match node:
                case t.Arithmetic(_, left, right):
                    values([left, right], how)
                case t.Minus(inner):
                    values([inner], how)
                case t.Call(_, arguments):
                    values(arguments, Use.NULLABLE)
                case _ if (k := _operand(node)) is not None:
                    if operands[k].fold == "DISTINCT":
                        use(k, Use.RANGE, k)  # the words of equal values are equal
                    else:
                        use(k, _added(operands[k]) if operands[k].fold else how, None)

    def use(k: int, how: Use, other: int | None) -> None:
        found[k] = (how, other)

    visit(condition.predicate)
    return found


def _in_order(operand: Operand) -> Use:
    return Use.RANGE if operand.fold else Use.ORDER


def _added(operand: Operand) -> Use:
    """How the values are used that an aggregate in arithmetic is over."""
    if operand.fold == "COUNT":
        return Use.VALUE if isinstance(operand.what, t.Literal) else Use.TRUTH
    return Use.NULLABLE


def _operand(node: object) -> int | None:
    return node.operand if isinstance(node, Read) and not node.truth else None
