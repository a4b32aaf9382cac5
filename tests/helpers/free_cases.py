"""Random cases with events between others that no condition asks for, inside a window (`ceql.automata.free_events`)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

import generators
import oracle
from ceql.syntax import tree
from ceql.syntax.parser import parse
from generators import Draw, Generated, one_in

FORMULAS = [
    "A AS x ; B ; C AS y",
    "A AS x ; B ; A AS y",
    "A AS x ; A ; A AS y",
    "A AS x ; (B OR C) ; A AS y",
    "A AS x ; B ; (A OR C) AS y",
    "B ; A AS x ; B ; A AS y",
    "A+ ; A AS x ; B ; A AS y",
    "A AS x ; B ; A AS y ; B",
    "A AS x ; B ; A AS y ; B ; A AS z",
    "A AS x ; B ; A AS y ; B ; A ; A AS z",
    "A AS x ; B ; A+ AS y",
    "A AS x ; B ; C AS y ; A ; B AS z",
    "(A AS x ; B ; A AS y)+",
    "(A AS x ; B ; A AS y) OR (B AS x ; A ; B AS y)",
    "(A AS x ; B ; A AS y) ALL C",
]
EQUAL = [("k", "k"), ("v", "v"), ("k", "v")]
ORDER = ["<", "<=", ">", ">="]


@st.composite
def free_cases(draw: Draw, named: bool = False) -> Generated:
    """A sequence whose first and last events are compared: by a key, in order, or both."""
    formula = parse(f"SELECT * WHERE {draw(st.sampled_from(FORMULAS))}").formula

    def equal(left: str, right: str) -> tree.FilterCondition:
        one, other = draw(st.sampled_from(EQUAL))
        return tree.Comparison("=", tree.Ref(left, one), tree.Ref(right, other))

    def ordered(left: str, right: str) -> tree.FilterCondition:
        one, other = draw(st.sampled_from(generators.ORDERED))
        return tree.Comparison(draw(st.sampled_from(ORDER)), tree.Ref(left, one), tree.Ref(right, other))

    kind = draw(st.sampled_from(["key", "order", "both", "both"]))
    conditions = [equal("x", "y")] if kind != "order" else []
    conditions += [ordered("x", "y")] if kind != "key" else []
    names = oracle.variables(formula)
    if "z" in names:
        conditions.append(draw(st.sampled_from([equal, ordered]))(draw(st.sampled_from(["x", "y"])), "z"))
    if one_in(draw, 5):
        conditions.append(
            generators.condition(draw, [draw(st.sampled_from(["x", "y", "B"] if "B" in names else ["x"]))])
        )
    formula = tree.Filter(formula, conditions[0] if len(conditions) == 1 else tree.Conj(tuple(conditions)))
    partition = (tree.Part((tree.PartRef("k"),)),) if one_in(draw, 5) else ()
    windows = generators.windows_from(3)
    query = generators.query_of(draw, formula, partition, named, windows)
    if query.window is None and not one_in(draw, 10):
        query = replace(query, window=tree.EventsWindow(draw(st.integers(3, 12))))
    longest = 9 if "+" in str(formula) else 13
    return Generated(query, draw(generators.likely_streams(formula, longest, named, generators.CLOSE)))
