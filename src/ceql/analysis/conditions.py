"""Filter conditions made simple: NOT stands at the atoms, and a condition on one variable is a bracket.

In: the condition of a FILTER, as parsed. Out: the same condition made of `Conj` and `Disj` over
`Bracket` (one event at a time) and `Comparison` (two variables or more, or PREV: the correlated class), or another
predicate that has an aggregate.
`x.a > 1` becomes `x[a > 1]`. A disjunction over one variable that binds a single event becomes one predicate,
`x[P] OR x[Q]` -> `x[P OR Q]`, so that the formula need not be copied for each case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves, mapped, nodes

Read = t.Ref | t.Prev | t.Attribute
N = TypeVar("N", t.Predicate, t.Expression)


def refs(node: t.Condition | t.Expression) -> list[t.Ref]:
    """Every `variable.attribute` in a condition or expression, in order."""
    return [leaf for leaf in leaves(node) if isinstance(leaf, t.Ref)]


def is_measured(node: t.Condition | t.Expression) -> bool:
    """Whether a condition asks for an aggregate, or for a time of the match."""
    return any(isinstance(part, t.Aggregate | t.Lapse) for part in nodes(node))


def read_singly(node: t.Condition | t.Expression) -> list[Read]:
    """The attributes that a condition or expression reads of one event at a time, outside of aggregates."""
    return leaves(node, of_aggregates=False)


def aggregates(node: object) -> list[t.Aggregate]:
    """The aggregates of a condition."""
    return [part for part in nodes(node) if isinstance(part, t.Aggregate)]


def skips_null(node: t.Condition | t.Expression, of: Callable[[t.Call], bool] = lambda call: True) -> bool:
    """Whether a function (one that `of` tells, if it is given) has a value though an argument is NULL."""
    calls = (part for part in nodes(node) if isinstance(part, t.Call))
    return any(call.function in ("COALESCE", "LEAST", "GREATEST") and of(call) for call in calls)


def is_correlated(condition: t.FilterCondition) -> bool:
    """Whether a simplified condition looks at more than one event."""
    return not isinstance(condition, t.Bracket) or any(
        not isinstance(leaf, t.Attribute) for leaf in leaves(condition.predicate)
    )


def simplify(condition: t.FilterCondition, single: Collection[str], source: str) -> t.FilterCondition:
    """`condition` with NOT at the atoms and one-variable comparisons as brackets.

    `single` names the variables that bind at most one event of the filtered formula.
    """
    match condition:
        case t.Neg(item):
            return simplify(_negate_filter(item), single, source)
        case t.Bracket(name, predicate, span=span):
            return t.Bracket(name, _own(predicate, name), span=span)
        case t.Comparison() | t.Like() | t.In() | t.Between() | t.IsNull():
            return _comparison(condition, source)
        case t.Conj(items):
            return t.Conj(tuple(simplify(i, single, source) for i in items))
        case t.Disj(items):
            flat: list[t.FilterCondition] = []
            for item in items:
                simple = simplify(item, single, source)
                flat.extend(simple.items if isinstance(simple, t.Disj) else [simple])
            return _merge_single(flat, single)


def _merge_single(items: list[t.FilterCondition], single: Collection[str]) -> t.FilterCondition:
    merged: list[t.FilterCondition | None] = []
    cases: dict[str, list[t.Bracket]] = {}
    place: dict[str, int] = {}
    for item in items:
        bracket = _as_bracket(item, single)
        if bracket is None:
            merged.append(item)
            continue
        if bracket.name not in place:
            place[bracket.name] = len(merged)
            merged.append(None)
        cases.setdefault(bracket.name, []).append(bracket)
    for name, brackets in cases.items():
        first = brackets[0]
        either = t.Disj(tuple(bracket.predicate for bracket in brackets)) if len(brackets) > 1 else first.predicate
        merged[place[name]] = replace(first, predicate=either)
    found = tuple(cast(list[t.FilterCondition], merged))
    return found[0] if len(found) == 1 else t.Disj(found)


def _as_bracket(item: t.FilterCondition, single: Collection[str]) -> t.Bracket | None:
    """`item` as one bracket over a variable of `single`, where it is one (a conjunction of such included)."""
    if isinstance(item, t.Bracket):
        return item if item.name in single and not is_correlated(item) else None
    if isinstance(item, t.Conj):
        parts = [_as_bracket(i, single) for i in item.items]
        if all(p is not None and p.name == cast(t.Bracket, parts[0]).name for p in parts):
            brackets = cast(list[t.Bracket], parts)
            return t.Bracket(brackets[0].name, t.Conj(tuple(b.predicate for b in brackets)), span=brackets[0].span)
    return None


def _comparison(condition: t.Predicate, source: str) -> t.FilterCondition:
    found = read_singly(condition)
    for leaf in found:
        if isinstance(leaf, t.Attribute):
            raise QueryError(
                f"'{leaf.name}' does not say whose attribute it is",
                source,
                leaf.span,
                f"Write variable.{leaf.name}, or put the comparison in brackets: x[{leaf.name} ...].",
            )
    names = {leaf.variable for leaf in found if isinstance(leaf, t.Ref)}
    if any(isinstance(leaf, t.Prev) for leaf in found):
        if len(names) == 1 and is_measured(condition):
            return condition
        if len(names) == 1:  # `x.a = PREV.a` is `x[a = PREV.a]`
            name = names.pop()
            return t.Bracket(name, _own(condition, name), span=condition.span)
        which = (
            "an event to precede" if not names else f"one event to precede, not those of {' and '.join(sorted(names))}"
        )
        raise QueryError(f"PREV needs {which}", source, condition.span, "Write the comparison inside x[...].")
    if len(names) == 1 and not is_measured(condition):
        name = names.pop()
        return t.Bracket(name, _own(condition, name), span=condition.span)
    return condition


def _negate_filter(condition: t.FilterCondition) -> t.FilterCondition:
    match condition:
        case t.Neg(item):
            return item
        case t.Conj(items):
            return t.Disj(tuple(t.Neg(i) for i in items))
        case t.Disj(items):
            return t.Conj(tuple(t.Neg(i) for i in items))
        case t.Bracket(name, predicate, span=span):
            return t.Bracket(name, t.Neg(predicate), span=span)
        case t.Comparison(op, left, right, span=span):
            return t.Comparison(t.NEGATED[op], left, right, span=span)
        case t.Like() | t.In() | t.Between() | t.IsNull():
            return replace(condition, negated=not condition.negated)


def variables_of(node: t.Condition | t.Expression) -> set[str]:
    """The variables that a condition or expression reads."""
    return {ref.variable for ref in refs(node)} | {aggregate.variable for aggregate in aggregates(node)}


def named(condition: t.Condition) -> frozenset[str]:
    """The variables that a condition speaks of, those before brackets among them."""
    brackets = {node.name for node in nodes(condition) if isinstance(node, t.Bracket)}
    return frozenset(brackets | variables_of(condition))


def _own(node: N, name: str) -> N:
    """`node` with the references to `name` itself turned into bare attributes."""

    def bare(leaf: Read) -> t.Expression:
        if isinstance(leaf, t.Ref) and leaf.variable == name:
            return t.Attribute(leaf.attribute, span=leaf.span)
        return leaf

    return replaced(node, bare)


def spell_out(node: N, name: str) -> N:
    """`node` with bare attributes turned into those of the variable `name`."""

    def named(leaf: Read) -> t.Expression:
        return t.Ref(name, leaf.name, span=leaf.span) if isinstance(leaf, t.Attribute) else leaf

    return replaced(node, named)


def of_one_event(node: N) -> N:
    """`node`, which reads one event, with bare attributes."""

    def bare(leaf: Read) -> t.Expression:
        return leaf if isinstance(leaf, t.Attribute) else t.Attribute(leaf.attribute, span=leaf.span)

    return replaced(node, bare)


def replaced(node: N, change: Callable[[Read], t.Expression]) -> N:
    """`node` with every attribute that it reads changed."""
    if isinstance(node, t.Ref | t.Prev | t.Attribute):
        return change(node)
    return mapped(node, partial(replaced, change=change))
