"""How each condition across events is checked, and why not in a better way.

In: a plan. Out: for each claim of its formula one of four ways (`How`), with the reason. What is said is read from the
compiled automaton: from its `checks`, its indexes and the equalities that break the hierarchy, not from how a
condition is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ceql.analysis.conditions import leaves as attributes_of
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import to_normal
from ceql.analysis.shape import Claim, Either, Same, Shape, Test, join_of, prev_of
from ceql.analysis.substreams import part_of, relative_to_substreams
from ceql.automata.correlated import Correlated
from ceql.automata.lookups import compared, out_of_reach
from ceql.errors import QueryError
from ceql.explain.formula import print_normal
from ceql.plan import CorrelatedPlan, Plan
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition, print_name

_INEQUALITIES = ("<", "<=", ">", ">=")


class How(Enum):
    """The ways to check a claim, the best first."""

    SUBSTREAMS = "by substreams"
    LOOKED_UP = "looked up"
    NARROWED = "looked up in part, then checked on each candidate"
    CHECKED = "checked on each candidate"


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


def leaf_name(shape: Shape, leaf: int) -> str:
    """The variable of a leaf's events, or their type."""
    here = shape.leaf[leaf]
    return print_name(min(here.variables - {here.type}, default=here.type))


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} and {last}" if first else last


def _judge(plan: Plan, whole: Shape, claim: Claim) -> tuple[How, str]:
    if isinstance(plan, CorrelatedPlan) and claim in plan.shape.claims:
        return _Judge(plan).judge(claim)
    return How.SUBSTREAMS, _split(whole, claim)


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
    def __init__(self, plan: CorrelatedPlan) -> None:
        self.plan = plan
        self.shape = plan.shape

    def judge(self, claim: Claim) -> tuple[How, str]:
        auto = self.plan.automaton
        known = next((e for e in equalities(self.shape) if claim.number in e.claims), None)
        if all(c is not claim for c in auto.checks):
            return How.LOOKED_UP, self._looked_up(claim, known)
        if known is None:
            looked_up = any(c is claim for c in auto.looked_up)
            return How.NARROWED if looked_up else How.CHECKED, _no_equality(auto, claim)
        return self._unsettled(auto, claim, known)

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

    def _unsettled(self, auto: Correlated, claim: Claim, known: Equality) -> tuple[How, str]:
        text = claim_text(claim)
        used = _is_compared(self.shape, auto, known)
        how = How.NARROWED if used else How.CHECKED
        for equality, other in auto.parallel.conflicts:
            if claim.number in equality.claims:
                return how, _conflict(self.shape, equality, other, text)
        whose = _whose(self.shape, claim)
        between = [_event_name(self.shape, leaf) for leaf in sorted(out_of_reach(self.shape, auto.parallel, known))]
        together = _together(self.shape, claim, known)
        if not between:
            return how, f"'{text}' cannot be looked up at every step{together}, so it is checked on each candidate"
        stands = f"an event of {between[0]} stands" if len(between) == 1 else f"events of {listed(between)} stand"
        if used:
            why = f"'{text}' is looked up only between neighbours{together}: {stands} between {whose}"
            return how, f"{why}, so it is checked on each candidate"
        return how, f"{whose} never follow each other: {stands} between them, where no step can look the value up"


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


def _whose(shape: Shape, claim: Claim) -> str:
    if isinstance(claim.what, Test):
        return listed(print_name(name) for name in claim.what.variables)
    return "the events of " + (listed(leaf_name(shape, leaf) for leaf in shape.below(claim.node)))


def _event_name(shape: Shape, leaf: int) -> str:
    kind, name = print_name(shape.leaf[leaf].type), leaf_name(shape, leaf)
    return kind if kind == name else f"{kind} ({name})"


