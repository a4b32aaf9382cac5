"""Brings conditions that mean the same, spelt in different ways, to one form.

In: the tree of a query. Out: the same query, whose plan, state and fingerprint do not depend on these spellings:

- a constant stands on the right: `5 > v` is `v < 5`;
- a number that a value is compared with is whole if it can be: `v < 5.0` is `v < 5`;
- the parts of an AND come in the order of their texts.

This is done before anything is planned, not in the fingerprint alone, since the arrays of a state are laid out in the
order in which the plan meets conditions. Two spellings that share a fingerprint must share the layout. What is
calculated with is left as it is: `v * 2.0` is not of the type of `v * 2`. So is what SELECT computes.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition
from ceql.syntax.walking import leaves, mapped

_EXACT = 1 << 53  # below, whole numbers and floats are compared alike


def one_form(query: t.Query) -> t.Query:
    """The query with its conditions in one form.

    >>> from ceql.syntax.parser import parse
    >>> from ceql.syntax.printer import print_query
    >>> print(print_query(one_form(parse("SELECT * WHERE A FILTER A[5.0 > v AND s IN {2.0..3.5}] AND 1 = A.k"))))
    SELECT *
    WHERE A
      FILTER A.k = 1 AND A[s IN {2..3.5} AND v < 5]
    """
    formula: t.Formula = _formed(query.formula)
    return replace(query, formula=formula)


def _formed(node: Any) -> Any:
    match node:
        case t.Conj(items):
            return replace(node, items=tuple(sorted(map(_formed, items), key=print_condition)))
        case t.Comparison(op, left, right):
            left, right = _whole(left), _whole(right)
            if _is_constant(left) and not _is_constant(right):
                op, left, right = t.FLIPPED[op], right, left
            return replace(node, op=op, left=left, right=right)
        case t.Between(_, low, high):
            return replace(node, low=_whole(low), high=_whole(high))
        case t.In(_, items):
            return replace(node, items=tuple(map(_whole, items)))
        case _:
            return mapped(node, _formed)


def _is_constant(node: t.Expression) -> bool:
    aggregates = isinstance(node, t.Aggregate | t.Lapse)
    return not aggregates and not leaves(node)


def _whole(node: Any) -> Any:
    """A number without a fraction as an int, where that makes no difference."""
    match node:
        case t.Literal(Decimal() as value) if abs(value) < _EXACT and value == int(value):
            return replace(node, value=int(value))
        case t.Interval(low, high):
            return replace(node, low=_whole(low), high=_whole(high))
        case _:
            return node
