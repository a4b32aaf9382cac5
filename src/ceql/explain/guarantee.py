"""Which row of docs/reference.md, section 4 a query belongs to, and why.

In: a plan. Out: the guarantee of the query, and for each construct that compares events the class that it
puts the query into. Such constructs are told from their conditions alone:

- PARTITION BY as an operator or on variables, and PREV in an equality or disequality: chain-CEA;
- equalities of two variables: PCEA if together they are hierarchical (for any two join keys, the sets of variables
  that carry them are nested or disjoint: pcea-hcq-2024, section 3);
- everything else is checked on candidates.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from itertools import combinations
from typing import NamedTuple

from ceql.analysis.classify import Correlation
from ceql.analysis.conditions import leaves, simplify
from ceql.analysis.scopes import bound_once, subformulas
from ceql.errors import QueryError, Span
from ceql.explain.formula import conjuncts
from ceql.plan import Plan
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition


class Guarantee(NamedTuple):
    name: str
    update: str
    enumeration: str


class Class(Enum):
    """The rows of the table, from the strongest guarantee to the weakest."""

    UNARY = Guarantee("no cross-event predicate", "O(1) in the data", "output-linear delay")
    RIVALS = Guarantee(
        "no cross-event predicate, with NEXT, LAST or MAX", "O(1)", "linear in the window's candidate starts"
    )
    CHAIN = Guarantee("chain-CEA", "O(1), O(log w) with a window of w events", "output-linear delay")
    PCEA = Guarantee("PCEA (hierarchical equality joins)", "O(log w)", "output-linear delay")
    CANDIDATES = Guarantee(
        "checked on candidates",
        "O(log w) for the part that fits PCEA; the rest is checked on each candidate",
        "not bounded",
    )


class Construct(NamedTuple):
    """A construct that compares events, where it stands, and what it costs."""

    correlation: Correlation
    line: int
    column: int
    kind: Class
    why: str


def constructs(plan: Plan) -> list[Construct]:
    """Every construct of the query that compares events with each other, in the order of the text."""
    conditions = _conditions(plan)
    hierarchical = _is_hierarchical(list(conditions.values()))
    found = []
    for correlation in plan.correlations:
        condition = conditions.get(correlation.span)
        kind, why = (
            (Class.CHAIN, "events with equal keys") if condition is None else _of_condition(condition, hierarchical)
        )
        place = QueryError("", plan.source, correlation.span)
        found.append(Construct(correlation, place.line or 1, place.column or 1, kind, why))
    return found


def query_class(plan: Plan) -> Class:
    """The weakest class of all that the query contains."""
    order = list(Class)
    kinds = [c.kind for c in constructs(plan)]
    kinds.append(Class.UNARY if plan.rivalry is None else Class.RIVALS)
    return max(kinds, key=order.index)


def _conditions(plan: Plan) -> dict[Span | None, t.Condition]:
    """The atoms of all filters, by their place: what `classify.correlations` looked at."""
    found: dict[Span | None, t.Condition] = {}

    def walk(condition: t.Condition) -> None:
        match condition:
            case t.Conj(items) | t.Disj(items):
                for item in items:
                    walk(item)
            case t.Neg(item):
                walk(item)
            case _:
                found[condition.span] = condition

    for formula in subformulas(plan.query.formula):
        if isinstance(formula, t.Filter):
            walk(simplify(formula.condition, bound_once(formula.formula), plan.source))
    return found


def _of_condition(condition: t.Condition, hierarchical: bool) -> tuple[Class, str]:
    parts = [c for c in _atoms(condition) if any(not isinstance(leaf, t.Attribute) for leaf in leaves(c))]
    judged = [_of_atom(part, hierarchical) for part in parts]
    return max(judged, key=lambda one: list(Class).index(one[0]))


def _of_atom(atom: t.Condition, hierarchical: bool) -> tuple[Class, str]:
    text = print_condition(atom)
    sides = _sides(atom)
    if any(isinstance(leaf, t.Prev) for leaf in leaves(atom)):
        if sides is not None and isinstance(atom, t.Comparison) and atom.op in ("=", "!="):
            return Class.CHAIN, f"'{text}' is an equality or disequality with the previous event"
        return Class.CANDIDATES, f"'{text}' is neither an equality nor a disequality of attributes"
    if sides is None or not isinstance(atom, t.Comparison) or atom.op != "=":
        return Class.CANDIDATES, f"'{text}' is not an equality of two attributes"
    if not hierarchical:
        return Class.CANDIDATES, f"'{text}' is part of a join that is not hierarchical"
    return Class.PCEA, f"'{text}' is an equality, and the equalities are hierarchical"


def _sides(atom: t.Condition) -> tuple[t.Expression, t.Expression] | None:
    """The two sides of a comparison of bare attributes."""
    if isinstance(atom, t.Comparison) and all(
        isinstance(side, t.Attribute | t.Ref | t.Prev) for side in (atom.left, atom.right)
    ):
        return atom.left, atom.right
    return None


def _atoms(condition: t.Condition) -> list[t.Condition]:
    match condition:
        case t.Bracket(_, predicate):
            return _atoms(predicate)
        case t.Conj(items) | t.Disj(items):
            return [atom for item in items for atom in _atoms(item)]
        case t.Neg(t.Comparison("=" | "!=" as op) as item):
            return [replace(item, op="!=" if op == "=" else "=")]
        case t.Neg(item):
            return _atoms(item)
        case _:
            return [condition]


def _is_hierarchical(conditions: list[t.Condition]) -> bool:
    """Whether the join keys (attributes that equalities make one) are carried by nested or disjoint variables."""
    key: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for condition in conditions:
        own = condition.name if isinstance(condition, t.Bracket) else ""
        for atom in conjuncts(condition.predicate if isinstance(condition, t.Bracket) else condition):
            sides = _sides(atom)
            if sides is None or not isinstance(atom, t.Comparison) or atom.op != "=":
                continue
            names = [_name(side, own) for side in sides]
            if None in names:
                continue
            merged: set[tuple[str, str]] = set()
            for name in names:
                assert name is not None
                merged |= key.get(name, {name})
            for name in merged:
                key[name] = merged
    carriers = {frozenset(variable for variable, _ in joined) for joined in key.values()}
    return all(a <= b or b <= a or a.isdisjoint(b) for a, b in combinations(carriers, 2))


def _name(side: t.Expression, own: str) -> tuple[str, str] | None:
    match side:
        case t.Ref(variable, attribute):
            return variable, attribute
        case t.Attribute(name):
            return own, name
        case _:
            return None
