"""Tells conditions and expressions apart, after FILTER and inside `x[...]`.

In: nodes as the grammar reads them, which cannot tell them apart, since a parenthesis may open either. Out: the same
nodes, checked: an `Expression` where a value belongs, a `Predicate` inside brackets, a `FilterCondition` after FILTER,
where conditions such as `x.name LIKE 'a%'` become `x[name LIKE 'a%']`, and START_TIME, END_TIME and DURATION are told
from attributes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ceql.errors import Span
from ceql.syntax.limits import QueryProblem
from ceql.syntax.tree import (
    Aggregate,
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
    Lapse,
    Like,
    Neg,
    Predicate,
    Ref,
)
from ceql.syntax.walking import leaves, mapped, nodes

N = TypeVar("N", bound=Condition | Expression)
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
    node = mapped(node, _with_lapses)
    names = _names(node)
    if isinstance(node, Comparison) or any(isinstance(part, Aggregate | Lapse) for part in nodes(node)):
        return node
    if len(names) != 1:
        raise QueryProblem(
            "This condition must speak of one variable" + (f", not of {' and '.join(names)}" if names else ""),
            place(node),
            "Only comparisons (=, !=, <, <=, >, >=) may relate variables to each other.",
        )
    return Bracket(names[0], mapped(node, _bare), span=node.span)


def _names(node: Predicate) -> list[str]:
    """The variables that a condition names, each once, in the order of the text."""
    names: dict[str, None] = {}
    for leaf in leaves(node, of_aggregates=False):
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


def _with_lapses(node: Expression) -> Expression:
    match node:
        case Attribute(name) if name.upper() in LAPSES:
            return Lapse(name.upper(), span=node.span)
        case Aggregate():
            return node
    return mapped(node, _with_lapses)


def _bare(node: N) -> N | Attribute:
    """`x.a` as it is written inside `x[...]`."""
    return Attribute(node.attribute, span=node.span) if isinstance(node, Ref) else mapped(node, _bare)
