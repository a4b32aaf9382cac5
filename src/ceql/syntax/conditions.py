"""Tells conditions and expressions apart, after FILTER and inside `x[...]`.

In: nodes as the grammar reads them, which cannot tell them apart, since a parenthesis may open either. Out: the same
nodes, checked: an `Expression` where a value belongs, a `Predicate` inside brackets, a `FilterCondition` after FILTER,
where conditions such as `x.name LIKE 'a%'` become `x[name LIKE 'a%']`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ceql.errors import Span
from ceql.syntax.limits import QueryProblem
from ceql.syntax.tree import (
    Arithmetic,
    Attribute,
    Between,
    Bracket,
    Comparison,
    Condition,
    Conj,
    Disj,
    Expression,
    FilterCondition,
    In,
    IsNull,
    Like,
    Literal,
    Minus,
    Neg,
    Predicate,
    Prev,
    Ref,
)


def place(node: Condition | Expression) -> Span:
    assert node.span is not None
    return node.span


def as_expression(node: Condition | Expression) -> Expression:
    match node:
        case Literal() | Attribute() | Ref() | Prev() | Arithmetic() | Minus():
            return node
    raise QueryProblem("A value is needed here, and this is a condition", place(node))


def as_condition(node: Condition | Expression) -> Condition:
    match node:
        case Literal() | Attribute() | Ref() | Prev() | Arithmetic() | Minus():
            raise QueryProblem(
                "A condition is needed here, and this is a value",
                place(node),
                "Compare it with something, as in 'active = TRUE'.",
            )
    return node


def as_predicate(node: Condition) -> Predicate:
    """Checks a condition inside `x[...]`: brackets cannot stand in brackets."""
    match node:
        case Bracket():
            raise QueryProblem(
                f"'{node.name}[...]' cannot stand inside the brackets of another variable",
                place(node),
                f"Write '{node.name}.attribute' to speak of another variable here.",
            )
        case Conj(items) | Disj(items):
            for item in items:
                as_predicate(item)
        case Neg(item):
            as_predicate(item)
    return node


def as_filter(node: Condition) -> FilterCondition:
    """Checks a condition after FILTER: every attribute must name its variable."""
    match node:
        case Bracket():
            return node
        case Conj(items) | Disj(items):
            return replace(node, items=tuple(as_filter(item) for item in items))
        case Neg(item):
            return replace(node, item=as_filter(item))
        case Comparison():
            _names(node)
            return node
    names = _names(node)
    if len(names) != 1:
        raise QueryProblem(
            "This condition must speak of one variable" + (f", not of {' and '.join(names)}" if names else ""),
            place(node),
            "Only comparisons (=, !=, <, <=, >, >=) may relate variables to each other.",
        )
    return Bracket(names[0], _in_brackets(node), span=node.span)


def _names(node: Predicate) -> list[str]:
    """The variables that a condition names, each once, in the order of the text."""
    names: dict[str, None] = {}
    for operand in _operands(node):
        for leaf in _leaves(operand):
            if isinstance(leaf, Attribute):
                raise QueryProblem(
                    f"'{leaf.name}' does not say whose attribute it is",
                    place(leaf),
                    f"Write 'x.{leaf.name}', or the condition inside 'x[...]', with your variable in place of x. "
                    f"A text is written in quotes: '{leaf.name}'.",
                )
            if isinstance(leaf, Ref):
                names[leaf.variable] = None
    return list(names)


def _operands(node: Predicate) -> tuple[Expression, ...]:
    match node:
        case Comparison(_, left, right):
            return left, right
        case Between(operand, low, high):
            return operand, low, high
        case Like(operand) | In(operand) | IsNull(operand):
            return (operand,)
    raise AssertionError(node)


def _leaves(node: Expression) -> Iterator[Expression]:
    match node:
        case Arithmetic(_, left, right):
            yield from _leaves(left)
            yield from _leaves(right)
        case Minus(operand):
            yield from _leaves(operand)
        case _:
            yield node


def _in_brackets(node: Predicate) -> Predicate:
    match node:
        case Between(operand, low, high):
            return replace(node, operand=_bare(operand), low=_bare(low), high=_bare(high))
        case Like(operand) | In(operand) | IsNull(operand):
            return replace(node, operand=_bare(operand))
    raise AssertionError(node)


def _bare(node: Expression) -> Expression:
    """`x.a` as it is written inside `x[...]`."""
    match node:
        case Ref(_, attribute):
            return Attribute(attribute, span=node.span)
        case Arithmetic(_, left, right):
            return replace(node, left=_bare(left), right=_bare(right))
        case Minus(operand):
            return replace(node, operand=_bare(operand))
    return node
