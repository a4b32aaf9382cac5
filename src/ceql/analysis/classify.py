"""Which constructs of a query compare events with each other, and so its class (docs/reference.md, section 4)."""

from __future__ import annotations

from typing import NamedTuple, cast

from ceql.analysis.conditions import is_correlated, leaves, simplify
from ceql.analysis.scopes import bound_once, subformulas, types
from ceql.errors import Span
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition


class Correlation(NamedTuple):
    """A construct that looks at more than one event at a time."""

    construct: str
    span: Span | None


def correlations(query: t.Query, source: str) -> list[Correlation]:
    """Every such construct, in the order of the text."""
    found: list[Correlation] = []
    for formula in subformulas(query.formula):
        match formula:
            case t.PartitionBy():
                found.append(Correlation("the PARTITION BY operator", formula.span))
            case t.Filter(inner, condition):
                found += _in_condition(simplify(condition, bound_once(inner), source))
    kinds = types(query.formula)
    for part in query.partition:
        for ref in part.refs:
            if ref.name is not None and ref.name not in kinds:
                found.append(Correlation(f"PARTITION BY on the variable '{ref.name}'", ref.span or part.span))
    return sorted(found, key=lambda c: c.span or Span(0, 0))


def _in_condition(condition: t.Condition) -> list[Correlation]:
    match condition:
        case t.Conj(items) | t.Disj(items):
            return [c for item in items for c in _in_condition(item)]
        case t.Bracket() | t.Comparison() if is_correlated(condition):
            read = leaves(condition)
            if any(isinstance(leaf, t.Prev) for leaf in read):
                return [Correlation(f"PREV in '{print_condition(condition)}'", condition.span)]
            if not read:
                return []
            return [Correlation(f"the comparison '{print_condition(condition)}' of two variables", condition.span)]
        case t.Bracket() | t.Comparison():
            return []
        case _:
            return list(_in_condition(cast(t.Neg, condition).item))
