"""Comparisons of differences, with each event on a side of its own.

`c.time - a.time <= 5 MINUTES` is `c.time <= a.time + 5 MINUTES`: two operands, by whose order groups are found. A
difference that is compared with a duration is one of times, where this changes nothing. `ABS(x) < y` is
`x < y AND x > -y`, whatever x and y are.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from ceql.syntax import tree as t

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def separated(node: t.Comparison, mixed: Callable[[t.Expression], bool]) -> t.Predicate:
    """The same comparison, a step nearer to sides of one event each; `node` itself if it cannot be nearer.

    `mixed` tells which expressions read several events.

    >>> from ceql.syntax.parser import parse_formula
    >>> from ceql.syntax.printer import print_condition
    >>> for text in ("c.t - a.t <= 5 MINUTES", "ABS(c.t - a.t) < 1 HOUR"):
    ...     print(print_condition(separated(parse_formula(f"A FILTER {text}").condition, lambda part: True)))
    c.t <= a.t + 5 MINUTES
    c.t - a.t < 1 HOUR AND c.t - a.t > -1 HOUR
    """
    left, right, op = node.left, node.right, node.op
    match left, right:
        case (t.Duration(), _) if not isinstance(right, t.Duration):
            return separated(t.Comparison(_FLIPPED[op], right, left, span=node.span), mixed)
        case (_, t.Call("ABS")) if mixed(right) and not (isinstance(left, t.Call) and left.function == "ABS"):
            return separated(t.Comparison(_FLIPPED[op], right, left, span=node.span), mixed)
        case t.Call("ABS", (inner,)), _ if mixed(inner):
            return _without_abs(node, inner, right)
        case t.Arithmetic("-", a, b), t.Duration() if mixed(left):
            return t.Comparison(op, a, t.Arithmetic("+", b, right, span=b.span), span=node.span)
        case t.Arithmetic("+", a, b), t.Duration() if mixed(left):
            return t.Comparison(op, a, t.Arithmetic("-", right, b, span=b.span), span=node.span)
    return node


def _without_abs(node: t.Comparison, inner: t.Expression, other: t.Expression) -> t.Predicate:
    def compare(op: str, right: t.Expression) -> t.Comparison:
        return t.Comparison(op, inner, right, span=node.span)

    below = _negative(other)
    match node.op:
        case "<" | "<=":
            return t.Conj((compare(node.op, other), compare(_FLIPPED[node.op], below)), span=node.span)
        case ">" | ">=":
            return t.Disj((compare(node.op, other), compare(_FLIPPED[node.op], below)), span=node.span)
    zero = t.Duration(0) if isinstance(other, t.Duration) else t.Literal(0)
    positive = t.Comparison(">=", other, zero, span=node.span)
    equal = t.Conj((t.Disj((compare("=", other), compare("=", below))), positive), span=node.span)
    return equal if node.op == "=" else t.Neg(equal, span=node.span)


def _negative(node: t.Expression) -> t.Expression:
    match node:
        case t.Literal(int() | Decimal() as value) if not isinstance(value, bool):
            return t.Literal(-value if isinstance(value, int) else value.copy_negate(), span=node.span)
        case t.Duration(length):
            return t.Duration(-length, span=node.span)
    return t.Minus(node, span=node.span)
