"""Tells conditions and expressions apart, after FILTER and inside `x[...]`.

In: nodes as the grammar reads them, which cannot tell them apart, since a parenthesis may open either. Out: the same
nodes, checked: an `Expression` where a value belongs, a `Predicate` inside brackets, a `FilterCondition` after FILTER,
where conditions such as `x.name LIKE 'a%'` become `x[name LIKE 'a%']`, and START_TIME, END_TIME and DURATION are told
from attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ceql.errors import Span
from ceql.syntax.limits import QueryProblem, nodes
from ceql.syntax.tree import (
    Aggregate,
    Arithmetic,
    Attribute,
    Between,
    Bracket,
    Call,
    Comparison,
    Condition,
    Conj,
    Disj,
    Expression,
    FilterCondition,
    In,
    IsNull,
    Lapse,
    Like,
    Minus,
    Neg,
    Predicate,
    Ref,
)

LAPSES = ("START_TIME", "END_TIME", "DURATION")


def place(node: Condition | Expression) -> Span:
    assert node.span is not None
    return node.span


def as_expression(node: Condition | Expression) -> Expression:
    match node:
        case Comparison() | Like() | In() | Between() | IsNull() | Bracket() | Conj() | Disj() | Neg():
            raise QueryProblem("A value is needed here, and this is a condition", place(node))
    return node


def as_condition(node: Condition | Expression) -> Condition:
    match node:
        case Comparison() | Like() | In() | Between() | IsNull() | Bracket() | Conj() | Disj() | Neg():
            return node
    raise QueryProblem(
        "A condition is needed here, and this is a value",
        place(node),
        "Compare it with something, as in 'active = TRUE'.",
    )


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
            node = replace(node, left=_with_lapses(node.left), right=_with_lapses(node.right))
        case Between():
            low, high = _with_lapses(node.low), _with_lapses(node.high)
            node = replace(node, operand=_with_lapses(node.operand), low=low, high=high)
        case _:
            node = replace(node, operand=_with_lapses(node.operand))
    names = _names(node)
    if isinstance(node, Comparison) or any(isinstance(part, Aggregate | Lapse) for part in nodes(node)):
        return node
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
        case Call(_, arguments):
            for argument in arguments:
                yield from _leaves(argument)
        case _:
            yield node


def _with_lapses(node: Expression) -> Expression:
    def lapse(leaf: Expression) -> Expression:
        if isinstance(leaf, Attribute) and leaf.name.upper() in LAPSES:
            return Lapse(leaf.name.upper(), span=leaf.span)
        return leaf

    return _mapped(node, lapse)


def _in_brackets(node: Predicate) -> Predicate:
    match node:
        case Between(operand, low, high):
            return replace(node, operand=_bare(operand), low=_bare(low), high=_bare(high))
        case Like(operand) | In(operand) | IsNull(operand):
            return replace(node, operand=_bare(operand))
    raise AssertionError(node)


def _bare(node: Expression) -> Expression:
    """`x.a` as it is written inside `x[...]`."""
    return _mapped(node, lambda leaf: Attribute(leaf.attribute, span=leaf.span) if isinstance(leaf, Ref) else leaf)


def _mapped(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """An expression with what it is made of changed."""
    match node:
        case Arithmetic(_, left, right):
            return replace(node, left=_mapped(left, change), right=_mapped(right, change))
        case Minus(operand):
            return replace(node, operand=_mapped(operand, change))
        case Call(_, arguments):
            return replace(node, arguments=tuple(_mapped(argument, change) for argument in arguments))
    return change(node)
