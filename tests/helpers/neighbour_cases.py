"""Random cases that compare events which `:` joins, or nearly so (`ceql.analysis.neighbours`)."""

from __future__ import annotations

from hypothesis import strategies as st

import generators
import oracle
from ceql.syntax import tree
from ceql.syntax.parser import parse
from generators import Draw, Generated, one_in

FORMULAS = [
    "A AS x : A AS y",
    "A AS x : B AS y",
    "A AS x : (A OR B) AS y",
    "(A OR B) AS x : (A OR B) AS y",
    "A AS x : A AS y : A AS z",
    "A AS x : B : (A OR B) AS y",
    "(A AS x OR B AS y) : (A AS y OR B AS x)",
    "A AS x : B? : A AS y",
    "A AS x : A:+ AS y",
    "A:+ AS x : B AS y",
    "A:{2} AS x : A AS y",
    "(A AS x : A AS y):+",
    "(A AS x : B AS y)+",
    "A AS x : B:+ AS y : A:+ AS z",
    "B ; A AS x : A AS y",
    "A AS x : A AS y ; B AS z",
    "NOT B ; A AS x : A AS y",
    "(A AS x : A AS y) ALL B",
    "(A AS x : B AS y) OR (B AS x : A AS y)",
    "A AS x : (B AS y OR (A : B AS y))",
    "A:* : A AS x : B AS y",
    "A:+ AS x",
    "(A OR B):+ AS x",
]
OPERATORS = ["<", "<=", ">", ">=", "=", "!="]


@st.composite
def neighbour_cases(draw: Draw, named: bool = False) -> Generated:
    """Events in a row that are compared with each other, by PREV or by their variables."""
    formula = parse(f"SELECT * WHERE {draw(st.sampled_from(FORMULAS))}").formula
    names = [name for name in ("x", "y", "z") if name in oracle.variables(formula)]

    def compared() -> tree.FilterCondition:
        one, other = draw(st.sampled_from(generators.ORDERED))
        operator = draw(st.sampled_from(OPERATORS))
        name = draw(st.sampled_from(names))
        if len(names) < 2 or one_in(draw, 3):
            left, right = tree.Attribute(one), tree.Prev(other)
            predicate: tree.Predicate = tree.Comparison(operator, left, right)
            if one_in(draw, 3):
                predicate = tree.Disj((predicate, tree.IsNull(tree.Prev(other))))
            return tree.Bracket(name, predicate)
        rest = draw(st.sampled_from([n for n in names if n != name]))
        left_side: tree.Expression = tree.Ref(name, one)
        right_side: tree.Expression = tree.Ref(rest, other)
        if one == other == "v" and one_in(draw, 4):
            left_side, right_side = tree.Arithmetic("-", left_side, right_side), tree.Literal(draw(st.integers(-1, 1)))
        comparison = tree.Comparison(operator, left_side, right_side)
        return tree.Neg(comparison) if one_in(draw, 6) else comparison

    conditions = [compared() for _ in range(draw(st.sampled_from([1, 1, 2])))]
    if one_in(draw, 4):
        conditions.append(generators.condition(draw, [draw(st.sampled_from(names))]))
    if len(conditions) > 1 and one_in(draw, 4):
        formula = tree.Filter(formula, tree.Disj(tuple(conditions)))
    else:
        formula = tree.Filter(formula, conditions[0] if len(conditions) == 1 else tree.Conj(tuple(conditions)))
    if one_in(draw, 8):
        formula = tree.Then((formula, tree.Event("B")), (draw(st.sampled_from([tree.Joint.THEN, tree.Joint.TOUCH])),))
    partition = () if one_in(draw, 2) else (tree.Part((tree.PartRef("k"),)),)
    query = generators.query_of(draw, formula, partition, named, generators.windows_from(2))
    return Generated(query, draw(generators.likely_streams(formula, 10, named, generators.CLOSE)))
