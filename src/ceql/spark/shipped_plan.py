"""The plan that tasks run: the query as its text compiles, over shipped columns (see `task_spec`).

The automata are those of the query; keys, the window's attribute and the attributes that are compared between events
have the names of shipped columns. Guards keep the user's names: most of them are decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ceql.analysis.conditions import replaced
from ceql.analysis.cutting import Condition
from ceql.analysis.lengths import bound_name, is_hidden, key_name
from ceql.analysis.shape import Claim, Either, Length, Same, Test
from ceql.automata.correlated import Correlated
from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.recognition.measures import renamed
from ceql.syntax import tree as t

WINDOW = "window"


@lru_cache(maxsize=16)
def shipped_plan(
    text: str, keys: tuple[str, ...], names: tuple[tuple[str, str], ...], measured_by: str = WINDOW
) -> Plan:
    """The plan of a query over shipped columns, kept for the tasks that a worker runs one after another.

    `keys` are the columns of keys, those that the result shows first. `names` are the attributes that are compared
    between events, each with its shipped column. `measured_by` is that of a window's attribute.
    """
    plan = make_plan(text)
    window = plan.query.window
    if isinstance(window, t.AttributeWindow):
        window = replace(window, attribute=measured_by)
    parts, shown = tuple(map(_part, keys)), len(plan.shown_keys)
    return replace(
        plan,
        query=renamed(replace(plan.query, window=window, streams=()), dict(names)),
        shown_keys=parts[:shown],
        split_by=parts[shown:],
        automaton=_renamed(plan.automaton, dict(names)),
        running=_renamed(plan.running, dict(names)),
    )


def _part(column: str) -> t.Part:
    return t.Part((t.PartRef(column),))


def _changed(node: t.Expression | t.Predicate, change: Callable[[Any], t.Expression]) -> Any:
    return replaced(node, change)  # type: ignore[type-var]


def _over(window: t.AttributeWindow, names: Mapping[str, str]) -> t.AttributeWindow:
    return replace(window, attribute=names[window.attribute])


def _renamed(auto: Correlated, names: Mapping[str, str]) -> Correlated:
    """The automaton, its attributes under other names."""

    def change(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        if isinstance(leaf, t.Attribute):
            return replace(leaf, name=shipped(leaf.name))
        return replace(leaf, attribute=shipped(leaf.attribute))

    asked = auto.carrying.conditions if auto.carrying is not None else ()
    windows = [one.claim.what.window for one in asked if isinstance(one.claim.what, Length)]
    measures = {
        of(window): of(_over(window, names)) for window in windows if isinstance(window, t.AttributeWindow)
        for of in (key_name, bound_name)
    }  # fmt: skip

    def shipped(name: str) -> str:
        return measures.get(name, name) if is_hidden(name) else names[name]

    def term(expression: t.Expression) -> t.Expression:
        return replaced(expression, change)

    def test(one: Test) -> Test:
        return replace(one, predicate=replaced(one.predicate, change))

    def claim(one: Claim) -> Claim:
        match one.what:
            case Test():
                return replace(one, what=test(one.what))
            case Same(terms):
                return replace(one, what=Same({leaf: tuple(map(term, own)) for leaf, own in terms.items()}))
            case Either(cases):
                return replace(one, what=Either(tuple(tuple(map(test, case)) for case in cases)))
            case Length(t.AttributeWindow() as window):
                return replace(one, what=Length(_over(window, names)))
            case Length():
                return one

    def condition(one: Condition) -> Condition:
        operands = tuple(operand._replace(what=_changed(operand.what, change)) for operand in one.operands)
        return replace(one, claim=claim(one.claim), asked=replaced(one.asked, change), operands=operands)

    carrying = auto.carrying
    if carrying is not None:
        terms = [
            read._replace(
                what=_changed(read.what, change),
                partner=None if read.partner is None else _changed(read.partner, change),
            )
            for read in carrying.terms
        ]
        carrying = replace(carrying, terms=tuple(terms), conditions=tuple(map(condition, carrying.conditions)))
    return replace(
        auto,
        terms=tuple(map(term, auto.terms)),
        checks=tuple(map(claim, auto.checks)),
        denials=tuple(map(claim, auto.denials)),
        carrying=carrying,
    )
