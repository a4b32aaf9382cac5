"""Says how each condition across events is decided, and why not in a better way.

In: a plan. Out: for each claim of its formula one of the ways (`How`), with the reason. What is said is read from the
compiled automaton: from what its runs carry and its steps decide (`decisions.py`), from its indexes and the equalities
that break the hierarchy, not from how a condition is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ceql.analysis.between import conditions
from ceql.analysis.conditions import of_one_event
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.neighbours import lags_in, over_lags
from ceql.analysis.normal import to_normal
from ceql.analysis.shape import Claim, Kind, Length, Shape, Test
from ceql.analysis.substreams import part_of, relative_to_substreams
from ceql.automata.carrying import MOST_SETS
from ceql.automata.correlated import Correlated
from ceql.automata.lookups import compared
from ceql.automata.parallel import build
from ceql.errors import QueryError
from ceql.explain.decisions import How, decisions, in_words, worst
from ceql.explain.formula import print_normal
from ceql.explain.names import leaf_name, listed
from ceql.plans import Loop, Plan
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition, print_name
from ceql.syntax.walking import nodes


class Judged(NamedTuple):
    """A claim, its place in the text, how it is checked, and why so. `where`: the part of the formula that it is in."""

    claim: Claim
    text: str
    line: int
    column: int
    how: How
    why: str
    where: str | None = None


def judged(plan: Plan) -> list[Judged]:
    """Every claim of the query, in the order of the text; copies that a disjunction made count once, by the worst."""
    if plan.whole is None:
        return []
    found: dict[object, Judged] = {}
    for claim in claims(plan):
        how, why = _judge(plan, plan.whole, claim)
        text = claim_text(claim)
        place = QueryError("", plan.source, claim.span)
        where = None if claim.node == plan.whole.root else print_normal(to_normal(plan.whole, claim.node))
        one = Judged(claim, text, place.line or 1, place.column or 1, how, why, where)
        known = found.get((text, claim.span))
        if known is None or list(How).index(known.how) < list(How).index(how):
            found[text, claim.span] = one
    return sorted(found.values(), key=lambda j: (j.line, j.column))


def claims(plan: Plan) -> tuple[Claim, ...]:
    """All claims of the formula, those that became substreams too."""
    return () if plan.whole is None else plan.whole.claims


def claim_text(claim: Claim) -> str:
    """A claim as a condition over variables."""
    match claim.what:
        case Test(predicate):
            return print_condition(predicate)
        case _:
            return claim.text


def _judge(plan: Plan, whole: Shape, claim: Claim) -> tuple[How, str]:
    if plan.loop is Loop.GROUPS and claim in plan.shape.claims:
        return _Judge(plan).judge(claim)
    if plan.compares and claim in plan.shape.claims:
        return _of_runs(plan.automaton, claim)
    if plan.lags:
        return How.AT_EVENT, _of_neighbours(whole, claim)
    return How.SUBSTREAMS, _split(whole, claim)


def _of_runs(auto: Correlated, claim: Claim) -> tuple[How, str]:
    """How the loop over ordered runs decides a claim: it looks nothing up."""
    known = next((e for e in equalities(auto.shape) if claim.number in e.claims), None)
    found = [
        decision if decision.how is How.LISTED else decision._replace(how=How.TESTED)
        for decision in decisions(auto, claim, known, auto.indexes)
    ]
    if not found:
        return How.NOTHING, "no way through the formula reads all the events that it is about, so it holds"
    return worst(found), "; ".join(in_words(found)).replace("group by group", "run by run")


def _of_neighbours(whole: Shape, claim: Claim) -> str:
    single = over_lags(whole, claim)
    variables = listed(print_name(name) for one in single for test in one.tests for name in test.variables)
    lags = [steps for one in single for _, steps in lags_in(of_one_event(test.predicate) for test in one.tests)]
    far = max(lags, default=0)
    if not far:
        return f"when {variables} comes"
    before = "the event before" if far == 1 else f"the {far} events before"
    return f"when {variables} comes, by {before}: as ':' joins them, their values are columns of the event"


def _split(whole: Shape, claim: Claim) -> str:
    for equality in equalities(whole):
        if claim.number in equality.claims:
            part = part_of(whole, equality)
            if part is not None:
                return (
                    f"every event of a match has the same {print_part(part)}, so the stream is split by it; as "
                    "nothing here is relative to the substream (contiguity, STRICT, n EVENTS, CONSUME BY "
                    "PARTITION), the matches are the same"
                )
    return "the stream is split by it"


class _Judge:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shape = plan.shape

    def judge(self, claim: Claim) -> tuple[How, str]:
        auto = self.plan.automaton
        known = next((e for e in equalities(self.shape) if claim.number in e.claims), None)
        found = decisions(auto, claim, known, self.plan.running.indexes)
        said = in_words(found)
        if known is not None:
            used = _is_compared(self.shape, auto, known)
            if not found:
                own = "its values are of one event, and none may be NULL"
                return (How.LOOKED_UP, self._looked_up(claim, known)) if used else (How.AT_EVENT, own)
            if used:
                said.insert(0, f"between neighbours it is looked up by hash{_together(self.shape, claim, known)}")
            said += [f"it {broken}, so ALL is a product of its sides" for broken in self._broken(claim)]
        elif not found and any(c is claim for c in auto.looked_up):
            return How.LOOKED_UP, self._looked_up(claim, None)
        if not found:
            return How.NOTHING, "no way through the formula reads all the events that it is about, so it holds"
        if worst(found) is How.LISTED:
            said.append(_why_listed(self.shape, claim))
        return worst(found), "; ".join(said)

    def _broken(self, claim: Claim) -> list[str]:
        """How a claim breaks the hierarchy, where its automaton runs no ALL in parallel for that."""
        prev = [
            test.variables[test.owner].leaves
            for other in self.shape.claims
            for test in other.tests
            if test.has_prev and test.owner is not None
        ]
        parallel = build(self.shape, equalities(self.shape), frozenset[int]().union(*prev))
        broken = [(one, other) for one, other in parallel.conflicts if claim.number in one.claims]
        return [_conflict(self.shape, one, other) for one, other in broken]

    def _looked_up(self, claim: Claim, known: Equality | None) -> str:
        if known is None:
            test = claim.what
            prev = "PREV is the last event of a run, and " if isinstance(test, Test) and test.has_prev else ""
            predicate = test.predicate if isinstance(test, Test) else None
            if isinstance(predicate, t.Comparison) and predicate.op == "!=":
                return f"{prev}a step looks up the runs that have another value there"
            return f"{prev}a step looks up the runs that have its value there"
        together = _together(self.shape, claim, known)
        why = f"a step looks up the runs whose last event has its value{together}; no other event can stand between"
        reason = relative_to_substreams(self.shape, self.plan.query)
        if reason is not None and part_of(self.shape, known) is not None:
            why += f" (the stream is not split by it: {reason} is relative to the substream)"
        return why


def print_part(part: t.Part) -> str:
    """
    >>> print_part(t.Part((t.PartRef("a"), t.PartRef("b", "T"))))
    '[a, T.b]'
    """
    refs = (
        print_name(r.attribute) if r.name is None else f"{print_name(r.name)}.{print_name(r.attribute)}"
        for r in part.refs
    )
    return "[" + ", ".join(refs) + "]"


def _together(shape: Shape, claim: Claim, known: Equality) -> str:
    others = [f"'{claim_text(shape.claim(number))}'" for number in known.claims if number != claim.number]
    return f" (one value with {listed(others)})" if others else ""


def _event_name(shape: Shape, leaf: int) -> str:
    kind, name = print_name(shape.leaf[leaf].type), leaf_name(shape, leaf)
    return kind if kind == name else f"{kind} ({name})"


def _conflict(shape: Shape, one: Equality, other: Equality) -> str:
    both, kinds = one.terms.keys() & other.terms.keys(), [leaf.type for leaf in shape.leaf.values()]

    def named(leaves: Iterable[int]) -> str:
        plain = len(set(kinds)) == len(kinds)
        return listed(print_name(shape.leaf[k].type) if plain else _event_name(shape, k) for k in leaves)

    single = sorted(one.terms.keys() ^ other.terms.keys())
    with_ = listed(f"'{claim_text(shape.claim(number))}'" for number in other.claims)
    parts = f"{named(sorted(both))} {'takes' if len(both) == 1 else 'take'} part in both"
    ones = f"{named(single)} in one {'each' if len(single) > 1 else 'only'}"
    return f"breaks the hierarchy with {with_}" + (f": {parts}, {ones}" if both and single else "")


def _is_compared(shape: Shape, auto: Correlated, equality: Equality) -> bool:
    """Whether some step looks up an equality at all."""
    return any(
        compared(shape, equality, auto.parallel.last[state], step) is not None
        for step in auto.parallel.steps
        for source in step.sources
        for state in source.states
    )


def _why_listed(shape: Shape, claim: Claim) -> str:
    """Why nothing less than all its events decides a claim."""
    if isinstance(claim.what, Length) or any(test.is_measured for test in claim.tests):
        return _whole(shape, claim)
    if any(isinstance(part, t.Call) for test in claim.tests for part in nodes(test.predicate)):
        return (
            "a function other than ABS, FLOOR, CEIL and ROUND to whole numbers takes values of several events, or "
            "gives a value where PREV is NULL"
        )
    if any(condition.listed is not None for condition in conditions(shape, [claim])):
        return "it combines events of different rounds of an iteration, or is an OR of too many cases to follow"
    return f"it combines all events of more than {MOST_SETS} variables with many events each"


def _whole(shape: Shape, claim: Claim) -> str:
    """Why no single value that runs could carry of a part as a whole decides a claim."""
    if any(shape.nodes[node].kind is Kind.ALL for node in shape.above(claim.node)[1:]):
        return "a side of ALL goes round before the others have ended, and does not tell when a round is complete"
    return (
        "it is about all events of a variable together, in a way that no single value tells: with an aggregate of "
        "all values at once (MEDIAN, STDDEV, FIRST(e, n), ...), a text, a function, an OR of several events, or a "
        "variable that comes after several rounds"
    )
