"""Says which row of docs/reference.md, section 4 a query belongs to, and what it gives up.

In: a plan. Out: the class of the automaton that runs the query, its bounds, and in words all that is not done with
output-linear delay: NOT looked up for each candidate, runs that must be compared with each other, a strategy's choice.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ceql.automata.distinct import MANY
from ceql.automata.registers import Fold
from ceql.explain.carried import registers_met
from ceql.explain.names import listed
from ceql.explain.text import number
from ceql.plans import CandidateReason, Loop, Plan
from ceql.syntax import tree as t


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
    PREFERRED = Guarantee(
        "AFTER MATCH, conditions on single events",
        "linear in the states of the automaton, whatever the pattern",
        "linear in the events of the match",
    )
    PREFERRED_CARRIED = Guarantee(
        "AFTER MATCH, conditions between events",
        "linear in the states of the automaton, times the different values that runs in a state carry",
        "linear in the events of the match",
    )
    CHAIN = Guarantee("chain (chain-CEA)", "O(1), O(log w) with a window of w events", "output-linear delay")
    PCEA = Guarantee("parallel (PCEA: hierarchical equality joins)", "O(log w)", "output-linear delay")
    CARRIED = Guarantee(
        "any other condition between events (decided by what runs carry)",
        "linear in the groups that later conditions can tell apart, at most w^k where k values are carried, 2^w where "
        "sets of them are; O(log² w) where the only such condition is one inequality between neighbours",
        "output-linear delay",
    )
    CANDIDATES = Guarantee(
        "NOT that is looked up for each candidate",
        "as above; what NOT keeps away is looked up for each candidate",
        "not bounded",
    )


class Loss(NamedTuple):
    """A reason for which matches do not come straight from the automaton, and what that does to enumeration."""

    why: str
    enumeration: str


def query_class(plan: Plan) -> Class:
    """The class of the query as it is run."""
    if plan.loop is Loop.PREFERRED:
        return Class.PREFERRED_CARRIED if plan.compares else Class.PREFERRED
    if plan.loop is not Loop.GROUPS:
        return Class.UNARY if plan.rivalry is None else Class.RIVALS
    if plan.automaton.absences:
        return Class.CANDIDATES
    if plan.automaton.carrying is not None:
        return Class.CARRIED
    return Class.CHAIN if plan.automaton.is_chain else Class.PCEA


def guarantee(plan: Plan) -> Guarantee:
    """The bounds of this very query."""
    kind = query_class(plan)
    if plan.loop is Loop.PREFERRED and not plan.ends_starts and plan.after_match.skip is not t.Skip.TO_NEXT:
        return kind.value._replace(update=f"{kind.value.update}, for each start that is under way")
    if plan.loop is not Loop.GROUPS:
        return kind.value
    update = _update(plan)
    if kind is Class.CANDIDATES:
        update += "; what NOT keeps away is looked up for each candidate"
    enumeration = next((loss.enumeration for loss in losses(plan)), kind.value.enumeration)
    return Guarantee(kind.value.name, update, enumeration)


def totals(plan: Plan) -> str:
    """How `aggregate()` adds up the matches."""
    why = _why_enumerated(plan)
    adds = "COUNT, SUM, AVG, MIN and MAX over the graph: no match is enumerated"
    return adds if why is None else f"match by match: {why}"


def _why_enumerated(plan: Plan) -> str | None:
    if plan.loop is Loop.PREFERRED:
        return "there is one for each start at the most"
    if plan.limit:
        return "some are left out at each position"
    if plan.loop is not Loop.GROUPS:
        compared = plan.rivalry is not None and plan.query.window is not None
        return "a strategy compares those in the window" if compared else None
    if plan.candidate_reasons:
        return "they are made of candidates"
    if plan.automaton.shares_events:
        return "an event may serve several sides of ALL"
    if isinstance(plan.query.window, t.AttributeWindow):
        return "the attribute may fall, so each is measured"
    if any(link.unlike for transition in plan.automaton.transitions for link in transition.links):
        return "a disequality leaves out some runs of each list"
    return None


def when_decided(plan: Plan) -> str:
    """When a match of AFTER MATCH comes out."""
    if plan.is_late:
        return (
            "only at the end of the input: a greedy count prefers a further round, which may come at any time; with "
            "WITHIN, or a reluctant count (+?) or a contiguous one (:+), earlier"
        )
    late = ", at the latest when its window has passed" if plan.query.window is not None else ""
    return f"as soon as no run is left that would be preferred{late}"


def _update(plan: Plan) -> str:
    auto = plan.running
    met = [[auto.register(r) for r in registers] for _, registers in registers_met(auto)]
    k = max((sum(max(1, register.enough - 1) for register in registers) for registers in met), default=0)
    # what is known of forbidden events depends on the first of them alone
    folds = {register.fold for registers in met for register in registers if register.absence < 0}
    unbounded = any(register.enough == MANY for registers in met for register in registers)
    if Fold.LIST in folds:
        bound = "linear in the groups that an event meets, and in the lists that tell them apart: at most 2^w"
    elif Fold.SET in folds or unbounded:
        bound = "linear in the groups that an event meets, and in the sets that tell them apart: at most 2^w"
    elif Fold.SUM in folds:
        bound = "linear in the groups that an event meets, and in the sums that tell them apart: at most 2^w"
    elif k:
        most = "w" if k == 1 else f"w^{k}"
        apart = f"{number(k, 'carried value')} {'tells' if k == 1 else 'tell'} them apart"
        bound = f"linear in the groups that an event meets: at most {most}, as {apart}"
    elif any(index.order for index in auto.indexes):
        bound = "O(log² w)"
    elif auto.is_chain and plan.query.window is None:
        return "O(1)"
    else:
        bound = "O(log w)"
    return f"{bound}, w the events {'of the window' if plan.query.window is not None else 'so far'}"


def losses(plan: Plan) -> list[Loss]:
    """Why the runs of a position are gathered before any match is given out, the gravest reason first."""
    return [_loss(plan, reason) for reason in plan.candidate_reasons]


def how_chosen(plan: Plan, strategy: t.Strategy) -> str:
    """How NEXT, LAST or MAX chooses among the matches that end at a position."""
    if not plan.chooses_on_graph:
        return f"{strategy.value}: chosen among all candidates that end at a position"
    ways = {
        t.Strategy.NEXT: "the greatest set of events of each partial match, from the first event on",
        t.Strategy.LAST: "from the last event of a match backwards, those partial matches with the latest event",
        t.Strategy.MAX: "without the steps into which another event fits; the few matches that are left are compared",
    }
    return f"{strategy.value}: chosen on the graph, {ways[strategy]}"


def _loss(plan: Plan, reason: CandidateReason) -> Loss:
    match reason:
        case CandidateReason.ABSENCES:
            absent = listed(plan.shape.absences[watched.number].text for watched in plan.automaton.absences)
            return Loss(
                f"{absent}: looked up for each candidate, and any number of candidates may fail",
                "not bounded: candidates that fail are looked at too",
            )
        case CandidateReason.STRATEGY:
            assert plan.query.strategy is not None
            name, how = plan.query.strategy.value, how_chosen(plan, plan.query.strategy)
            if not plan.chooses_on_graph:
                return Loss(how, f"not bounded: {name} compares all candidates of a position")
            if plan.query.strategy is t.Strategy.LAST:
                return Loss(how, "for each event of the match, linear in the partial matches right before it")
            whole = "linear in the steps between the live partial matches, at most w²"
            return Loss(how, whole if plan.query.strategy is t.Strategy.NEXT else f"{whole}; what is left is compared")
        case CandidateReason.STRICT:
            return Loss(
                "STRICT: checked on each candidate, as the automaton follows events that are not shown, or several "
                "runs at a time",
                "not bounded: candidates that are not contiguous are looked at too",
            )
        case CandidateReason.DUPLICATES:
            return Loss(
                "the automaton is ambiguous: two runs may give the same match, so matches are compared for duplicates",
                "linear in the runs of a position, of which several may be one match",
            )
