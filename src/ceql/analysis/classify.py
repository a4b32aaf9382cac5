"""Tells queries that compare events with each other from those that look at one event at a time."""

from __future__ import annotations

from ceql.analysis.conditions import is_correlated, is_measured, simplify
from ceql.analysis.scopes import bound_once, forbids, subformulas, types
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves


def compares_events(query: t.Query, source: str) -> bool:
    """Whether some filter, PARTITION BY operator or clause looks at more than one event at a time.

    `QueryError` where a filter does not say whose attributes it reads.
    """
    formulas = list(subformulas(query.formula))
    conditions = [
        simplify(f.condition, bound_once(f.formula) | forbids(f.formula), source)
        for f in formulas
        if isinstance(f, t.Filter)
    ]
    named = {ref.name for part in query.partition for ref in part.refs if ref.name is not None}
    return (
        any(isinstance(formula, t.PartitionBy | t.Within) for formula in formulas)
        or any(map(_in_condition, conditions))
        or not named <= types(query.formula)
    )


def _in_condition(condition: t.Condition) -> bool:
    match condition:
        case t.Conj(items) | t.Disj(items):
            return any(map(_in_condition, items))
        case t.Neg(item):
            return _in_condition(item)
        case _:
            return is_measured(condition) or (is_correlated(condition) and bool(leaves(condition)))
