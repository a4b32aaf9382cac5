"""Random cases with NOT: those of `generators`, with absent events put between, before and after those of the formula.

Half of the absent events have conditions: on themselves, or compared with events of the match before or after them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import strategies as st

import generators
import oracle
from ceql.errors import QueryError
from ceql.syntax import tree
from ceql.syntax.absence import trailing
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query
from generators import Draw, Generated, one_in

NAMES = ["n", "m"]


@st.composite
def absent_cases(draw: Draw, named: bool = False, after: bool = True, waits: bool = False) -> Generated:
    """A case with one or two NOTs; `after`: also at the end; `waits`: at the end in any case, with a strategy."""
    kinds = [
        generators.uncorrelated_cases, generators.conditioned_cases, generators.correlated_cases,
        generators.aggregated_cases,
    ]  # fmt: skip
    case: Generated = draw(draw(st.sampled_from(kinds))(named))
    query = case.query
    formula = query.formula
    types = sorted({event["type"] for event in case.events} | oracle.event_types(formula))
    for name in NAMES[: draw(st.sampled_from([1, 1, 1, 2]))]:
        absent = not_of(draw, types, named, name)
        where = places(formula, after)
        at_end = waits and not trailing(formula)
        inserted = (where[-1] if at_end else draw(st.sampled_from(where)))(absent)
        if draw(st.booleans()):
            inserted = tree.Filter(inserted, demand(draw, absent, inserted))
        formula = inserted
    query = replace(query, formula=formula)
    if trailing(formula):
        windows = [tree.EventsWindow(draw(st.integers(0, 6))), tree.TimeWindow(draw(st.integers(1, 8)) * 1_000_000)]
        query = replace(query, window=draw(st.sampled_from(windows)), consume=tree.Consume.NONE)
    if waits:
        chosen = [tree.Strategy.NEXT, tree.Strategy.LAST, tree.Strategy.MAX, tree.Strategy.ANY, tree.Strategy.STRICT]
        query = replace(query, strategy=draw(st.sampled_from(chosen)))
    # a selected type may be absent now, and all that stands on one side of NOT may be missing
    for one in (query, replace(query, items=None), case.query):
        try:
            return Generated(parse(print_query(one)), case.events)
        except QueryError:
            continue
    raise AssertionError(case)


def not_of(draw: Draw, types: list[str], named: bool, name: str) -> tree.Not:
    stream = draw(st.sampled_from([None, None, *generators.STREAMS])) if named else None
    event = tree.Event(draw(st.sampled_from(types)), stream)
    if one_in(draw, 5):
        return tree.Not(tree.Or((event, tree.Event(draw(st.sampled_from(types))))), name)
    return tree.Not(event, name)


Insert = Callable[[tree.Not], tree.Formula]


def places(formula: tree.Formula, after: bool) -> list[Insert]:
    """The ways to put a NOT into a formula."""
    found: list[Insert] = []
    for node in generators.subformulas(formula):
        if isinstance(node, tree.Then):
            for k, joint in enumerate(node.joints):
                if joint is not tree.Joint.TOUCH:
                    found.append(partial(_inserted, formula, node, k))
    found += [found[0]] if found else []
    found.append(lambda absent: tree.Then((absent, *_items(formula)), (tree.Joint.THEN, *_joints(formula))))
    if after:
        found.append(lambda absent: tree.Then((*_items(formula), absent), (*_joints(formula), tree.Joint.THEN)))
    return found


def _inserted(formula: tree.Formula, node: tree.Formula, k: int, absent: tree.Not) -> tree.Formula:
    return generators.wrapped(formula, node, between(absent, k))


def between(absent: tree.Not, k: int) -> Callable[[tree.Formula], tree.Formula]:
    """Puts a NOT between items k and k + 1 of a sequence."""

    def insert(node: tree.Formula) -> tree.Formula:
        assert isinstance(node, tree.Then)
        items = (*node.items[: k + 1], absent, *node.items[k + 1 :])
        return tree.Then(items, (*node.joints[: k + 1], *node.joints[k:]))

    return insert


def _items(formula: tree.Formula) -> tuple[tree.Formula, ...]:
    return formula.items if isinstance(formula, tree.Then) else (formula,)


def _joints(formula: tree.Formula) -> tuple[tree.Joint, ...]:
    return formula.joints if isinstance(formula, tree.Then) else ()


def demand(draw: Draw, absent: tree.Not, formula: tree.Formula) -> tree.FilterCondition:
    """A condition on the absent event."""
    name = str(absent.variable)
    if one_in(draw, 3):
        return generators.condition(draw, [name])
    others = sorted(oracle.variables(formula))
    left, right = draw(st.sampled_from(generators.COMPARABLE + generators.ORDERED))
    mine, other = tree.Ref(name, left), tree.Ref(draw(st.sampled_from(others)), right)
    condition: tree.FilterCondition = tree.Comparison(draw(st.sampled_from(generators.COMPARISONS)), mine, other)
    if one_in(draw, 3):
        extra = generators.condition(draw, [name, draw(st.sampled_from(others))], 0)
        condition = generators.joined(draw(st.sampled_from([tree.Conj, tree.Disj])), (condition, extra))
    return tree.Neg(condition) if one_in(draw, 8) else condition


FORMULAS = [
    "A AS x ; NOT B AS n ; C AS y",
    "A+ ; A AS x ; NOT B AS n ; C AS y",
    "(A AS x ; NOT B AS n ; C AS y)+",
    "A AS x ; NOT (B OR C) AS n ; C ; C AS y",
    "A AS x ; NOT B AS n ; (C OR B) AS y",
    "C ; A AS x ; NOT B AS n ; C+ ; C AS y",
    "A AS x ; NOT A AS n ; NOT B AS m ; C AS y",
]


@st.composite
def later_cases(draw: Draw) -> Generated:
    """Absent events that are compared with what comes after them, and perhaps with what came before."""
    text = draw(st.sampled_from(FORMULAS))
    formula = parse(f"SELECT * WHERE {text}").formula
    present = parse("SELECT * WHERE " + re.sub(r"NOT (.*?) AS [nm]", r"(\1)?", text)).formula

    def compared(name: str, others: list[str]) -> tree.Comparison:
        left, right = draw(st.sampled_from(generators.COMPARABLE + generators.ORDERED))
        op = draw(st.sampled_from(generators.COMPARISONS))
        return tree.Comparison(op, tree.Ref(name, left), tree.Ref(draw(st.sampled_from(others)), right))

    conditions: list[tree.FilterCondition] = [compared("n", ["y"])]
    conditions += [compared("n", ["x", "y"]) for _ in range(draw(st.sampled_from([0, 0, 1])))]
    conditions += [compared("m", ["y"])] if "m" in oracle.absent_names(formula) else []
    conditions += [compared("x", ["y"])] if one_in(draw, 4) else []
    condition = conditions[0] if len(conditions) == 1 else tree.Conj(tuple(conditions))
    formula = tree.Filter(formula, condition)
    partition = (tree.Part((tree.PartRef("k"),)),) if one_in(draw, 4) else ()
    query = generators.query_of(draw, formula, partition, False)
    events = draw(generators.likely_streams(present, 8, False, generators.CLOSE))
    for one in (query, replace(query, items=None)):
        try:
            return Generated(parse(print_query(one)), events)
        except QueryError:  # what is selected is absent
            continue
    raise AssertionError(query)