def _conflict(shape: Shape, one: Equality, other: Equality, text: str) -> str:
    both, kinds = one.terms.keys() & other.terms.keys(), [leaf.type for leaf in shape.leaf.values()]

    def named(leaves: Iterable[int]) -> str:
        plain = len(set(kinds)) == len(kinds)
        return listed(print_name(shape.leaf[k].type) if plain else _event_name(shape, k) for k in leaves)

    single = sorted(one.terms.keys() ^ other.terms.keys())
    with_ = listed(f"'{claim_text(shape.claim(number))}'" for number in other.claims)
    parts = f"{named(sorted(both))} {'takes' if len(both) == 1 else 'take'} part in both"
    ones = f"{named(single)} in one {'each' if len(single) > 1 else 'only'}"
    return (
        f"'{text}' breaks the hierarchy with {with_}: {parts}, {ones}"
        if both and single
        else (f"'{text}' breaks the hierarchy with {with_}")
    )


def _is_compared(shape: Shape, auto: Correlated, equality: Equality) -> bool:
    """Whether some step looks up an equality at all."""
    return any(
        compared(shape, equality, auto.parallel.last[state], step) is not None
        for step in auto.parallel.steps
        for source in step.sources
        for state in source.states
    )


def _no_equality(auto: Correlated, claim: Claim) -> str:
    """Why a claim is nothing that can be looked up as it stands."""
    test = claim.what
    if isinstance(test, Either):
        return "it is a disjunction, some case of which has nothing to look up"
    if isinstance(test, Same):
        return "its value is not known at every step"
    text = print_condition(test.predicate)
    why = _prev_reason(auto, claim, test) if test.has_prev else _join_reason(auto.shape, claim, test)
    return f"'{text}' {why}"


def _prev_reason(auto: Correlated, claim: Claim, test: Test) -> str:
    p, shape = test.predicate, auto.shape
    if isinstance(p, t.Comparison) and p.op in _INEQUALITIES:
        return f"is an inequality with PREV ('{p.op}'): runs are looked up by a value, not by a range"
    if len(test.variables) > 1:
        return f"compares PREV and events of {listed(map(print_name, test.variables))} at once"
    simple = prev_of(test)
    if simple is None:
        return "is not a comparison, by = or !=, of PREV's attributes on one side with the event's own on the other"
    assert test.owner is not None
    scope = test.variables[test.owner].scope
    if scope != claim.node and not shape.surely(scope, shape.below(claim.node)):
        return "stands in a part of the formula that a match may do without (OR)"
    if simple[0] == "!=":
        if any(link.unlike for transition in auto.transitions for link in transition.links):
            return "is one of several disequalities with PREV of one event: an index can leave out one value"
        return (
            "is a disequality with PREV: runs are looked up by the value that they have, not by one that they have not"
        )
    return "is not looked up"


def _join_reason(shape: Shape, claim: Claim, test: Test) -> str:
    p = test.predicate
    variables = listed(map(print_name, test.variables))
    if len(test.variables) == 1:
        return f"is about {variables} alone, but in a part of the formula that a match may do without (OR)"
    if not isinstance(p, t.Comparison):
        return f"is not a comparison of {variables} by ="
    if p.op in _INEQUALITIES:
        return f"is an inequality ('{p.op}'): runs are looked up by a value, not by a range"
    if p.op != "=":
        return "is a disequality: runs are looked up by the value that they have, not by one that they have not"
    join = join_of(test)
    if join is None:
        mixed = [s for s in (p.left, p.right) if len(_variables(s)) > 1]
        whose = listed(map(print_name, sorted(_variables(mixed[0])))) if mixed else variables
        return f"has a side that is calculated from two events, of {whose}" if mixed else f"is not one of {whose}"
    x, _, y, _ = join
    one, two = test.variables[x], test.variables[y]
    inner, scope = sorted((one.scope, two.scope), key=shape.above(claim.node).index)
    if inner != claim.node and not shape.surely(inner, shape.below(claim.node)):
        return "stands in a part of the formula that a match may do without (OR)"
    for name, comparand, other in ((x, one, y), (y, two, x)):
        if not shape.surely(scope, comparand.leaves):
            return (
                f"is about {print_name(name)}, which may be unbound (OR): nothing is asked of {print_name(other)} "
                "then, so it cannot be a key"
            )
    return "is not looked up"


def _variables(side: t.Expression) -> set[str]:
    return {leaf.variable for leaf in attributes_of(side) if isinstance(leaf, t.Ref)}
