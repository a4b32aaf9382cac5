"""Measures what each clause takes away: the query built up clause by clause, all versions fed with the same events.

In: a plan. Out: rungs, from the bare formula to the query itself, in the order in which the clauses apply
(docs/reference.md, section 3), each with its matches and the positions at which they end (`counting.py`).
"""

from __future__ import annotations

from dataclasses import replace

from ceql.analysis.conditions import named
from ceql.analysis.scopes import forbids, subformulas
from ceql.diagnose.counting import counter
from ceql.diagnose.findings import Rung
from ceql.plan import plan_query
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.syntax import tree as t
from ceql.syntax.printer import print_query
from ceql.syntax.walking import mapped

ALONE = "WHERE, each event by itself"


def versions(plan: Plan) -> list[tuple[str, Plan]]:
    """The query with its first clause, its first two, and so on; the last is the query.

    >>> from ceql.plan import make_plan
    >>> [name for name, _ in versions(make_plan("SELECT NEXT * WHERE A ; B WITHIN 3 EVENTS LIMIT 1"))]
    ['WHERE', 'WITHIN 3 EVENTS', 'NEXT', 'LIMIT 1']
    >>> [name for name, _ in versions(make_plan("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k"))]
    ['WHERE, each event by itself', 'WHERE']
    """
    query = plan.query
    written = {line.split(" ", 1)[0]: line for line in print_query(query).split("\n")}
    partial = replace(
        query, partition=(), window=None, strategy=None, limit=None, consume=t.Consume.NONE, after_match=None
    )
    found = [("WHERE", partial)]
    if query.partition:
        found.append((written["PARTITION"], partial := replace(partial, partition=query.partition)))
    if query.window is not None:
        found.append((written["WITHIN"], partial := replace(partial, window=query.window)))
    if query.strategy not in (None, t.Strategy.ALL):
        assert query.strategy is not None
        found.append((query.strategy.value, partial := replace(partial, strategy=query.strategy)))
    if query.limit is not None:
        found.append((f"LIMIT {query.limit}", partial := replace(partial, limit=query.limit)))
    if query.consume is not t.Consume.NONE:
        found.append((f"CONSUME BY {query.consume.value}", replace(partial, consume=query.consume)))
    if query.after_match is not None:
        found.append((written["AFTER"], replace(partial, after_match=query.after_match)))
    plans = [(name, plan_query(version, plan.source, prefers_unary=True)) for name, version in found]
    first = plans[0][1]
    if first.whole is not None:
        every = frozenset(claim.number for claim in first.whole.claims)
        plans.insert(0, (ALONE, plan_query(first.query, plan.source, every, prefers_unary=True)))
    return plans


def without_absences(plan: Plan) -> Plan | None:
    """The query without what it says must not come; None if it says nothing of the kind.

    >>> from ceql.plan import make_plan
    >>> print(print_query(without_absences(make_plan("SELECT * WHERE A ; NOT B ; C FILTER C[v>1] AND B[v>2]")).query))
    SELECT *
    WHERE A ; C FILTER C[v > 1]
    """
    formula = plan.query.formula
    if not any(isinstance(part, t.Not) for part in subformulas(formula)):
        return None
    return plan_query(replace(plan.query, formula=_there(formula, forbids(formula))), plan.source, prefers_unary=True)


def _there(formula: t.Formula, gone: frozenset[str]) -> t.Formula:
    """The formula without items of NOT, and without the conditions that speak of the events that are `gone`."""
    match formula:
        case t.Then(items, joints):
            kept = [k for k, item in enumerate(items) if not isinstance(item, t.Not)]
            parts = tuple(_there(items[k], gone) for k in kept)
            # beside NOT, both joints are the same
            return t.Then(parts, tuple(joints[k - 1] for k in kept[1:])) if len(parts) > 1 else parts[0]
        case t.Filter(inner, condition):
            asked = condition.items if isinstance(condition, t.Conj) else (condition,)
            left = tuple(one for one in asked if not named(one) & gone)
            below = _there(inner, gone)
            if not left:
                return below
            return t.Filter(below, left[0] if len(left) == 1 else t.Conj(left))
        case _:
            return mapped(formula, lambda part: _there(part, gone))


class Version:
    """The query up to one of its clauses, at work."""

    def __init__(self, clause: str, bound: BoundPlan) -> None:
        self.clause = clause
        self.bound = bound
        self.plan = bound.plan
        self.counter = counter(bound)

    @property
    def is_unchosen(self) -> bool:
        """Whether all runs count: nothing is chosen or forgotten."""
        query = self.plan.query
        return query.strategy is None and query.after_match is None and query.consume is t.Consume.NONE

    def rung(self) -> Rung:
        """The positions and matches that the clause leaves."""
        tally = self.counter.tally()
        return Rung(self.clause, tally.positions, tally.matches, tally.counted_all, tally.all_positions)


def clause_by_clause(bound: BoundPlan) -> list[Version]:
    """All versions of the query, ready to be fed."""
    return [Version(clause, replace(bound, plan=plan)) for clause, plan in versions(bound.plan)]
