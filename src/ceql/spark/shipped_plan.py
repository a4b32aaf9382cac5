"""The plan that tasks run: the query as its text compiles, over shipped columns (see `shipment`).

The automata are those of the query; keys, the window's attribute and the attributes that are compared between events
have the names of shipped columns. Guards keep the user's names: most of them are decided before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import cast

from ceql.analysis.conditions import leaves
from ceql.analysis.shape import Claim, Either, Same, Test, replaced
from ceql.automata.cea import CEA
from ceql.automata.correlated import Correlated
from ceql.plan import Plan, make_plan
from ceql.recognition.checks import attributes
from ceql.spark.commutation import Commutation, may_commute
from ceql.syntax import tree as t

WINDOW = "window"


@dataclass(frozen=True)
class ShippedPlan(Plan):
    """A plan over shipped columns. Keys that the result shows come first."""

    original: Plan
    keys: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    """The attributes that are compared between events, each with its shipped column."""

    @property
    def shown_keys(self) -> tuple[t.Part, ...]:
        return tuple(map(_part, self.keys[: len(self.original.shown_keys)]))

    @cached_property
    def split_by(self) -> tuple[t.Part, ...]:
        return tuple(map(_part, self.keys[len(self.original.shown_keys) :]))

    @cached_property
    def is_correlated(self) -> bool:
        return self.original.is_correlated

    @cached_property
    def cea(self) -> CEA:
        return self.original.cea

    @cached_property
    def correlated(self) -> Correlated:
        return _renamed(self.original.correlated, dict(self.names))

    @cached_property
    def commutation(self) -> Commutation | None:
        """Which symbols commute; None where none can."""
        return Commutation(self.cea, self.guards) if may_commute(self) else None


@lru_cache(maxsize=16)
def shipped_plan(text: str, keys: tuple[str, ...], names: tuple[tuple[str, str], ...]) -> ShippedPlan:
    """The plan of a query, kept for the tasks that a worker runs one after another, automaton included."""
    plan = make_plan(text)
    window = plan.query.window
    if isinstance(window, t.AttributeWindow):
        window = replace(window, attribute=WINDOW)
    query = replace(plan.query, window=window, streams=())
    return ShippedPlan(query, plan.source, plan.correlations, plan, keys, names)


def compared_attributes(plan: Plan) -> tuple[str, ...]:
    """The attributes that the second loop compares between events, in indexes or on candidates."""
    if not plan.is_correlated:
        return ()
    auto = plan.correlated
    looked_up = {leaf.name for term in auto.terms for leaf in leaves(term) if isinstance(leaf, t.Attribute)}
    return tuple(sorted(looked_up.union(*(attributes(claim) for claim in auto.checks))))


def _part(column: str) -> t.Part:
    return t.Part((t.PartRef(column),))


def _renamed(auto: Correlated, names: Mapping[str, str]) -> Correlated:
    """The automaton, its attributes under other names."""

    def change(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        if isinstance(leaf, t.Attribute):
            return replace(leaf, name=names[leaf.name])
        return replace(leaf, attribute=names[leaf.attribute])

    def term(expression: t.Expression) -> t.Expression:
        return cast(t.Expression, replaced(expression, change))

    def test(one: Test) -> Test:
        return replace(one, predicate=cast(t.Predicate, replaced(one.predicate, change)))

    def claim(one: Claim) -> Claim:
        match one.what:
            case Test():
                return replace(one, what=test(one.what))
            case Same(terms):
                return replace(one, what=Same({leaf: tuple(map(term, own)) for leaf, own in terms.items()}))
            case Either(cases):
                return replace(one, what=Either(tuple(tuple(map(test, case)) for case in cases)))

    return replace(auto, terms=tuple(map(term, auto.terms)), checks=list(map(claim, auto.checks)))
